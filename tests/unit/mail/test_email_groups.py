"""The emails of a group: composed together, they are the same as one by one."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from postroom.domain.audience.lists.lists import ListName, SubscriberGuid, new_guid
from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bounces.envelope_tokens import EnvelopeSigner
from postroom.mail.compose import compile_mailing
from postroom.mail.dkim import DkimSigner
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.personal.merge_fields import Columns
from postroom.mail.tracking.link_tracking import link_table, tracking_of
from postroom.mail.tracking.tracking_tokens import TrackingTokens
from postroom.sender.signing import SignedMailing
from tests.unit.mail.mailings import DATE, REF, mailing, recipient

BASE = "https://lists.example.com"
CONDITION = 'city = "Bern"'
PARTS = (
    'Hello {{ name | default: "you" }} from {{ city | default: "-" }}, {{ email }}.\n'
    f'{{% if {CONDITION} %}}\nYou live in {{{{ city | default: "-" }}}}.\n{{% else %}}\n'
    "Come to Bern, {{ email }}!\n{% end %}\n"
)
HTML = f'<p>{PARTS}</p><a href="https://example.com/a?u={{{{ email }}}}">a</a>'
LINKED = f'{HTML}<a href="https://example.com/b">b</a> <a href="https://example.com/c">c</a>'
ADDRESSES = (
    "anna@example.org",
    "a_b+c@example.org",
    ".dot@example.org",
    "o'brien&co@example.org",
    "ünal@exämple.org",
    f"{'a' * 64}@example.org",
    f"{'+' * 60}@example.org",
)
VALUES = (
    ("Ann", "Bern", "1"),
    ("", "", ""),
    ("Zoë & Co", "Bern", "1"),
    (".Jo", "Genève", ""),
    ("From here", "x" * 90, ""),
    ("Ann", "Oslo", ""),
    (),
)


def personal() -> Mailing:
    ref = MessageRef(REF)
    tokens = TrackingTokens([b"l" * 32]).of_message(ref)
    return compile_mailing(
        ref=ref,
        subject='{{ name | default: "You" }}: {{ email }}',
        html=LINKED,
        text=PARTS,
        list_name=ListName("contoso1"),
        description="Contoso news",
        from_address=mailing().from_address,
        base_url=BASE,
        date=DATE,
        columns=Columns(("name", "city"), (CONDITION,)),
        envelope=EnvelopeSigner([b"k" * 32], domain="bounce.example.com").of_message(ref),
        tracking=tracking_of(BASE, tokens.of_everybody, link_table(LINKED, BASE), tokens),
    )


def people(count: int = 60) -> list[Recipient]:
    return [
        Recipient(
            recipient(ADDRESSES[number % len(ADDRESSES)]).address,
            new_guid(),
            VALUES[number % len(VALUES) if number < 50 else number % 2],
            number % 3 == 0,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("made", [mailing(html="<p>x", text="y"), personal()])
@pytest.mark.parametrize("count", [1, 7, 60])
def test_emails_composed_together_are_those_composed_one_by_one(made: Mailing, count: int) -> None:
    recipients = people(count)
    emails = made.group(recipients)
    for place, each in enumerate(recipients):
        assert emails.wire(place) == made.wire(each)
        assert emails.mail(place) == made.mail(each)
        expected = "" if made.envelope is None else made.envelope.token(each.guid)
        assert emails.token(place) == expected


def test_one_who_cannot_get_the_email_does_not_keep_the_others_from_it() -> None:
    made, recipients = personal(), people(5)
    recipients[1] = Recipient(recipients[1].address, SubscriberGuid("<>"), recipients[1].values)
    recipients[3] = recipient("a\nb@example.org", recipients[3].guid, recipients[3].values)
    emails = made.group(recipients)
    for place in (1, 3):
        with pytest.raises(Invalid):
            emails.wire(place)
    for place in (0, 2, 4):
        assert emails.wire(place) == made.wire(recipients[place])


def test_signed_emails_are_signed_together_too() -> None:
    made, recipients = personal(), people(9)
    signed = SignedMailing(
        made, [DkimSigner("contoso.example", "one", Ed25519PrivateKey.generate())]
    )
    signed.sign(recipients)
    emails = signed.group(recipients)
    for place, each in enumerate(recipients):
        assert emails.wire(place) == signed.wire(each)
        assert emails.mail(place).startswith(b"DKIM-Signature: ")
        assert emails.wire(place).endswith(made.wire(each))
        assert emails.token(place) == made.group(recipients).token(place)
