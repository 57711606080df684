"""Previews and test emails of a message that is not sent yet. Nothing is stored."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from postroom import clock
from postroom.domain.audience.addresses import Address, address_key, parse_address
from postroom.domain.audience.lists.lists import MailingList, new_guid
from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.personal.merge_fields import ANYBODY, Personal, columns_in
from postroom.services.messages.message_contents import (
    NO_LINES,
    InboxLines,
    NewBodies,
    checked_subject,
)
from postroom.transport.contract import Result, ResultKind, Transport, Unwatched

SUBJECT_MARK = "[Test] "
MOST_TESTS: Final = 10
_TEST_SECONDS: Final = 60.0


def draft_mailing(
    mailing_list: MailingList,
    subject: str,
    bodies: NewBodies,
    base_url: str,
    lines: InboxLines = NO_LINES,
    personal: Personal = ANYBODY,
    web_url: str = "",
) -> Mailing:
    """Compile a draft; raise `Invalid`."""
    checked = checked_subject(subject, personal.rules)
    return _mailing(mailing_list, checked, bodies, base_url, lines, (), web_url)


def draft_values(
    subject: str, bodies: NewBodies, lines: InboxLines, personal: Personal
) -> tuple[str, ...]:
    """Return the values of the fields and conditions that a draft uses, for its recipient."""
    columns = columns_in(subject, lines.preheader, bodies.html, bodies.text)
    return personal.of(columns, clock.now().date())


def _mailing(
    mailing_list: MailingList,
    subject: str,
    bodies: NewBodies,
    base_url: str,
    lines: InboxLines,
    attachments: Sequence[AttachedFile] = (),
    web_url: str = "",
) -> Mailing:
    return compile_mailing(
        ref=MessageRef(f"draft-{secrets.token_hex(8)}"),
        subject=subject,
        html=bodies.html,
        text=bodies.text,
        list_name=mailing_list.name,
        description=mailing_list.description,
        from_address=mailing_list.from_address,
        base_url=base_url,
        date=clock.now(),
        language=mailing_list.language,
        postal_address=mailing_list.postal_address,
        preheader=lines.preheader,
        from_name=lines.from_name,
        reply_to=lines.reply_to or mailing_list.reply_to,
        headers=mailing_list.headers,
        attachments=attachments,
        web_url=web_url,
        columns=columns_in(subject, lines.preheader, bodies.html, bodies.text),
    )


def parse_test_addresses(to: Sequence[str]) -> list[Address]:
    """Return the addresses of a test, each once; raise `Invalid`."""
    found = {address_key(each): each for each in (parse_address(text, "to") for text in to)}
    if not found:
        raise Invalid("to", "enter at least one address")
    if len(found) > MOST_TESTS:
        most = f"a test goes to at most {MOST_TESTS} addresses, not {len(found)}"
        raise Invalid("to", f"{most}: remove {len(found) - MOST_TESTS}")
    return list(found.values())


async def send_tests(
    transport: Transport,
    mailing_list: MailingList,
    subject: str,
    bodies: NewBodies,
    to: Sequence[Address],
    base_url: str,
    lines: InboxLines = NO_LINES,
    attachments: Sequence[AttachedFile] = (),
    personal: Personal = ANYBODY,
    web_url: str = "",
) -> list[Result]:
    """Send a draft to some addresses, marked as a test; raise `Invalid`. Its fields are those of
    one person; its unsubscribe link belongs to nobody. Without a reply for a minute, the rest
    counts as deferred."""
    marked = SUBJECT_MARK + checked_subject(subject, personal.rules)
    mailing = _mailing(mailing_list, marked, bodies, base_url, lines, attachments, web_url)
    values = draft_values(marked, bodies, lines, personal)
    recipients = [Recipient(each, new_guid(), values) for each in to]
    try:
        async with asyncio.timeout(_TEST_SECONDS):
            return await transport.send(mailing, recipients, Unwatched())
    except TimeoutError:
        late = "the mail server did not reply within a minute"
        return [Result(ResultKind.DEFERRED, late)] * len(recipients)
