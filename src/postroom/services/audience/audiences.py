"""The audiences of messages: checked when a message is scheduled, counted, and fixed when it is
queued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.field_texts import field_texts, shown_value
from postroom.domain.audience.fields import Field, Fields
from postroom.domain.audience.lists import ListName, Subscriber, parse_list_name
from postroom.domain.audience.rules import RuleError, check_rule, fields_of, parse_rule
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.audiences import (
    EVERYBODY,
    Audience,
    AudienceRules,
    Exclusion,
    parse_audience,
)
from postroom.mail.merge_fields import OWN_RULES, RULES, FieldRule, Personal
from postroom.services import entities
from postroom.services.audience.list_fields import FieldService
from postroom.services.audience.list_sizes import ListSizes
from postroom.services.audience.lists import ListService
from postroom.services.audience.recent_counts import AudienceCount, RecentCounts
from postroom.services.audience.segments import SegmentService
from postroom.services.audience.selection import Selection
from postroom.storage import KeyRange, Store

_AT_ONCE: Final = 1000
_LARGEST_RULES: Final = 60_000  # bytes: they are one property of the message's row


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
        for each in audience.exclude_lists:
            if each == list_name:
                raise Invalid("exclude_lists", f"{each} is the list that gets the message")
            try:
                await self._lists.get(each)
            except NoSuch as exc:
                raise Invalid("exclude_lists", str(exc)) from exc
        await self.rules(list_name, audience)
        return audience

    async def merge_fields(self, list_name: str) -> Mapping[str, FieldRule]:
        """Return the merge fields of messages to a list, which exists."""
        return (await self.personal(list_name)).rules

    async def rules(self, list_name: str, audience: Audience) -> AudienceRules:
        """Return the rules of the segments as they are now. `Invalid` if a segment does not exist,
        or names a field that no longer does."""
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
        formerly = {each.name: each.formerly for each in fields.declared if each.formerly}
        renamed = {name: former for name, former in formerly.items() if name in used}
        rules = AudienceRules(segment, tuple(excluded), types, renamed)
        size = len(msgspec.json.encode(rules))
        if size > _LARGEST_RULES:
            problem = f"must have at most {_LARGEST_RULES:,} bytes in all rules, not {size:,}"
            raise Invalid("segment", problem)
        return rules

    def selection(self, audience: Audience, rules: AudienceRules, today: date) -> Selection:
        """Return what tells who of a list belongs to an audience."""
        return Selection(self._store, audience, rules, today)

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
        return await self._recent.get(
            msgspec.json.encode((name, audience, rules, today)),
            partial(self._count_part, name, self.selection(audience, rules, today)),
            is_slow=bool(audience.exclude_lists),  # these lists may be large
        )

    async def _count_part(self, name: ListName, selection: Selection) -> AudienceCount:
        counted: Counter[Exclusion | None] = Counter()
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = within.start
        while True:
            rows = await self._table.read(
                entities.AttributeRow, name, KeyRange(start, within.stop), limit=_AT_ONCE
            )
            counted.update((await selection.exclusions(rows)).values())
            if len(rows) < _AT_ONCE:
                break
            start = entities.behind(next(reversed(rows)))
        return AudienceCount(
            counted[None], {each.value: counted[each] for each in Exclusion if counted[each]}
        )

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
            return Personal(rules, {**values, "joined": clock.now().date().isoformat()})
        names = [name for name in rules if name not in OWN_RULES]
        texts = field_texts(
            fields,
            names,
            subscriber.address,
            subscriber.created_at,
            subscriber.attributes,
        )
        return Personal(rules, dict(zip(names, texts, strict=True)))

    async def _rule(
        self, field: str, list_name: str, name: str, fields: Fields, used: set[str]
    ) -> str:
        """Return the rule of a segment, and add the fields that it uses. `Invalid`."""
        try:
            segment = await self._segments.get(list_name, name)
            rule = parse_rule(segment.rule)
            check_rule(rule, fields.types)
        except NoSuch as exc:
            raise Invalid(field, f"{exc} of the list {list_name}") from exc
        except RuleError as exc:
            raise Invalid(field, f"the rule of {name}, {exc.problem}") from exc
        used |= fields_of(rule)
        return segment.rule


def _rule_of(field: Field) -> FieldRule:
    return FieldRule(may_be_empty=not field.required and field.default is None)
