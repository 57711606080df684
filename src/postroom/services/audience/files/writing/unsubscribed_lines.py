"""Lines of an import that say that their address has unsubscribed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.consent import ConsentAction, ConsentSource
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import LedgerRows
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.files.reading_ahead import BATCH, PreparedChunk, batches_of
from postroom.services.audience.files.sign_up_details import time_of
from postroom.services.audience.files.writing.planned_rows import PlannedRows
from postroom.services.audience.growth.list_growth import Figures, figures_of
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.concurrency import retry_on_conflict
from postroom.services.row_ranges import neighbours
from postroom.storage import Conflict, NotFound, Table


class UnsubscribedLines:
    """Removes the addresses of one import that have unsubscribed."""

    def __init__(
        self,
        rows: Table,
        unsubscribes: Unsubscribes,
        name: ListName,
        report: ImportReport,
        source: ConsentSource,
        now: datetime,
        planned: PlannedRows | None = None,
    ) -> None:
        self._rows = rows
        self._ledger = LedgerRows(rows)
        self._unsubscribes = unsubscribes
        self._list = name
        self._report = report
        self._source = source
        self._now = now
        self._planned = planned
        self._seen: set[AddressKey] = set()

    async def remove(self, prepared: PreparedChunk) -> Figures:
        """Remove addresses that unsubscribed according to a line of this or an earlier chunk;
        return how that changes the list's figures."""
        chunk = prepared.chunk
        back = self._seen & chunk.wanted.keys() if self._seen else set()
        for each in back:
            del chunk.wanted[each]
            chunk.watched.pop(each, None)
        if back:
            self._report.unsubscribed += len(back)
            prepared.batches = await asyncio.to_thread(batches_of, chunk.wanted)
        self._seen.update(chunk.unsubscribed)
        change = Figures()
        unsubscribed = sorted(chunk.unsubscribed)
        for start in range(0, len(unsubscribed), BATCH):
            part = unsubscribed[start : start + BATCH]
            change += await self._remove_some(part, chunk.left_at)
        return change

    async def _remove_some(
        self, addresses: list[AddressKey], left_at: Mapping[AddressKey, str]
    ) -> Figures:
        found = await neighbours(self._rows, self._list, addresses)
        there = {key: each for key, each in found.items() if key in addresses}
        known = await self._unsubscribes.known(self._list, addresses)
        if self._planned is not None:
            there = self._planned.over(there, addresses)
            known |= self._planned.departed(addresses)
        unchanged = len(known - there.keys())
        self._report.unchanged += unchanged
        self._report.unsubscribed += len(addresses) - unchanged
        change = Figures()
        if self._planned is not None:
            self._planned.remove(addresses)
            return change
        # Recorded first: an interruption may leave someone on the list, but is never forgotten.
        new = {
            each: time_of(left_at.get(each, ""), self._now) or self._now
            for each in addresses
            if each not in known
        }
        await self._unsubscribes.note_many(self._list, new)
        for subscriber in there.values():
            if await self._remove_one(subscriber):
                change -= figures_of(subscriber)
        return change

    async def _remove_one(self, subscriber: Subscriber) -> bool:
        """Remove a subscriber, even if something else about them is written at this moment; return
        False if another process was faster."""

        async def attempt() -> bool:
            last = await self._ledger.ended(subscriber, ConsentAction.UNSUBSCRIBED, self._source)
            try:
                await self._rows.apply([*entities.subscriber_removal(subscriber), *last])
            except NotFound:
                return False
            except Conflict:  # another change added its entry first
                self._ledger.note_conflict(subscriber.guid)
                raise
            return True

        return await retry_on_conflict(attempt, "subscriber", subscriber.address)
