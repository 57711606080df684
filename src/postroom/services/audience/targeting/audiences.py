"""The audiences of messages: checked when a message is scheduled, counted, and fixed when it is
queued."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_texts import field_texts, shown_value
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field, Fields
from postroom.domain.audience.lists.lists import ListName, Subscriber, parse_list_name
from postroom.domain.audience.rules import RuleError, check_rule, fields_of, parse_rule
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.audiences import (
    EVERYBODY,
    Audience,
    AudienceRules,
    Exclusion,
    parse_audience,
)
from postroom.mail.personal.merge_fields import OWN_RULES, RULES, FieldRule, Personal
from postroom.services import entities
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.growth.list_sizes import ListSizes
from postroom.services.audience.growth.recent_counts import AudienceCount, RecentCounts
from postroom.services.audience.lists import ListService
from postroom.services.audience.targeting.merged_lists import AT_ONCE, People, PeopleReader
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.audience.targeting.selection import Selection
from postroom.services.partial_rows import AttributeRow
from postroom.storage import KeyRange, Store, gt

Exclusions = Mapping[str, Exclusion | None]

COUNTED_AT_ONCE: Final = 50_000
"""Subscribers of a list in which a page may count those who have paused, by reading all of it."""

_MOST_EXAMPLES: Final = 3
_EXAMPLE_SECONDS: Final = 2.0
_PREFIX: Final = len(entities.EMAIL_PREFIX)
_LARGEST_RULES: Final = 60_000  # bytes: they are one property of the message's row


class _PausedRow(msgspec.Struct, frozen=True, gc=False):
    """What matters of a subscriber who has paused."""

    Verified: bool = False
    Blocked: str = ""


class AudienceService:
    def __init__(
        self,
        store: Store,
        lists: ListService,
        fields: FieldService,
        segments: SegmentService,
        sizes: ListSizes,
    ) -> None:
        self._store = store
        self._table = store.table(entities.LISTS)
        self._lists = lists
        self._fields = fields
        self._segments = segments
        self._sizes = sizes
        self._recent = RecentCounts()

    async def checked(self, list_name: str, audience: Audience) -> Audience:
        """Return an audience as it is stored. `Invalid` if this list, which exists, cannot have
        it."""
        audience = parse_audience(audience)
        if list_name in audience.more_lists:
            raise Invalid("more_lists", f"the list {list_name} already gets the message")
        await self._check_exist("more_lists", audience.more_lists)
        for each in (list_name, *audience.more_lists):
            if each in audience.exclude_lists:
                raise Invalid(
                    "exclude_lists", f"the list {each} gets the message, so it cannot be left out"
                )
        await self._check_exist("exclude_lists", audience.exclude_lists)
        await self.rules(list_name, audience)
        return audience

    async def _check_exist(self, field: str, names: Sequence[ListName]) -> None:
        for each in names:
            try:
                await self._lists.get(each)
            except NoSuch as exc:
                raise Invalid(field, str(exc)) from exc

    async def merge_fields(
        self, list_name: str, more_lists: Sequence[str] = ()
    ) -> Mapping[str, FieldRule]:
        """Return the merge fields of messages to a list, which exists. With more lists, these are
        the fields that all of them have."""
        rules = dict((await self.personal(list_name)).rules)
        for each in more_lists:
            others = (await self.personal(each)).rules
            rules = {
                name: rule if rule.may_be_empty else others[name]
                for name, rule in rules.items()
                if name in others
            }
        return rules

    async def rules(self, list_name: str, audience: Audience) -> AudienceRules:
        """Return the rules of the segments as they are now. `Invalid` if a segment does not exist,
        or names a field that one of the lists does not have."""
        if not audience.segments:
            return AudienceRules()
        fields = (await self._fields.of(parse_list_name(list_name))).fields
        used: set[str] = set()
        segment = ""
        if audience.segment:
            segment = await self._rule("segment", list_name, audience.segment, fields, used)
        excluded = [
            await self._rule("exclude_segments", list_name, each, fields, used)
            for each in audience.exclude_segments
        ]
        types = {name: kind for name, kind in fields.types.items() if name in used}
        formerly_on = {}
        for each in audience.more_lists:
            others = (await self._fields.of(each)).fields
            _check_same(types, others.types, each)
            if renamed := _former_names(others, used):
                formerly_on[str(each)] = renamed
        rules = AudienceRules(
            segment, tuple(excluded), types, _former_names(fields, used), formerly_on
        )
        size = len(msgspec.json.encode(rules))
        if size > _LARGEST_RULES:
            problem = f"must have at most {_LARGEST_RULES:,} bytes in all rules, not {size:,}"
            raise Invalid("segment", problem)
        return rules

    async def selection(
        self, lists: Sequence[ListName], audience: Audience, rules: AudienceRules, today: date
    ) -> Selection:
        """Return the selection of an audience from these lists. `Invalid` if a message that its
        rules name no longer exists."""
        texts = filter(None, (rules.segment, *rules.excluded))
        recipients = await self._segments.received.of(map(parse_rule, texts), lists, today)
        return Selection(self._store, lists, audience, rules, today, recipients)

    async def count(self, list_name: str, audience: Audience = EVERYBODY) -> AudienceCount:
        """Count who would get a message now. `Invalid`, `NoSuch` list.

        The number of all subscribers is known; for a part of them, the whole list is read, some
        rows at a time. A count that takes long is half a minute old at most.
        """
        name = (await self._lists.get(list_name)).name
        if audience.is_everybody:
            return await self._count_everybody(name)
        audience = await self.checked(name, audience)
        rules = await self.rules(name, audience)
        today = clock.now().date()
        lists = (name, *audience.more_lists)
        selection = await self.selection(lists, audience, rules, today)
        return await self._recent.get(
            msgspec.json.encode((name, audience, rules, today)),
            partial(self._count_part, lists, selection),
            is_slow=bool(audience.exclude_lists),  # these lists may be large
        )

    async def people(
        self, list_name: ListName, audience: Audience
    ) -> AsyncIterator[tuple[People[AttributeRow], Exclusions]]:
        """Yield the subscribers of a message's lists as they are now, some at a time, each with the
        reason why the message does not go there. All rows are read. `Invalid`."""
        rules = await self.rules(list_name, audience)
        lists = (list_name, *audience.more_lists)
        selection = await self.selection(lists, audience, rules, clock.now().date())
        async for each in self._selected(lists, selection):
            yield each

    async def _selected(
        self, lists: Sequence[ListName], selection: Selection
    ) -> AsyncIterator[tuple[People[AttributeRow], Exclusions]]:
        reader = PeopleReader(self._table, lists, AttributeRow)
        while not reader.is_at_end:
            found = await reader.read()
            yield found, await selection.exclusions(found.rows, found.numbers)

    async def _count_part(self, lists: Sequence[ListName], selection: Selection) -> AudienceCount:
        counted: Counter[Exclusion | None] = Counter()
        async for found, exclusions in self._selected(lists, selection):
            counted.update(exclusions.values())
            counted[Exclusion.DUPLICATE] += len(found.duplicates)
        return AudienceCount(
            counted[None], {each.value: counted[each] for each in Exclusion if counted[each]}
        )

    async def count_paused(self, name: ListName) -> int:
        """Return how many subscribers of a list, who would get a message otherwise, have paused.

        The engine looks at the whole list, which takes a while for a large one.
        """
        count = 0
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start, where = within.start, gt("PausedUntil", clock.now())
        while True:
            rows = await self._table.read(
                _PausedRow, name, KeyRange(start, within.stop), where=where, limit=AT_ONCE
            )
            count += sum(each.Verified and not each.Blocked for each in rows.values())
            if len(rows) < AT_ONCE:
                return count
            start = entities.key_after(next(reversed(rows)))

    async def _count_everybody(self, name: ListName) -> AudienceCount:
        size = (await self._sizes.of([name]))[name]
        excluded = {
            Exclusion.UNCONFIRMED.value: size.subscribers - size.verified,
            Exclusion.BLOCKED.value: size.verified - size.recipients,
        }
        return AudienceCount(
            size.recipients, {reason: count for reason, count in excluded.items() if count > 0}
        )

    async def personal(self, list_name: str, subscriber: Subscriber | None = None) -> Personal:
        """Return the merge fields of messages to a list, which exists, with what they say for a
        subscriber now. Without one, a field that is never empty has its label as an example."""
        fields = (await self._fields.of(parse_list_name(list_name))).fields
        rules = {**RULES, **{each.name: _rule_of(each) for each in fields.declared}}
        if subscriber is None:
            values = {
                each.name: each.shown_label if each.default is None else shown_value(each.default)
                for each in fields.declared
                if not rules[each.name].may_be_empty
            }
            # Conditions are those of someone without any values, as on the web.
            return Personal(rules, {**values, "joined": clock.now().date().isoformat()})
        names = [name for name in rules if name not in OWN_RULES]
        texts = field_texts(
            fields,
            names,
            subscriber.address,
            subscriber.created_at,
            subscriber.known,
        )
        compared = fields.values(subscriber.address, subscriber.created_at, subscriber.known)
        return Personal(rules, dict(zip(names, texts, strict=True)), compared)

    async def _rule(
        self, field: str, list_name: str, name: str, fields: Fields, used: set[str]
    ) -> str:
        """Return the rule of a segment, and add the fields that it uses. `Invalid`."""
        try:
            segment = await self._segments.get(list_name, name)
            rule = parse_rule(segment.rule)
            check_rule(rule, fields.types, may_ask_messages=True)
            await self._segments.received.of([rule], [segment.list_name], clock.now().date())
        except NoSuch as exc:
            raise Invalid(field, f"{exc} of the list {list_name}") from exc
        except RuleError as exc:
            raise Invalid(field, f"the rule of {name}, {exc.problem}") from exc
        used |= fields_of(rule)
        return segment.rule


def _former_names(fields: Fields, used: set[str]) -> dict[str, str]:
    """Return the earlier names of used fields that are being renamed."""
    return {
        each.name: each.formerly for each in fields.declared if each.formerly and each.name in used
    }


def _check_same(
    types: Mapping[str, FieldType], others: Mapping[str, FieldType], name: ListName
) -> None:
    """Raise `Invalid` unless an additional list has all fields of the rules with the same types."""
    for field, kind in types.items():
        if (other := others.get(field)) is not kind:
            what = f"has as {other}, not {kind}" if other else "does not have"
            problem = f"the rule uses the field {field}, which the list {name} {what}"
            raise Invalid("more_lists", problem)


def _rule_of(field: Field) -> FieldRule:
    may_be_empty = not field.required and field.default is None
    return FieldRule(may_be_empty=may_be_empty, type=field.type)


async def excluded_examples(
    audiences: AudienceService,
    list_name: ListName,
    audience: Audience,
    reasons: Collection[str],
) -> dict[str, list[Address]]:
    """Return up to three addresses for each reason why people will not receive a message, so that
    authors can check the numbers: in the order of the list, as far as they are found within two
    seconds. `Invalid`."""
    found: dict[str, list[Address]] = {each: [] for each in reasons}
    begun = clock.monotonic()
    async for people, exclusions in audiences.people(list_name, audience):
        duplicates = [(each, Exclusion.DUPLICATE) for each in people.duplicates]
        for row, reason in (*exclusions.items(), *duplicates):
            some = found.get(reason or "")
            if some is not None and len(some) < _MOST_EXAMPLES:
                some.append(Address(people.rows[row].EmailAddress or row[_PREFIX:]))
        is_complete = all(len(some) >= _MOST_EXAMPLES for some in found.values())
        if is_complete or clock.monotonic() - begun > _EXAMPLE_SECONDS:
            break
    return {reason: some for reason, some in found.items() if some}
