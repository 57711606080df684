"""The results of a message by segment of its list: those in it now who received the message.

Nothing is stored: subscribers are read on request, in batches. Opens and
clicks are known for those who agree to personal tracking.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.rules import RuleError, check_rule, compile_rule, parse_rule
from postroom.domain.audience.rules.evaluating import Selects
from postroom.domain.audience.segments import Segment
from postroom.domain.audience.suppressions import AddressDigest, address_digest
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services import entities
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.suppression.bounce_history import BounceRecords
from postroom.services.audience.suppression.delivery_figures import NOT_DELIVERED
from postroom.services.audience.targeting.received_messages import MessageRecipients
from postroom.services.audience.targeting.rule_rows import AT_ONCE, RuleRows, rule_rows
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.partial_rows import ConsentRow
from postroom.storage import KeyRange, Store, Table, eq

MOST_SEGMENTS: Final = 20


class SegmentFigures(msgspec.Struct, frozen=True):
    """How many of a segment received a message, and how many of these emails bounced. Of those who
    `agreed`, it is known whether they opened and clicked."""

    accepted: int = 0
    bounced: int = 0
    agreed: int = 0
    opened: int = 0
    clicked: int = 0

    def __add__(self, other: SegmentFigures) -> SegmentFigures:
        one, another = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return SegmentFigures(*(a + b for a, b in zip(one, another, strict=True)))


class SegmentResultsPart(msgspec.Struct, frozen=True):
    """The figures of segments, among some subscribers of the list; `next` continues."""

    figures: Mapping[str, SegmentFigures]
    looked_at: int = 0
    next: str | None = None


class SegmentResults:
    def __init__(
        self, store: Store, segments: SegmentService, fields: FieldService, bounces: BounceRecords
    ) -> None:
        self._table = store.table(entities.LISTS)
        self._segments = segments
        self._fields = fields
        self._bounces = bounces

    async def segments(
        self, message: Message, check: Callable[[str], Awaitable[None]] | None = None
    ) -> list[Segment]:
        """Return the segments of the message's first list: the first ones, and only those whose
        rules can be evaluated, and pass a `check`, which raises `RuleError`. Those that name this
        message itself say nothing new."""
        types = (await self._fields.of(message.list_name)).fields.types
        part = await self._segments.slice(message.list_name, limit=100)
        found: list[Segment] = []
        for each in part.segments:
            if len(found) == MOST_SEGMENTS:
                break
            with suppress(RuleError):
                rule = parse_rule(each.rule)
                check_rule(rule, types, may_ask_messages=True)
                if check is not None:
                    await check(each.rule)
                await self._segments.received.of([rule], [message.list_name], clock.now().date())
                if message.ref not in each.rule:
                    found.append(each)
        return found

    async def read(
        self,
        message: Message,
        segments: Sequence[Segment],
        *,
        after: str = "",
        seconds: float = math.inf,
    ) -> SegmentResultsPart:
        """Return the figures of these segments. With `seconds`, those of as many subscribers as
        can be read in this time."""
        counting = await self._counting(message, segments)
        sums = {each.name: SegmentFigures() for each in segments}
        deadline = clock.monotonic() + seconds
        looked_at = 0
        async for some in rule_rows(self._table, message.list_name, after=after):
            for name, figures in (await counting.among(some)).items():
                sums[name] += figures
            looked_at += len(some.rows)
            if clock.monotonic() > deadline and some.may_follow:
                return SegmentResultsPart(sums, looked_at, address_key(some.addresses[-1]))
        return SegmentResultsPart(sums, looked_at)

    async def _counting(self, message: Message, segments: Sequence[Segment]) -> _Counting:
        name, today = message.list_name, clock.now().date()
        asks = [parse_rule(f"received {message.ref}")]
        if message.track is Track.PERSONAL:
            asks += [parse_rule(f"{act} {message.ref}") for act in ("opened", "clicked")]
        rules = {each.name: parse_rule(each.rule) for each in segments}
        recipients = await self._segments.received.of([*asks, *rules.values()], [name], today)
        compiled = partial(compile_rule, today=today, received=recipients.received)
        bounced = {
            each.digest
            async for each in self._bounces.of_message(message.ref)
            if each.kind in NOT_DELIVERED
        }
        return _Counting(
            self._table,
            name,
            (await self._fields.of(name)).fields,
            recipients,
            [compiled(each) for each in asks],
            {segment: compiled(rule) for segment, rule in rules.items()},
            bounced,
        )


class _Counting(msgspec.Struct, frozen=True):
    """What is needed to count some subscribers. `asks` say whether someone received the message
    and, if it is personal, opened and clicked it."""

    table: Table
    list_name: ListName
    fields: Fields
    recipients: MessageRecipients
    asks: Sequence[Selects]
    segments: Mapping[str, Selects]
    bounced: Collection[AddressDigest]

    async def among(self, some: RuleRows) -> dict[str, SegmentFigures]:
        await self.recipients.look_up(some.addresses, some.moved)
        received, *acts = self.asks
        agreed = await self._agreed(some.addresses) if acts else set()
        sums = dict.fromkeys(self.segments, SegmentFigures())
        for address, row in some.rows:
            values = self.fields.values(address, *row)
            if not received(values):
                continue
            is_bounced = bool(self.bounced) and address_digest(address) in self.bounced
            did = [int(act(values)) for act in acts]
            one = SegmentFigures(1, int(is_bounced), int(address_key(address) in agreed), *did)
            for name, selects in self.segments.items():
                if selects(values):
                    sums[name] += one
        return sums

    async def _agreed(self, addresses: Sequence[Address]) -> set[AddressKey]:
        """Return the subscribers among some sorted addresses who agree to personal tracking."""
        if not addresses:
            return set()
        rows = KeyRange.between(*(entities.email_row(addresses[place]) for place in (0, -1)))
        found = await self.table.read(
            ConsentRow, self.list_name, rows, where=eq("Tracking", True), limit=AT_ONCE
        )
        prefix = len(entities.EMAIL_PREFIX)
        return {AddressKey(Address(row[prefix:])) for row in found}
