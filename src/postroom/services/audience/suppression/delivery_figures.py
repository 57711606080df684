"""How many emails of each message bounced or led to complaints, in total and by provider.

| table             | partition | row       | holds                                         |
|-------------------|-----------|-----------|-----------------------------------------------|
| `deliveryfigures` | `message` | time, ref | the figures of a message, newest first        |

They are counted when a message is finished, and again after bounces have arrived. How many emails
each provider accepted is counted on up to 100 pages, spread evenly over the message: exact up to
10,000 recipients, and an estimate above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.suppressions import AddressDigest
from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.domain.messages.delivery.providers import Provider, provider_of
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.suppression.bounce_history import BounceRecords
from postroom.services.entities import key_after, read
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import PageRows
from postroom.services.row_ranges import named_row, remove_rows, rows_before
from postroom.storage import Entity, KeyRange, NotFound, Store, eq

NOTICED_RATES: Final = "deliverylimits"
"""Table: the rates of a message that were too high; see `delivery_limits.py`."""
_TABLE: Final = "deliveryfigures"
_PARTITION: Final = "message"
_SAMPLED_PAGES: Final = 100
_MOST_PROVIDERS: Final = 50
PERIOD: Final = timedelta(days=30)

NOT_DELIVERED: Final = frozenset(
    {
        BounceKind.GONE,
        BounceKind.FULL,
        BounceKind.TEMPORARY,
        BounceKind.POLICY,
        BounceKind.CONTENT,
        BounceKind.UNKNOWN,
    }
)
"""Kinds of reports that say that an email was not delivered."""

REJECTED: Final = frozenset({BounceKind.POLICY, BounceKind.CONTENT})


class DeliveryFigures(msgspec.Struct, frozen=True):
    """Emails that were accepted, and how many of them bounced (each counts once), were rejected
    because of us or the message (a part of the bounced), or were marked as spam."""

    accepted: int = 0
    bounced: int = 0
    rejected: int = 0
    complained: int = 0

    def __add__(self, other: DeliveryFigures) -> DeliveryFigures:
        return DeliveryFigures(
            self.accepted + other.accepted,
            self.bounced + other.bounced,
            self.rejected + other.rejected,
            self.complained + other.complained,
        )


class KindFigure(msgspec.Struct, frozen=True):
    """How many emails had bounces of a kind, with one of their texts."""

    kind: BounceKind
    count: int
    text: str


class MessageFigures(msgspec.Struct, frozen=True):
    """The figures of a message: in total, by kind, and by provider."""

    total: DeliveryFigures = DeliveryFigures()
    kinds: tuple[KindFigure, ...] = ()
    providers: Mapping[Provider, DeliveryFigures] = {}


class FiguresRow(msgspec.Struct, frozen=True):
    """The figures of one of several messages, with the key of their row."""

    row: str
    ref: MessageRef
    figures: MessageFigures


class PeriodFigures(msgspec.Struct, frozen=True):
    """The figures of all messages of the last 30 days, by list and by provider."""

    lists: Mapping[ListName, DeliveryFigures]
    providers: Mapping[Provider, DeliveryFigures]


class DeliveryFigureService:
    def __init__(
        self, store: Store, bounces: BounceRecords, outcomes: OutcomeService, pages: PageRows
    ) -> None:
        self._table = store.table(_TABLE)
        self._noticed = store.table(NOTICED_RATES)
        self._bounces = bounces
        self._outcomes = outcomes
        self._pages = pages

    async def count(self, message: Message) -> MessageFigures:
        """Count the bounces of a message, and keep the result. Can be repeated."""
        kinds: dict[BounceKind, set[AddressDigest]] = {}
        providers: dict[AddressDigest, Provider] = {}
        texts: dict[BounceKind, str] = {}
        async for each in self._bounces.of_message(message.ref):
            kinds.setdefault(each.kind, set()).add(each.digest)
            texts.setdefault(each.kind, each.diagnostic)
            if each.address:
                providers[each.digest] = provider_of(each.address)
        accepted = await self.accepted(message)
        by_provider = await self._accepted_by_provider(message, accepted)
        figures = MessageFigures(
            _figures(accepted, kinds, None),
            tuple(KindFigure(kind, len(who), texts[kind]) for kind, who in sorted(kinds.items())),
            _by_provider(by_provider, kinds, providers),
        )
        await self._table.upsert(_entity(message, figures))
        return figures

    async def _accepted_by_provider(self, message: Message, accepted: int) -> Counter[Provider]:
        numbers = [n async for n, page in self._pages.summaries(message) if page.counts.accepted]
        step = max(1, -(-len(numbers) // _SAMPLED_PAGES))
        found: Counter[Provider] = Counter()
        for number in numbers[::step]:
            page = await self._pages.get(message.day, message.ref, number)
            if page is not None:
                found.update(
                    provider_of(address)
                    for address, state in page.emails
                    if state.outcome is EmailOutcome.ACCEPTED
                )
        scale = accepted / found.total() if found else 1.0
        return Counter({provider: round(count * scale) for provider, count in found.items()})

    async def of_message(self, message: Message) -> MessageFigures:
        """Return the figures of a message as they were last counted."""
        if message.status is MessageStatus.DRAFT:
            return MessageFigures()
        found = await self._table.get(_PARTITION, _row(message))
        return MessageFigures() if found is None else _message_figures(found)

    async def accepted(self, message: Message) -> int:
        """Return how many emails of a message have been accepted so far."""
        return (await self._outcomes.counts(message)).accepted

    async def newest(
        self,
        limit: int,
        *,
        list_name: ListName | None = None,
        before: Message | FiguresRow | None = None,
    ) -> list[FiguresRow]:
        """Return the figures of the last messages, newest first: of all, or of those whose first
        list this is."""
        rows = KeyRange()
        if before is not None:
            row = before.row if isinstance(before, FiguresRow) else _row(before)
            rows = KeyRange(start=key_after(row))
        where = None if list_name is None else eq("ListName", list_name)
        found = await self._table.query(KeyRange.only(_PARTITION), rows, where=where, limit=limit)
        return [
            FiguresRow(each.row, MessageRef(each.row.rpartition(",")[2]), _message_figures(each))
            for each in found.entities
        ]

    async def of_period(self) -> PeriodFigures:
        """Return the figures of the messages that were due within the last 30 days."""
        since = rows_before(clock.now() - PERIOD).start
        lists: dict[ListName, DeliveryFigures] = {}
        providers: dict[Provider, DeliveryFigures] = {}
        async for entity in self._table.scan(KeyRange.only(_PARTITION), KeyRange(stop=since)):
            figures = _message_figures(entity)
            name = ListName(read(entity, "ListName", str))
            lists[name] = lists.get(name, DeliveryFigures()) + figures.total
            for provider, each in figures.providers.items():
                providers[provider] = providers.get(provider, DeliveryFigures()) + each
        return PeriodFigures(lists, providers)

    async def forget(self, message: Message) -> None:
        """Remove the figures and bounces of a message that is being removed, and what was noticed
        about its rates. Can be repeated."""
        await self._bounces.forget_message(message.ref)
        noticed = [each.row async for each in self._noticed.scan(KeyRange.only(message.ref))]
        await remove_rows(self._noticed, message.ref, noticed)
        with suppress(NotFound):
            await self._table.delete(_PARTITION, _row(message))


def _figures(
    accepted: int,
    kinds: Mapping[BounceKind, set[AddressDigest]],
    wanted: set[AddressDigest] | None,
) -> DeliveryFigures:
    """Count the emails in `kinds`, all or those to the `wanted` addresses."""

    def of(some: Iterable[BounceKind]) -> int:
        who = set[AddressDigest]().union(*(kinds.get(kind, set()) for kind in some))
        return len(who if wanted is None else who & wanted)

    return DeliveryFigures(accepted, of(NOT_DELIVERED), of(REJECTED), of([BounceKind.COMPLAINT]))


def _by_provider(
    accepted: Counter[Provider],
    kinds: Mapping[BounceKind, set[AddressDigest]],
    providers: Mapping[AddressDigest, Provider],
) -> dict[Provider, DeliveryFigures]:
    """Return the figures of the largest providers, and of all that reported something."""
    people: dict[Provider, set[AddressDigest]] = {}
    for digest, provider in providers.items():
        people.setdefault(provider, set()).add(digest)
    named = {provider for provider, _ in accepted.most_common(_MOST_PROVIDERS)}
    reporting = sorted(people, key=lambda each: -len(people[each]))[:_MOST_PROVIDERS]
    return {
        each: _figures(accepted[each], kinds, people.get(each, set()))
        for each in sorted(named.union(reporting))
    }


def _row(message: Message) -> str:
    return named_row(message.due_at, message.ref)


def _entity(message: Message, figures: MessageFigures) -> Entity:
    return Entity(
        _PARTITION,
        _row(message),
        {
            "ListName": message.list_name,
            "Figures": msgspec.json.encode(figures).decode(),
        },
    )


def _message_figures(entity: Entity) -> MessageFigures:
    return msgspec.json.decode(read(entity, "Figures", str), type=MessageFigures)
