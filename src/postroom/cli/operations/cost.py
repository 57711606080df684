"""`postroom cost`: what Azure Storage would charge."""

from __future__ import annotations

import click

from postroom.cli.support import output


@click.command()
@click.option(
    "--emails", type=click.IntRange(1), help="A month. Without it: 10 thousand, 1 and 100 million."
)
@click.option("--messages", default=4, show_default=True, type=click.IntRange(1), help="A month.")
@click.option("--table-price", type=click.FloatRange(0), help="Dollars for 10,000 requests.")
@click.option("--queue-price", type=click.FloatRange(0), help="The same for queues.")
@click.option("--blob-price", type=click.FloatRange(0), help="The same for blobs.")
@click.option("--gigabyte-price", type=click.FloatRange(0), help="Dollars a month.")
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
    """What a month on Azure Storage costs, without the machines that send.

    From requests that were counted in real runs; prices change, so look them up and give them.
    """
    import msgspec

    from postroom.cli.operations.azure_prices import Prices, monthly_cost

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
    headings = ("#emails", "#requests", "#sending $", "#waiting $", "#one month kept $", "#total $")
    output.console().print(output.table(headings, rows))
    output.note(
        f"With {messages} messages a month, at {prices.table}, {prices.queue} and {prices.blob}"
        " dollars for 10,000 requests to tables, queues and blobs: look up today's prices."
    )
