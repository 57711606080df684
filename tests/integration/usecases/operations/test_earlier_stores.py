"""A store that an earlier version has written, in the engine's own format, works with this one."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import MessageStatus
from postroom.services.operations.store_conversions import bring_up_to_date
from postroom.storage import Store, open_store
from postroom.wiring import Services
from tests.integration.usecases.messages.sending.test_sender_and_its_store import sender
from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.stores.azurite import running_azurite
from tests.services.stores.postgres import PostgresServer
from tests.services.waiting import until

EARLIER = Path(__file__).parents[3] / "fixtures" / "stores" / "earlier"  # see `make.sh` there
RECIPIENTS = {f"person{number:03}@example.org" for number in range(120)} | {"Zoe@example.org"}


@contextmanager
def sqlite_store(folder: Path) -> Iterator[tuple[str, str]]:
    file = folder / "store.db"
    file.write_bytes(gzip.decompress((EARLIER / "sqlite.db.gz").read_bytes()))
    yield f"sqlite:///{file}", ""


@contextmanager
def postgres_store(server: PostgresServer) -> Iterator[tuple[str, str]]:
    url = server.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(gzip.decompress((EARLIER / "postgres.sql.gz").read_bytes()))
    try:
        yield url, ""
    finally:
        server.drop_database(url)


@contextmanager
def azure_store(folder: Path) -> Iterator[tuple[str, str]]:
    content = io.BytesIO((EARLIER / "azurite.tar.gz").read_bytes())
    with tarfile.open(fileobj=content) as packed:
        packed.extractall(folder, filter="data")
    with running_azurite(folder) as emulator:
        yield "azure://", emulator.connection_string()


@pytest.fixture(params=["sqlite", "postgres", "azure"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URL of a store of the earlier version, and its connection string."""
    match request.param:
        case "sqlite":
            made = sqlite_store(tmp_path)
        case "postgres":
            made = postgres_store(request.getfixturevalue("postgres"))
        case _:
            made = azure_store(tmp_path)
    with made as found:
        yield found


async def test_a_store_of_an_earlier_version_continues(
    place: tuple[str, str], tmp_path: Path
) -> None:
    async with await open_store(*place) as store:
        await bring_up_to_date(store)
        await check(store, tmp_path / "data")


async def check(store: Store, data: Path) -> None:
    services = Services(store)
    found = await services.times.all(limit=10)
    messages = {message.subject: message for message in found.messages}
    done, sending = messages["Done"], messages["Sending"]
    assert messages["Scheduled"].status is MessageStatus.PENDING
    assert done.counts == Counts(planned=121, accepted=121)
    assert {str(each.address) async for each in services.outcomes.emails(done)} == RECIPIENTS
    assert (await services.outcomes.counts(sending)).pending == 121
    zoe = await services.subscriptions.get("news", "zoe@EXAMPLE.org")
    assert (zoe.address, zoe.verified) == ("Zoe@example.org", True)
    assert not (await services.subscriptions.get("news", "waits@example.org")).verified
    assert await services.messages.bodies(done) == await services.messages.bodies(sending)

    async def is_sent() -> bool:
        return (await services.outcomes.counts(sending)).pending == 0

    with running_recording_smtp(keep_content=False) as server:
        async with sender(store, server, data):
            await until(is_sent, "the message is sent")
        assert server.copies() == dict.fromkeys(RECIPIENTS, 1)
