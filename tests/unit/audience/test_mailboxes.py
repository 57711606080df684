"""Spellings of one mailbox are counted as one."""

import pytest

from postroom.domain.audience.addresses import canonical_mailbox, parse_address


@pytest.mark.parametrize(
    ("address", "mailbox"),
    [
        ("J.o.h.n.Doe@gmail.com", "johndoe@gmail.com"),
        ("johndoe+news@GoogleMail.com", "johndoe@gmail.com"),
        ("john.doe+a.b@googlemail.com", "johndoe@gmail.com"),
        ("john.doe+x@outlook.com", "john.doe@outlook.com"),
        ("john.doe+x@hotmail.co.uk", "john.doe@hotmail.co.uk"),
        ("John+x@me.com", "john@icloud.com"),
        ("jo-hn.d_oe@pm.me", "johndoe@proton.me"),
        ("john.doe@ya.ru", "johndoe@yandex.ru"),
        ("john-shop@yahoo.com", "john@yahoo.com"),
        ("john.doe+x@contoso.example", "john.doe@contoso.example"),
        ("j-d@contoso.example", "j-d@contoso.example"),
        ("+x@contoso.example", "+x@contoso.example"),
        ("-@pm.me", "-@proton.me"),
        ("김+소식@예시.com", "김@예시.com"),
    ],
)
def test_spellings_of_a_mailbox(address: str, mailbox: str) -> None:
    assert canonical_mailbox(parse_address(address)) == mailbox
