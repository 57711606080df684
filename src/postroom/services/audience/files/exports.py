"""Export of a list as CSV or lines of JSON, of any size, in constant memory."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC

import msgspec

from postroom.domain.audience.lists import Subscriber
from postroom.services.audience.files.subscriber_lines import protected
from postroom.services.audience.lists import ListService
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.resources.audience import describe_subscriber

HEADER = ("email", "verified", "blocked", "created_at")
_LINES_AT_ONCE = 1_000


class ExportService:
    def __init__(self, lists: ListService, subscriptions: SubscriptionService) -> None:
        self._lists = lists
        self._subscriptions = subscriptions

    async def export_csv(self, list_name: str) -> AsyncIterator[str]:
        """Yield the list as a CSV file, in pieces, sorted by address."""
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

    async def export_json(self, list_name: str) -> AsyncIterator[str]:
        """Yield the list as JSON, one line per subscriber."""
        mailing_list = await self._lists.get(list_name)
        lines: list[bytes] = []
        async for subscriber in self._subscriptions.all(mailing_list.name):
            lines.append(msgspec.json.encode(describe_subscriber(subscriber)) + b"\n")
            if len(lines) == _LINES_AT_ONCE:
                yield b"".join(lines).decode()
                lines.clear()
        yield b"".join(lines).decode()


def _exported(subscriber: Subscriber) -> tuple[str, str, str, str]:
    return (
        protected(subscriber.address),
        "true" if subscriber.verified else "false",
        protected(subscriber.blocked),
        subscriber.created_at.astimezone(UTC).isoformat(timespec="seconds"),
    )
