"""Export of a list, or of a segment of it, as CSV or lines of JSON, in constant memory."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC
from typing import Any

import msgspec

from postroom.domain.audience.fields import Field, value_text
from postroom.domain.audience.lists.lists import Subscriber
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.files.cells import protected
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.resources.audience import describe_subscriber

HEADER = ("email", "verified", "blocked", "created_at")
"""The first columns; those of the fields follow."""
_LINES_AT_ONCE = 1_000


class ExportService:
    def __init__(
        self,
        lists: ListService,
        fields: FieldService,
        subscriptions: SubscriptionService,
        segments: SegmentService,
    ) -> None:
        self._lists = lists
        self._fields = fields
        self._subscriptions = subscriptions
        self._segments = segments

    async def export_csv(self, list_name: str, segment: str = "") -> AsyncIterator[str]:
        """Yield the list, or a segment of it, as a CSV file, in pieces, sorted by address.

        `NoSuch` list or segment, `RuleError`.
        """
        subscribers = await self._subscribers(list_name, segment)
        fields = (await self._fields.get(list_name)).fields.all
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180
        writer.writerow((*HEADER, *(each.name for each in fields)))
        count = 0
        async for subscriber in subscribers:
            writer.writerow(_exported(subscriber, fields))
            count += 1
            if count % _LINES_AT_ONCE == 0:
                yield text.getvalue()
                text.seek(0)
                text.truncate()
        yield text.getvalue()

    async def export_json(self, list_name: str, segment: str = "") -> AsyncIterator[str]:
        """Yield the list, or a segment of it, as JSON, one line per subscriber."""
        lines: list[bytes] = []
        async for subscriber in await self._subscribers(list_name, segment):
            lines.append(msgspec.json.encode(describe_subscriber(subscriber)) + b"\n")
            if len(lines) == _LINES_AT_ONCE:
                yield b"".join(lines).decode()
                lines.clear()
        yield b"".join(lines).decode()

    async def _subscribers(self, list_name: str, segment: str) -> AsyncIterator[Subscriber]:
        mailing_list = await self._lists.get(list_name)
        if segment:
            return await self._segments.subscribers(mailing_list.name, segment)
        return self._subscriptions.all(mailing_list.name)


def _exported(subscriber: Subscriber, fields: tuple[Field, ...]) -> tuple[str, ...]:
    return (
        protected(subscriber.address),
        "true" if subscriber.verified else "false",
        protected(subscriber.blocked),
        subscriber.created_at.astimezone(UTC).isoformat(timespec="seconds"),
        *(_cell(subscriber.known.get(each.name)) for each in fields),
    )


def _cell(value: Any) -> str:
    """Return a value as a cell; a negative number is not a formula."""
    text = value_text(value)
    return text if isinstance(value, int | float) else protected(text)
