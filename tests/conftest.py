"""Fixtures for every test: the services, started when the first test asks for them."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.services.azurite import Azurite, running_azurite
from tests.services.postgres import PostgresServer, running_postgres
from tests.services.smtp_sink import SmtpSink, running_smtp_sink

# No test may fail because the machine is busy.
settings.register_profile("postroom", deadline=None)
settings.load_profile("postroom")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Async tests run on asyncio's own loop: uvloop is an option of the product, not a need."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole run; take a database of your own from it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """An Azure Storage emulator for the whole run; take an account of your own from it."""
    with running_azurite() as emulator:
        yield emulator


@pytest.fixture(scope="session")
def smtp_sink() -> Iterator[SmtpSink]:
    """A mail server for the whole run that accepts and forgets everything."""
    with running_smtp_sink() as sink:
        yield sink
