"""Emails that Postroom sends on its own behalf: alerts, test emails, links to log in."""

from __future__ import annotations

from datetime import datetime

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.errors import PostroomError
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_notice
from postroom.services.audience.lists import ListService
from postroom.transport.contract import Result, Transport, Unwatched

_NO_SUBSCRIBER = SubscriberGuid("administrator")


class NoFromAddress(PostroomError):
    """No From address is known; the text says what to do."""


class NoticeSender:
    """The From address of notices. Looked up for each one, because lists come and go."""

    def __init__(self, lists: ListService, configured: Address | None) -> None:
        self._lists = lists
        self._configured = configured

    async def address(self) -> Address:
        """Return the setting `alert_from`, or the From address of the first list by name.

        The mail server accepts the latter; it might refuse the recipient's own address. Raise
        `NoFromAddress` if there is neither.
        """
        if self._configured:
            return self._configured
        found = await self._lists.slice(limit=20)  # those that are being deleted do not count
        if not found.lists:
            raise NoFromAddress(
                "there is no From address to send from: set alert_from, or create a list"
            )
        return parse_address(found.lists[0].from_address)


async def send_notice(
    transport: Transport,
    *,
    from_address: Address,
    to: Address,
    subject: str,
    text: str,
    date: datetime,
    key: str,
) -> Result:
    """Send a plain-text notice to one person. With the same `key`, it has the same Message-ID."""
    mailing = compile_notice(
        from_address=from_address, subject=subject, text=text, date=date, key=key
    )
    [result] = await transport.send(mailing, [Recipient(to, _NO_SUBSCRIBER)], Unwatched())
    return result
