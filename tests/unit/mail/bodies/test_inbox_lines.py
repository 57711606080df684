"""What an inbox shows besides the subject: preheader, sender's name, Reply-To."""

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bodies.preheader import first_words, with_preheader
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient

DATE = datetime(2026, 11, 15, 9, tzinfo=UTC)
ANN = Recipient(Address("ann@example.com"), SubscriberGuid("00000000-0000-4000-8000-000000000000"))


def mailing(html: str = "<p>Hi</p>", **lines: Any) -> Mailing:
    return compile_mailing(
        ref=MessageRef("639000000000000000"),
        subject="Hi",
        html=html,
        text="Hi",
        list_name=ListName("news"),
        description="The news",
        from_address=Address("news@contoso.com"),
        base_url="https://lists.contoso.com",
        date=DATE,
        **lines,
    )


def read(mail: Mailing) -> EmailMessage:
    found = message_from_bytes(mail.mail(ANN), policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def test_name_and_reply_to_are_headers_and_without_them_nothing_changes() -> None:
    mail = read(mailing(from_name="Ann, of Größe", reply_to="ann@contoso.com"))
    assert mail["From"] == '"Ann, of Größe" <news@contoso.com>'
    assert mail["Reply-To"] == "ann@contoso.com"
    plain = read(mailing())
    assert plain["From"] == "The news <news@contoso.com>"
    assert plain["Reply-To"] is None
    with pytest.raises(Invalid):
        mailing(from_name="a\r\nBcc: b@example.com")
    with pytest.raises(Invalid):
        mailing(reply_to="nobody")


def test_the_preheader_is_the_first_text_of_the_html_and_hidden() -> None:
    mail = read(mailing(preheader="For {{ email }} & <you>"))
    body = mail.get_body(("html",))
    assert body is not None
    shown = body.get_content()
    _, _, column = shown.partition('<div style="max-width:600px;margin:0 auto">')
    assert column.lstrip().startswith('<div style="display:none')
    assert "For ann@example.com &amp; &lt;you&gt;" in shown
    assert shown.index("&lt;you&gt;") < shown.index("<p>Hi</p>")
    text = mail.get_body(("plain",))
    assert text is not None
    assert "you" not in text.get_content().partition("--------")[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "<p>Hi"),
        ("<!doctype html>\n", "<p>Hi"),
        ("<!doctype html><html lang=en>", "<p>Hi"),
        ("<html><head><title>x</title></head>", "<p>Hi"),
        ("<html><head></head><body class='a>b'>", "<p>Hi</body></html>"),
        ("<!-- <body> --><body>", "Hi"),
    ],
)
def test_it_stands_where_the_visible_part_begins(before: str, after: str) -> None:
    found = with_preheader(before + after, "Look")
    assert found.startswith(before + '<div style="display:none')
    assert found.endswith(after)
    assert with_preheader(before + after, "") == before + after


def test_without_a_preheader_an_inbox_shows_the_first_words() -> None:
    html = "<title>No</title><body><h1>Hello</h1>\n<p>Dear <b>Ann</b>, <a href=x>read</a>.</p>"
    assert first_words(html) == "Hello Dear Ann, read."
    assert len(first_words("<p>word</p>" * 10_000)) < 300
