"""The From address of mails that Postroom sends on its own behalf: alerts and test mails."""

from __future__ import annotations

from postroom.domain.audience.addresses import Address, parse_address
from postroom.errors import PostroomError
from postroom.services.audience.lists import ListService


class NoFromAddress(PostroomError):
    """There is nothing to send from; the text says what to do."""


class NoticeSender:
    """Finds the From address when a mail is to be sent: lists come and go."""

    def __init__(self, lists: ListService, configured: Address | None) -> None:
        self._lists = lists
        self._configured = configured

    async def address(self) -> Address:
        """Return the setting `alert_from`, or the From address of the first list by name.

        The mail server accepts that one, which need not be true of the person's who gets the mail.
        Raise `NoFromAddress` if there is neither.
        """
        if self._configured:
            return self._configured
        page = await self._lists.page(limit=20)  # those that are being deleted do not count
        if not page.lists:
            raise NoFromAddress(
                "there is no From address to send from: set alert_from, or create a list"
            )
        return parse_address(page.lists[0].from_address)
