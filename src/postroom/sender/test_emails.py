"""A mail to oneself before it goes to everybody. Nothing of it is kept."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

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
    """The mail that a message would become, before there is one. `Invalid`."""
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
        date=datetime.now(UTC),
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
    """Send it to one address, marked as a test, and say what the mail server said. `Invalid`.

    Its unsubscribe link belongs to nobody.
    """
    recipient = Recipient(parse_address(to, "to"), new_guid())
    marked = SUBJECT_MARK + checked_subject(subject)
    mailing = _mailing(mailing_list, marked, bodies, base_url)
    [result] = await transport.send(mailing, [recipient], Unwatched())
    return result
