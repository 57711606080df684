"""Segments: named rules that select subscribers of a list."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from datetime import date
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, address_key, folded
from postroom.domain.audience.field_types import FieldValue
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.audience.rules import (
    Rule,
    check_rule,
    compile_rule,
    explain,
    fields_of,
    parse_rule,
    text_of,
    with_field_renamed,
)
from postroom.domain.audience.rules.evaluating import Reason, Selects
from postroom.domain.audience.segments import Segment, parse_segment_name
from postroom.domain.errors import Exists, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import FINAL
from postroom.services import entities
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.subscriber_search import FoundSubscribers, SubscriberState
from postroom.services.audience.targeting.key_ranges import KeyRanges, ranges_of, within
from postroom.services.audience.targeting.received_messages import (
    MessageRecipients,
    MovedSubscriber,
    ReceivedMessages,
    moved_subscribers,
)
from postroom.services.audience.targeting.rule_rows import AT_ONCE, rule_rows
from postroom.services.messages.message_rows import MessageRows
from postroom.storage import AlreadyExists, Conflict, Entity, KeyRange, NotFound, Store

_PREFIX: Final = "segment:"
_SAMPLE: Final = 20
_SECONDS: Final = 2.0


class SegmentSlice(msgspec.Struct, frozen=True):
    """Some segments in the order of their names; `next` continues."""

    segments: list[Segment]
    next: str | None


class SegmentPreview(msgspec.Struct, frozen=True):
    """How many subscribers a rule selects, and the first of them."""

    count: int
    sample: list[Address]


class CountedPart(msgspec.Struct, frozen=True):
    """How many of some subscribers of a list a rule selects; `next` continues."""

    count: int
    sample: list[Address]
    looked_at: int
    next: str | None


class Explanation(msgspec.Struct, frozen=True):
    """Why a subscriber is in a segment or not."""

    email: Address
    reason: Reason


class SegmentService:
    def __init__(
        self,
        store: Store,
        lists: ListService,
        fields: FieldService,
        subscriptions: SubscriptionService,
        messages: MessageRows,
        received: ReceivedMessages,
    ) -> None:
        self._messages = messages
        self.received = received
        self._table = store.table(entities.LISTS)
        self._lists = lists
        self._fields = fields
        self._subscriptions = subscriptions

    # -- segments ----------------------------------------------------------------------------

    async def create(self, list_name: str, name: str, rule: str) -> Segment:
        """Add a segment. `Invalid`, `RuleError`, `NoSuch` list, `Exists`."""
        parse_segment_name(name)
        fields = (await self._fields.get(list_name)).fields
        await self._checked(rule, fields, ListName(list_name))
        row = _row(ListName(list_name), name, rule)
        try:
            etag = await self._table.insert(row)
        except AlreadyExists as exc:
            raise Exists("segment", name) from exc
        return Segment(ListName(list_name), name, rule, etag)

    async def get(self, list_name: str, name: str) -> Segment:
        """Return a segment. `NoSuch` list or segment."""
        mailing_list = await self._lists.get(list_name)
        found = await self._table.get(mailing_list.name, _PREFIX + name)
        if found is None:
            raise NoSuch("segment", name)
        return _segment_from(found)

    async def slice(
        self, list_name: str, *, limit: int = 100, after: str | None = None
    ) -> SegmentSlice:
        """Return the segments of a list. `NoSuch` list."""
        mailing_list = await self._lists.get(list_name)
        result = await self._table.query(
            KeyRange.only(mailing_list.name), KeyRange.prefix(_PREFIX), limit=limit, after=after
        )
        return SegmentSlice([_segment_from(each) for each in result.entities], result.next)

    async def using(self, list_name: str, field: str) -> list[Segment]:
        """Return the segments of a list whose rules name a field. `NoSuch` list."""
        every = self._all(list_name)
        return [each async for each in every if field in fields_of(parse_rule(each.rule))]

    async def naming(self, address: Address) -> list[Segment]:
        """Return the segments of all lists whose rules have an address in them."""
        return [
            each
            async for name in self._lists.all_names()
            async for each in self._all(name)
            if address.casefold() in each.rule.casefold()
        ]

    async def _all(self, list_name: str) -> AsyncIterator[Segment]:
        after: str | None = None
        while True:
            part = await self.slice(list_name, after=after)
            for each in part.segments:
                yield each
            if (after := part.next) is None:
                return

    async def change(
        self, list_name: str, name: str, rule: str, etag: str | None = None
    ) -> Segment:
        """Replace the rule of a segment. `RuleError`, `NoSuch`; with `etag`, `Overtaken`."""
        old = await self.get(list_name, name)
        await self._checked(rule, (await self._fields.of(old.list_name)).fields, old.list_name)
        try:
            saved = await self._table.replace(_row(old.list_name, name, rule), etag or old.etag)
        except NotFound as exc:
            raise NoSuch("segment", name) from exc
        except Conflict as exc:
            raise Overtaken("segment", name) from exc
        return msgspec.structs.replace(old, rule=rule, etag=saved)

    async def keep(self, list_name: str, name: str, rule: str) -> None:
        """Make sure that a list has this segment with this rule. `Invalid`, `NoSuch` list."""
        try:
            await self.create(list_name, name, rule)
        except Exists:
            await self.change(list_name, name, rule)

    async def rename_field(self, segment: Segment, old: str, new: str) -> None:
        """Give a field another name in the rule of a segment, even if the rule cannot be used any
        more: a message that it asks about may be gone. `Overtaken`."""
        rule = text_of(with_field_renamed(parse_rule(segment.rule), old, new))
        try:
            await self._table.replace(_row(segment.list_name, segment.name, rule), segment.etag)
        except NotFound:
            return  # deleted at this moment
        except Conflict as exc:
            raise Overtaken("segment", segment.name) from exc

    async def remove(self, list_name: str, name: str, etag: str | None = None) -> None:
        """Delete a segment; its subscribers stay. `NoSuch`, `NotNow`; with `etag`, `Overtaken`."""
        old = await self.get(list_name, name)
        await self._check_no_message_needs(old)
        try:
            await self._table.delete(old.list_name, _PREFIX + name, etag)
        except NotFound as exc:
            raise NoSuch("segment", name) from exc
        except Conflict as exc:
            raise Overtaken("segment", name) from exc

    async def _check_no_message_needs(self, segment: Segment) -> None:
        """Raise `NotNow` if the rule of a segment is still needed for a scheduled message."""
        async for message in self._messages.open_messages():
            is_used = segment.name in message.audience.segments and message.queued_at is None
            if is_used and message.list_name == segment.list_name and message.status not in FINAL:
                raise NotNow(
                    f"the segment {segment.name!r} cannot be deleted while the message"
                    f" {message.ref}, which needs it, is {message.status}: change or cancel the"
                    " message, or wait until it is sent"
                )

    # -- what a rule selects -----------------------------------------------------------------

    async def preview(self, list_name: str, rule: str) -> SegmentPreview:
        """Count the subscribers that a rule selects. `RuleError`, `NoSuch` list.

        The whole list is read, some rows at a time.
        """
        counted = await self.count(list_name, rule, seconds=math.inf)
        return SegmentPreview(counted.count, counted.sample)

    async def count(
        self, list_name: str, rule: str, *, after: str = "", seconds: float
    ) -> CountedPart:
        """Count the subscribers that a rule selects, for some seconds; `next` continues.

        `RuleError`, `NoSuch` list.
        """
        name = (await self._lists.get(list_name)).name
        fields = (await self._fields.of(name)).fields
        compiled = await self._compiled(rule, fields, name)
        selects, values = compiled.selects, compiled.fields.values
        deadline = clock.monotonic() + seconds
        looked_at = count = 0
        sample: list[Address] = []
        async for some in rule_rows(self._table, name, compiled.ranges, after):
            await compiled.look_up(some.addresses, some.moved)
            found = [address for address, row in some.rows if selects(values(address, *row))]
            count += len(found)
            sample += found[: _SAMPLE - len(sample)]
            looked_at += len(some.rows)
            if clock.monotonic() > deadline and some.may_follow:
                return CountedPart(count, sample, looked_at, address_key(some.addresses[-1]))
        return CountedPart(count, sample, looked_at, None)

    async def select(self, list_name: str, rule: str) -> AsyncIterator[Address]:
        """Yield the addresses of all subscribers that a rule selects, in order, in flat memory."""
        fields = (await self._fields.get(list_name)).fields
        compiled = await self._compiled(rule, fields, ListName(list_name))
        async for some in rule_rows(self._table, ListName(list_name), compiled.ranges):
            await compiled.look_up(some.addresses, some.moved)
            for address, row in some.rows:
                if compiled.selects(compiled.fields.values(address, *row)):
                    yield address

    async def subscribers(self, list_name: str, name: str) -> AsyncIterator[Subscriber]:
        """Return all subscribers of a segment, in order, in flat memory. `NoSuch`, `RuleError`."""
        segment = await self.get(list_name, name)
        fields = (await self._fields.of(segment.list_name)).fields
        compiled = await self._compiled(segment.rule, fields, segment.list_name)

        async def matching() -> AsyncIterator[Subscriber]:
            found = self._subscriptions.all(segment.list_name, compiled.ranges)
            async for some in _in_parts(found):
                await compiled.look_up([each.address for each in some], moved_subscribers(some))
                for each in some:
                    if compiled.selects(_values(fields, each)):
                        yield each

        return matching()

    async def find(
        self,
        list_name: str,
        name: str,
        *,
        state: SubscriberState | None = None,
        prefix: str = "",
        contains: str = "",
        limit: int = 50,
        after: str = "",
        seconds: float = _SECONDS,
    ) -> FoundSubscribers:
        """Return subscribers of a segment, sorted by address, of those that also fit the rest.

        A long list is read for some seconds; then `next` continues. `NoSuch`, `RuleError`.
        """
        segment = await self.get(list_name, name)
        fields = (await self._fields.of(segment.list_name)).fields
        compiled = await self._compiled(segment.rule, fields, segment.list_name)
        begin = KeyRange.prefix(entities.EMAIL_PREFIX + folded(prefix))
        start = max(begin.start or "", entities.key_after(entities.EMAIL_PREFIX + after))
        left = within(compiled.ranges, start, begin.stop)
        part, deadline = folded(contains), clock.monotonic() + seconds
        found: list[Subscriber] = []
        looked_at = 0
        while left:
            result = await self._table.query(
                KeyRange.only(segment.list_name), left[0], limit=AT_ONCE
            )
            some = [entities.subscriber_from(each) for each in result.entities]
            await compiled.look_up([each.address for each in some], moved_subscribers(some))
            found += [
                each
                for each in some
                if (state is None or state.fits(each))
                and part in each.key
                and compiled.selects(_values(fields, each))
            ]
            looked_at += len(result.entities)
            if len(found) > limit:
                return FoundSubscribers(found[:limit], found[limit - 1].key)
            if result.next is None:
                left = left[1:]
                continue
            last = result.entities[-1].row
            if clock.monotonic() > deadline:
                return FoundSubscribers(
                    found, last.removeprefix(entities.EMAIL_PREFIX), True, looked_at
                )
            left = within(left, entities.key_after(last))
        return FoundSubscribers(found, None)

    async def explain(self, list_name: str, name: str, email: str) -> Explanation:
        """Say why a subscriber is in a segment or not. `RuleError` if a field of the rule no longer
        exists; `NoSuch` list, segment or subscriber."""
        segment = await self.get(list_name, name)
        return await self.explain_rule(list_name, segment.rule, email)

    async def explain_rule(self, list_name: str, rule_text: str, email: str) -> Explanation:
        """Say why a rule selects a subscriber or not. `RuleError`, `NoSuch`."""
        fields = (await self._fields.get(list_name)).fields
        rule, recipients = await self._checked(rule_text, fields, ListName(list_name))
        subscriber = await self._subscriptions.get(list_name, email)
        await recipients.look_up([subscriber.address], moved_subscribers([subscriber]))
        reason = explain(rule, _values(fields, subscriber), _today(), recipients.received)
        return Explanation(subscriber.address, reason)

    async def _checked(
        self, text: str, fields: Fields, name: ListName
    ) -> tuple[Rule, MessageRecipients]:
        """Return a rule, and who received the messages that it names. `RuleError`."""
        rule = parse_rule(text)
        check_rule(rule, fields.types, may_ask_messages=True)
        return rule, await self.received.of([rule], [name], _today())

    async def _compiled(self, text: str, fields: Fields, name: ListName) -> _Compiled:
        """Return a rule as a function. `RuleError`."""
        rule, recipients = await self._checked(text, fields, name)
        used = fields_of(rule)
        needed = Fields(each for each in fields.declared if each.name in used)
        selects = compile_rule(rule, _today(), recipients.received)
        return _Compiled(selects, recipients, needed, ranges_of(rule))


class _Compiled(msgspec.Struct, frozen=True):
    """A rule as a function, what has to be looked up for it, the fields that it needs, and the rows
    among which it can select some."""

    selects: Selects
    recipients: MessageRecipients
    fields: Fields
    ranges: KeyRanges

    async def look_up(self, addresses: Sequence[Address], moved: Sequence[MovedSubscriber]) -> None:
        """Prepare the function for these subscribers, who are in order."""
        await self.recipients.look_up(addresses, moved)


def _values(fields: Fields, subscriber: Subscriber) -> dict[str, FieldValue]:
    return fields.values(subscriber.address, subscriber.created_at, subscriber.known)


async def _in_parts(subscribers: AsyncIterator[Subscriber]) -> AsyncIterator[list[Subscriber]]:
    """Yield subscribers, `AT_ONCE` at a time."""
    some: list[Subscriber] = []
    async for each in subscribers:
        some.append(each)
        if len(some) == AT_ONCE:
            yield some
            some = []
    yield some


def _today() -> date:
    return clock.now().date()


def _row(list_name: ListName, name: str, rule: str) -> Entity:
    return Entity(list_name, _PREFIX + name, {"Rule": rule})


def _segment_from(entity: Entity) -> Segment:
    return Segment(
        list_name=ListName(entity.partition),
        name=entity.row.removeprefix(_PREFIX),
        rule=entities.read(entity, "Rule", str),
        etag=entity.etag,
    )
