"""A list's subscribers as a CSV file: any number, in flat memory."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC

from postroom.domain.lists import Subscriber
from postroom.services.lists import ListService
from postroom.services.subscriber_files import protected
from postroom.services.subscriptions import SubscriptionService

HEADER = ("email", "verified", "created_at")
_LINES_AT_ONCE = 1_000


class ExportService:
    def __init__(self, lists: ListService, subscriptions: SubscriptionService) -> None:
        self._lists = lists
        self._subscriptions = subscriptions

    async def export_csv(self, list_name: str) -> AsyncIterator[str]:
        """The list as the text of a CSV file, in pieces, in the order of addresses."""
        mailing_list = await self._lists.get(list_name)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180
        writer.writerow(HEADER)
        count = 0
        async for subscriber in self._subscriptions.all(mailing_list.name):
            writer.writerow(_exported(subscriber))
            count += 1
            if count % _LINES_AT_ONCE == 0:
                yield text.getvalue()
                text.seek(0)
                text.truncate()
        yield text.getvalue()


def _exported(subscriber: Subscriber) -> tuple[str, str, str]:
    return (
        protected(subscriber.address),
        "true" if subscriber.verified else "false",
        subscriber.created_at.astimezone(UTC).isoformat(timespec="seconds"),
    )
