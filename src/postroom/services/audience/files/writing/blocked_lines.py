"""Lines of an import that say that their address is blocked, and addresses suppressed before.

What another tool says about a mailbox or its owner, such as a hard bounce or a complaint, counts
for every list: the address is suppressed everywhere, if the person who imports may do that. What a
team decided there, such as to blocklist someone, counts for the list that is imported to.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from postroom import clock
from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.suppressions import Suppression, address_digest
from postroom.services.audience.files.columns.meanings import Blocking
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.writing.planned_rows import PlannedRows
from postroom.services.audience.suppression.many_suppressions import (
    ManySuppressions,
    at_once,
    is_covered,
)
from postroom.services.audience.suppression.suppression_rows import (
    SuppressedDigests,
    SuppressionRows,
)

SOURCE: Final = "import"
_FRESH_SECONDS: Final = 20.0
"""How old the known suppressions may be. More recent ones are written onto the rows of subscribers
once more after a minute."""


class BlockedLines:
    """Suppresses the addresses of one import, and finds those that are suppressed."""

    def __init__(
        self,
        rows: SuppressionRows,
        many: ManySuppressions,
        name: ListName,
        report: ImportReport,
        now: datetime,
        *,
        on_every_list: bool,
        planned: PlannedRows | None = None,
    ) -> None:
        self._rows = rows
        self._many = many
        self._list = name
        self._report = report
        self._now = now
        self._on_every_list = on_every_list
        self._planned = planned
        self._digests: SuppressedDigests | None = None
        self._digests_until = 0.0

    async def suppress(self, chunk: Chunk) -> dict[AddressKey, list[Suppression]]:
        """Suppress what lines say; return the suppressions of the addresses of a chunk."""
        found = await self._look_up(chunk)
        planned = self._planned.suppressions(chunk.blockings) if self._planned else {}
        new: dict[AddressKey, Suppression] = {}

        async def look(address: AddressKey, blocking: Blocking) -> None:
            wanted = self._suppression(chunk, address, blocking)
            known = found.get(address) or await self._rows.of_address(address)
            if address in planned:
                known = [*known, planned[address]]
            if is_covered(wanted, known):
                found[address] = known
            else:
                found[address] = [*known, wanted]
                new[address] = wanted

        await at_once(look(*each) for each in chunk.blockings.items())
        self._report.suppressed += len(new)
        if self._planned is not None:
            self._planned.suppress(new)
        else:
            in_order = sorted(new.values(), key=lambda each: each.digest)
            await self._many.suppress(in_order, skip=self._list)
        return found

    def _suppression(self, chunk: Chunk, address: AddressKey, blocking: Blocking) -> Suppression:
        is_everywhere = blocking.everywhere and self._on_every_list
        return Suppression(
            digest=address_digest(address),
            address=chunk.spellings.get(address, address),
            reason=blocking.reason,
            source=SOURCE,
            created_at=self._now,
            list_name=None if is_everywhere else self._list,
        )

    async def _look_up(self, chunk: Chunk) -> dict[AddressKey, list[Suppression]]:
        """Find the addresses of a chunk that must not receive email."""
        if self._digests is None or clock.monotonic() > self._digests_until:
            self._digests = await self._rows.snapshot()
            self._digests_until = clock.monotonic() + _FRESH_SECONDS
        digests, suppressed = self._digests, dict[AddressKey, list[Suppression]]()
        if not digests:
            return suppressed
        likely = await asyncio.to_thread(lambda: list(filter(digests.may_hold, chunk.wanted)))

        async def look(address: AddressKey) -> None:
            found = await self._rows.of_address(address)
            if any(each.counts_for(self._list, self._now) for each in found):
                suppressed[address] = found

        await at_once(map(look, likely))
        return suppressed
