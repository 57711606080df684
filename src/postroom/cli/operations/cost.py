"""`postroom cost`: what Azure Storage charges for, from counted requests.

The counts come from real runs against Azurite; `make bench ARGS=cost` counts again and compares.
Prices change: they are parameters, and the defaults only a starting point.
"""

from __future__ import annotations

import math
from typing import Final

import click
import msgspec

from postroom.cli.support import output
from postroom.domain.messages.pages import PAGE_SIZE


@click.command()
@click.option(
    "--emails", type=click.IntRange(1), help="Per month. [default: 10 thousand, 1 and 100 million]"
)
@click.option("--messages", default=4, show_default=True, type=click.IntRange(1), help="Per month.")
@click.option("--table-price", type=click.FloatRange(0), help="Dollars per 10,000 requests.")
@click.option("--queue-price", type=click.FloatRange(0), help="Dollars per 10,000 requests.")
@click.option("--blob-price", type=click.FloatRange(0), help="Dollars per 10,000 requests.")
@click.option("--gigabyte-price", type=click.FloatRange(0), help="Dollars per gigabyte per month.")
@output.json_option
def cost(
    emails: int | None,
    messages: int,
    table_price: float | None,
    queue_price: float | None,
    blob_price: float | None,
    gigabyte_price: float | None,
    as_json: bool,
) -> None:
    """Estimate the monthly cost of Azure Storage.

    The machines that send are not included.

    Based on requests counted in real runs. Prices change: look them up and pass them.
    """
    import msgspec

    from postroom.cli.operations.cost import Prices, monthly_cost

    given = {
        "table": table_price,
        "queue": queue_price,
        "blob": blob_price,
        "gigabyte": gigabyte_price,
    }
    prices = msgspec.structs.replace(
        Prices(), **{name: price for name, price in given.items() if price is not None}
    )
    amounts = [emails] if emails else [10_000, 1_000_000, 100_000_000]
    found = [monthly_cost(amount, messages, prices) for amount in amounts]
    if as_json:
        items = [{**msgspec.to_builtins(each), "total": each.total} for each in found]
        output.print_json({"items": items, "prices": msgspec.to_builtins(prices)})
        return
    rows = [
        (
            f"{each.emails:,}",
            f"{each.requests.total:,.0f}",
            f"{each.dollars:,.2f}",
            f"{each.dollars_idle:,.2f}",
            f"{each.dollars_kept:,.2f}",
            f"{each.total:,.2f}",
        )
        for each in found
    ]
    headings = ("#emails", "#requests", "#sending $", "#idle $", "#storage $", "#total $")
    output.console().print(output.table(headings, rows))
    output.note(
        f"For {messages} messages per month, at {prices.table}, {prices.queue} and {prices.blob}"
        " dollars per 10,000 requests to tables, queues and blobs. Look up current prices."
    )


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


PER_PAGE: Final = Requests(table=2.3, queue=2)
"""A page of up to 100 emails, from its fan-out to its last outcome."""

PER_MESSAGE: Final = Requests(table=50, queue=30, blob=25)
"""A message, without its pages."""

PER_IDLE_MINUTE: Final = Requests(table=93, queue=91, blob=12)
"""An idle scheduler and host: leases, heartbeats, polling of queues and of stored settings."""

KILOBYTES_PER_EMAIL: Final = 0.1
"""What is stored per email, with a long address."""

_MINUTES: Final = 30 * 24 * 60


class Prices(msgspec.Struct, frozen=True):
    """Dollars per 10,000 requests, and per gigabyte per month."""

    table: float = 0.00036
    queue: float = 0.004
    blob: float = 0.05
    gigabyte: float = 0.045


class Cost(msgspec.Struct, frozen=True):
    """The cost of a month."""

    emails: int
    requests: Requests
    dollars: float
    dollars_idle: float
    dollars_kept: float

    @property
    def total(self) -> float:
        return self.dollars + self.dollars_idle + self.dollars_kept


def monthly_cost(emails: int, messages: int, prices: Prices) -> Cost:
    """Return the cost of a month with these numbers of emails and messages."""
    pages = math.ceil(emails / PAGE_SIZE)
    sending = PER_PAGE.times(pages) + PER_MESSAGE.times(messages)
    kept = emails * KILOBYTES_PER_EMAIL / 1e6 * prices.gigabyte
    idle = _price(PER_IDLE_MINUTE.times(_MINUTES), prices)
    return Cost(emails, sending, _price(sending, prices), idle, kept)


def _price(requests: Requests, prices: Prices) -> float:
    dollars = (
        requests.table * prices.table + requests.queue * prices.queue + requests.blob * prices.blob
    )
    return dollars / 10_000
