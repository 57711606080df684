"""What Azure Storage charges for, from counted requests.

The counts come from real runs against Azurite (`make bench ARGS=cost` counts again, and shows these
beside it). Prices change: they are parameters, and the defaults only a starting point.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from postroom.domain.messages.pages import PAGE_SIZE


class Requests(msgspec.Struct, frozen=True):
    """Requests to each of the three services."""

    table: float = 0.0
    queue: float = 0.0
    blob: float = 0.0

    def __add__(self, other: Requests) -> Requests:
        return Requests(self.table + other.table, self.queue + other.queue, self.blob + other.blob)

    def times(self, factor: float) -> Requests:
        return Requests(self.table * factor, self.queue * factor, self.blob * factor)

    @property
    def total(self) -> float:
        return self.table + self.queue + self.blob


A_PAGE: Final = Requests(table=10, queue=2.3)
"""A page of up to 100 emails, from its fan-out to its archive."""

A_MESSAGE: Final = Requests(table=50, queue=30, blob=25)
"""What each message costs besides its pages."""

AN_IDLE_MINUTE: Final = Requests(table=73, queue=91, blob=12)
"""A scheduler and a host, while nothing happens: leases, heartbeats, and looks at queues."""

AN_EMAIL_KILOBYTES: Final = 0.5
"""What is kept of an email, for as long as its message is in the archive."""

_MINUTES: Final = 30 * 24 * 60


class Prices(msgspec.Struct, frozen=True):
    """In dollars, for 10,000 requests, and for a gigabyte kept a month."""

    table: float = 0.00036
    queue: float = 0.004
    blob: float = 0.05
    gigabyte: float = 0.045


class Cost(msgspec.Struct, frozen=True):
    """A month."""

    emails: int
    requests: Requests
    dollars: float
    dollars_idle: float
    dollars_kept: float

    @property
    def total(self) -> float:
        return self.dollars + self.dollars_idle + self.dollars_kept


def monthly_cost(emails: int, messages: int, prices: Prices) -> Cost:
    """So many emails in so many messages."""
    pages = math.ceil(emails / PAGE_SIZE)
    sending = A_PAGE.times(pages) + A_MESSAGE.times(messages)
    kept = emails * AN_EMAIL_KILOBYTES / 1e6 * prices.gigabyte
    idle = _price(AN_IDLE_MINUTE.times(_MINUTES), prices)
    return Cost(emails, sending, _price(sending, prices), idle, kept)


def _price(requests: Requests, prices: Prices) -> float:
    dollars = (
        requests.table * prices.table + requests.queue * prices.queue + requests.blob * prices.blob
    )
    return dollars / 10_000
