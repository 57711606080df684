"""Real processes on each engine, and a real mail server that records."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from postroom.encryption import Keyring
from postroom.wiring import Services
from tests.acceptance.harness import Postroom
from tests.acceptance.hosting import SECRET_KEY, Hosting
from tests.contract.conftest import StoreAddress, address, open_at
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp

__all__ = ["address"]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp(keep_content=False) as running:
        yield running


@pytest.fixture
async def services(address: StoreAddress) -> AsyncIterator[Services]:
    async with await open_at(address) as store:
        yield Services(store, Keyring(lambda: [SECRET_KEY.encode()]))


@pytest.fixture
def hosting(address: StoreAddress, services: Services, tmp_path: Path) -> Iterator[Hosting]:
    running = Hosting(address, tmp_path, services)
    yield running
    running.kill_all()


@pytest.fixture
def postroom(address: StoreAddress, server: RecordingSmtp, tmp_path: Path) -> Iterator[Postroom]:
    running = Postroom(address, server.url, tmp_path)
    yield running
    running.kill_all()
