"""The emails that all clients send: about 2 KB, or about 40 KB."""

from __future__ import annotations

from datetime import UTC, datetime

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient
from postroom.services.messages.message_contents import NewBodies

FROM = Address("news@contoso.example")
LIST = ListName("contoso1")
_GUID = SubscriberGuid("30d8ca0a-8246-48fc-be45-33f475439972")


OVERHEAD = 1450
"""Bytes of Postroom's headers, borders of the parts, and links to unsubscribe in both of them."""


def bodies(kilobytes: int, overhead: int = OVERHEAD) -> NewBodies:
    """Return HTML and text for an email of about this size, headers included."""
    text = "All work and no play makes a dull newsletter indeed.\n"
    line = f"<p>{text.strip()}</p>\n"
    lines = max(1, (kilobytes * 1024 - overhead) // (len(line) + len(text)))
    return NewBodies(f"<html><body>\n{line * lines}</body></html>", text * lines)


def linked_bodies(kilobytes: int) -> NewBodies:
    """Return the same with five links."""
    plain = bodies(kilobytes)
    links = "".join(f'<a href="https://www.example.com/{each}">Read</a>\n' for each in range(5))
    html = (plain.html or "").replace("<body>", f"<body>\n<p>{links}</p>")
    return NewBodies(html, plain.text)


FIELDS = ("first_name", "last_name", "source")


def personal_bodies(kilobytes: int) -> NewBodies:
    """Return the same with three fields of the subscriber in each body."""
    plain = bodies(kilobytes)
    hello = " ".join(f'{{{{ {name} | default: "you" }}}}' for name in FIELDS)
    html = (plain.html or "").replace("<body>", f"<body>\n<p>Hello {hello}</p>")
    return NewBodies(html, f"Hello {hello}\n{plain.text}")


def attributes(number: int) -> dict[str, str]:
    """Return the fields of a subscriber."""
    return dict(
        zip(FIELDS, (f"Name{number % 20_000}", f"Other {number % 5000}", "web"), strict=True)
    )


def mailing(kilobytes: int) -> Mailing:
    both = bodies(kilobytes)
    return compile_mailing(
        ref=MessageRef("638987654321000000"),
        subject="News",
        html=both.html,
        text=both.text,
        list_name=LIST,
        description="Contoso's news",
        from_address=FROM,
        base_url="https://lists.contoso.example",
        date=datetime(2026, 11, 15, tzinfo=UTC),
    )


def address(number: int) -> Address:
    return Address(f"user{number:07}@example.com")


def recipient(number: int) -> Recipient:
    return Recipient(address(number), _GUID)
