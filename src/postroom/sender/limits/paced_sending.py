"""Sends the emails of a page at their slots, instead of all at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.mail.mailing import Recipient
from postroom.transport.contract import ConnectionQuota, PartWatcher, Result, Watcher

SendPart = Callable[
    [Sequence[Recipient], Watcher, ConnectionQuota | None], Coroutine[Any, Any, list[Result]]
]


class PacedPart(msgspec.Struct, frozen=True):
    """Recipients that are sent to together at `at` (seconds since 1970). `most` is how many emails
    of their provider may be in progress at once, `per_connection` how many a connection may
    carry."""

    at: float
    recipients: Sequence[Recipient]
    provider: str = ""
    most: int | None = None
    per_connection: int | None = None

    @property
    def quota(self) -> ConnectionQuota | None:
        if self.per_connection is None:
            return None
        return ConnectionQuota(self.provider, self.per_connection)


class PageSlots(msgspec.Struct, frozen=True):
    """When the emails of a page are sent: in `parts`, by time; others come back `later`."""

    parts: tuple[PacedPart, ...]
    later: Mapping[Address, datetime] = {}

    @classmethod
    def at_once(cls, recipients: Sequence[Recipient]) -> PageSlots:
        return cls((PacedPart(0.0, recipients),))

    @property
    def is_paced(self) -> bool:
        return len(self.parts) != 1 or bool(self.parts[0].provider)

    @property
    def recipients(self) -> list[Recipient]:
        """Return everyone who is sent to, in the order of the parts."""
        return [each for part in self.parts for each in part.recipients]


class PacedSending:
    """Sends the parts of pages. One object serves all pages of a sender, so that it knows how many
    emails of each provider are in progress."""

    def __init__(self) -> None:
        self._in_progress: Counter[str] = Counter()
        self._ended = asyncio.Event()

    async def send(
        self,
        parts: Sequence[PacedPart],
        send: SendPart,
        watcher: Watcher,
        is_held: Callable[[Address], bool],
    ) -> list[Result]:
        """Send each part at its time; return the results. A part whose provider is held by then is
        not sent, and has none."""
        start = 0
        tasks: list[asyncio.Task[list[Result]]] = []
        async with asyncio.TaskGroup() as under_way:
            for part in parts:
                await asyncio.sleep(max(0.0, part.at - clock.timestamp()))
                await self._wait_for_room(part)
                if not (part.provider and is_held(part.recipients[0].address)):
                    self._in_progress[part.provider] += len(part.recipients)
                    sending = send(part.recipients, PartWatcher(watcher, start), part.quota)
                    task = under_way.create_task(sending)
                    task.add_done_callback(partial(self._end, part))
                    tasks.append(task)
                start += len(part.recipients)
        return [result for task in tasks for result in task.result()]

    async def _wait_for_room(self, part: PacedPart) -> None:
        while (
            part.most is not None
            and self._in_progress[part.provider] + len(part.recipients) > part.most
        ):
            self._ended.clear()
            await self._ended.wait()

    def _end(self, part: PacedPart, task: asyncio.Task[list[Result]]) -> None:
        self._in_progress[part.provider] -= len(part.recipients)
        self._ended.set()
