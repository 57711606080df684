"""`postroom up`."""

import asyncio
import os

import click
from rich.console import Console
from rich.table import Table

from postroom.storage import QueueInfo, StoreInfo, open_store

DATA = "./postroom-data"


@click.command()
@click.option("--data", default=DATA, show_default=True, help="The folder for everything kept.")
@click.option(
    "--store",
    default=lambda: os.environ.get("POSTROOM_STORE"),
    help="The URL of the store.  [default: POSTROOM_STORE, or an SQLite file in --data]",
)
def up(data: str, store: str | None) -> None:
    """Start Postroom. Today: open the store, show what is in it, and end."""
    url = store or f"sqlite:///{data}/postroom.db"
    info, tables, queues, containers = asyncio.run(_look(url))
    console = Console()
    console.print(f"[bold]Postroom[/] keeps its data in [cyan]{info.location}[/]")
    console.print(f"{info.engine}, schema version {info.schema_version}\n")
    if tables or queues or containers:
        console.print(_contents(tables, queues, containers))
    else:
        console.print("The store is new and empty.")
    console.print(
        "\n[dim]Sending, the host and the web pages are still to come;"
        " so far there is the store.[/]"
    )


async def _look(url: str) -> tuple[StoreInfo, list[str], list[QueueInfo], list[str]]:
    async with await open_store(url) as store:
        return (
            await store.info(),
            await store.tables(),
            await store.queues(),
            await store.containers(),
        )


def _contents(tables: list[str], queues: list[QueueInfo], containers: list[str]) -> Table:
    shown = Table(header_style="dim")
    for heading in ("kind", "name", "messages"):
        shown.add_column(heading, justify="right" if heading == "messages" else "left")
    for name in tables:
        shown.add_row("table", name, "")
    for queue in queues:
        shown.add_row("queue", queue.name, f"{queue.length:,}")
    for name in containers:
        shown.add_row("container", name, "")
    return shown
