"""How fast each provider accepts our emails: learned by senders, limited by administrators.

| table      | partition  | row          | holds                                                   |
|------------|------------|--------------|---------------------------------------------------------|
| `throttle` | `provider` | the provider | Rate, Goal, ChangedAt, ThrottledAt (see                 |
|            |            |              | `adaptive_rates.py`); Throttled, Reply;                 |
|            |            |              | MostPerSecond, Connections, EmailsPerConnection,        |
|            |            |              | RestMinutes: set by an administrator                    |

A provider without a row has no limit. Senders share the rows, and change them under their ETags:
when they are throttled, and after a clean minute. So a rate survives restarts and costs no write
per email.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.errors import Invalid, Overtaken
from postroom.domain.messages.delivery.adaptive_rates import (
    CLEAN_SECONDS,
    AdaptiveRate,
    cleaned,
    throttled,
)
from postroom.domain.messages.delivery.providers import Provider, initial_limits
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read_optional
from postroom.storage import Conflict, Entity, KeyRange, Store, Value

TABLE: Final = "throttle"
PARTITION: Final = "provider"
LEAST_PER_SECOND: Final = 0.001
MOST_PER_SECOND: Final = 100_000.0
MOST_CONNECTIONS: Final = 1_000
MOST_PER_CONNECTION: Final = 1_000_000
MOST_REST_MINUTES: Final = 7 * 1_440
_WHOLE_LIMITS: Final = {
    "connections": (1, MOST_CONNECTIONS),
    "emails_per_connection": (1, MOST_PER_CONNECTION),
    "rest_minutes": (0, MOST_REST_MINUTES),
}
_LONGEST_REPLY: Final = 500


class ProviderLimit(msgspec.Struct, frozen=True):
    """What an administrator allows; None: what the provider accepts. `rest_minutes` is how long it
    gets nothing after throttling us."""

    per_second: float | None = None
    connections: int | None = None
    emails_per_connection: int | None = None
    rest_minutes: int | None = None


class ProviderRate(msgspec.Struct, frozen=True):
    """What is known about a provider. `throttled` is how often it throttled us, and `reply` its
    last such reply."""

    provider: Provider
    learned: AdaptiveRate | None = None
    limit: ProviderLimit = ProviderLimit()
    throttled: int = 0
    reply: str = ""
    etag: str = ""

    @property
    def ceiling(self) -> float:
        return math.inf if self.limit.per_second is None else self.limit.per_second

    def per_second(self, now: float) -> float | None:
        """Return the emails per second that may be sent to it; None: no limit."""
        learned = self.learned
        if learned is None or learned.is_forgotten(now):
            return self.limit.per_second
        return min(learned.per_second, self.ceiling)

    def is_limited(self, now: float) -> bool:
        """Return whether anything limits the emails to it."""
        limit = self.limit
        return (
            self.per_second(now) is not None
            or limit.connections is not None
            or limit.emails_per_connection is not None
        )

    def connections(self, now: float) -> int | None:
        """Return how many emails to it may be in progress at once; None: no limit."""
        if self.limit.connections is not None or self.per_second(now) is None:
            return self.limit.connections
        return initial_limits(self.provider).connections

    def emails_per_connection(self, now: float) -> int | None:
        """Return how many emails to it one connection may carry; None: any number."""
        if self.limit.emails_per_connection is not None or self.per_second(now) is None:
            return self.limit.emails_per_connection
        return initial_limits(self.provider).emails_per_connection

    @property
    def rest_minutes(self) -> int | None:
        """Return how long it gets nothing after throttling us; None: a few seconds."""
        if self.limit.rest_minutes is not None:
            return self.limit.rest_minutes
        return initial_limits(self.provider).rest_minutes

    def rest_after(self, reply: str) -> timedelta:
        """Return how long it gets nothing after this throttling reply."""
        if initial_limits(self.provider).rest_reply not in reply:
            return timedelta()
        return timedelta(minutes=self.rest_minutes or 0)


class ProviderRateService:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def all(self) -> dict[Provider, ProviderRate]:
        """Return the providers that have throttled us or that an administrator has limited."""
        rows = self._table.scan(KeyRange.only(PARTITION))
        found = [_rate(each) async for each in rows]
        return {each.provider: each for each in found}

    async def get(self, provider: Provider) -> ProviderRate:
        """Return what is known about a provider, even if that is nothing."""
        found = await self._table.get(PARTITION, provider)
        return ProviderRate(provider) if found is None else _rate(found)

    async def throttled(self, provider: Provider, measured: float, reply: str) -> None:
        """Lower the rate after a provider has throttled us. It accepted `measured` emails per
        second just before."""

        def change(rate: ProviderRate) -> ProviderRate:
            learned = throttled(rate.learned, measured, clock.timestamp(), rate.ceiling)
            if learned == rate.learned:
                return rate
            return msgspec.structs.replace(
                rate, learned=learned, throttled=rate.throttled + 1, reply=reply[:_LONGEST_REPLY]
            )

        await self._change(provider, change)

    async def cleaned(self, provider: Provider, minute: float = CLEAN_SECONDS) -> None:
        """Raise the rate if a provider has throttled nothing for long enough."""

        def change(rate: ProviderRate) -> ProviderRate:
            if rate.learned is None:
                return rate
            learned = cleaned(rate.learned, clock.timestamp(), rate.ceiling, minute)
            return msgspec.structs.replace(rate, learned=learned)

        await self._change(provider, change)

    async def set_limit(self, provider: Provider, limit: ProviderLimit) -> None:
        """Limit a provider, or remove its limits. `Invalid`."""
        per_second = limit.per_second
        if per_second is not None and not LEAST_PER_SECOND <= per_second <= MOST_PER_SECOND:
            allowed = f"between {LEAST_PER_SECOND:g} and {MOST_PER_SECOND:,.0f}"
            raise Invalid("per_second", f"must be {allowed}, not {per_second:g}")
        for name, (least, most) in _WHOLE_LIMITS.items():
            number = getattr(limit, name)
            if number is not None and not least <= number <= most:
                raise Invalid(name, f"must be between {least} and {most:,}, not {number}")
        exact = msgspec.structs.replace(
            limit, per_second=None if per_second is None else float(per_second)
        )
        await self._change(provider, lambda rate: msgspec.structs.replace(rate, limit=exact))

    async def forget(self, provider: Provider) -> None:
        """Forget what was learned about a provider: it is no longer throttled. Its limits
        stay."""
        await self._change(
            provider,
            lambda rate: msgspec.structs.replace(rate, learned=None, throttled=0, reply=""),
        )

    async def _change(
        self, provider: Provider, change: Callable[[ProviderRate], ProviderRate]
    ) -> None:
        async def attempt() -> None:
            before = await self.get(provider)
            after = change(before)
            if after == before:
                return
            if not before.etag:
                await self._table.insert(_entity(after))
            elif after == ProviderRate(provider, etag=before.etag):
                await self._table.delete(PARTITION, provider, before.etag)
            else:
                await self._table.replace(_entity(after), before.etag)

        # Another sender has just changed it for the same reason.
        with suppress(Overtaken, Conflict):
            await retry_on_conflict(attempt, "provider", provider)


_COLUMNS: Final = {
    "per_second": "MostPerSecond",
    "connections": "Connections",
    "emails_per_connection": "EmailsPerConnection",
    "rest_minutes": "RestMinutes",
}


def _entity(rate: ProviderRate) -> Entity:
    properties: dict[str, Value] = {"Throttled": rate.throttled, "Reply": rate.reply}
    if rate.learned is not None:
        properties["Rate"] = rate.learned.per_second
        properties["Goal"] = rate.learned.goal
        properties["ChangedAt"] = _moment(rate.learned.changed_at)
        properties["ThrottledAt"] = _moment(rate.learned.throttled_at)
    for name, column in _COLUMNS.items():
        number = getattr(rate.limit, name)
        if number is not None:
            properties[column] = number
    return Entity(PARTITION, rate.provider, properties)


def _rate(row: Entity) -> ProviderRate:
    per_second = read_optional(row, "Rate", float)
    changed_at = read_optional(row, "ChangedAt", datetime)
    throttled_at = read_optional(row, "ThrottledAt", datetime)
    learned = None
    if per_second is not None and changed_at is not None and throttled_at is not None:
        goal = read_optional(row, "Goal", float) or per_second
        learned = AdaptiveRate(per_second, goal, changed_at.timestamp(), throttled_at.timestamp())
    return ProviderRate(
        Provider(row.row),
        learned,
        ProviderLimit(
            read_optional(row, "MostPerSecond", float),
            read_optional(row, "Connections", int),
            read_optional(row, "EmailsPerConnection", int),
            read_optional(row, "RestMinutes", int),
        ),
        read_optional(row, "Throttled", int) or 0,
        read_optional(row, "Reply", str) or "",
        row.etag,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
