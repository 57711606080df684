"""Previews and test emails of a message that is not sent yet. Nothing is stored."""

from __future__ import annotations

import secrets

from postroom import clock
from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.lists import MailingList, new_guid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient
from postroom.services.messages.message_contents import NewBodies, checked_subject
from postroom.transport.contract import Result, Transport, Unwatched

SUBJECT_MARK = "[Test] "


def draft_mailing(
    mailing_list: MailingList, subject: str, bodies: NewBodies, base_url: str
) -> Mailing:
    """Compile a draft; raise `Invalid`."""
    return _mailing(mailing_list, checked_subject(subject), bodies, base_url)


def _mailing(mailing_list: MailingList, subject: str, bodies: NewBodies, base_url: str) -> Mailing:
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
    )


async def send_test(
    transport: Transport,
    mailing_list: MailingList,
    subject: str,
    bodies: NewBodies,
    to: str,
    base_url: str,
) -> Result:
    """Send a draft to one address, marked as a test; raise `Invalid`. Its unsubscribe link belongs
    to no subscriber."""
    recipient = Recipient(parse_address(to, "to"), new_guid())
    marked = SUBJECT_MARK + checked_subject(subject)
    mailing = _mailing(mailing_list, marked, bodies, base_url)
    [result] = await transport.send(mailing, [recipient], Unwatched())
    return result
