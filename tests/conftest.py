"""Fixtures for every test: the services, started when the first test asks for them."""

from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import settings

from postroom.tuning import collect_less
from tests.services.mail.smtp_sink import SmtpSink, running_smtp_sink
from tests.services.stores.azurite import Azurite, running_azurite
from tests.services.stores.postgres import PostgresServer, running_postgres
from tests.services.waiting import BUSY

# No test may fail because the machine is busy.
settings.register_profile("postroom", deadline=None)
settings.load_profile("postroom")

WITH_PROCESSES = {"acceptance", "browser", "deploy", "services"}
"""Folders of tests that start programs and wait for what they do."""

RAN_OUT = ["Timeout", "Locator expected"]
"""What the errors of waits that ran out have in common; `expect` of Playwright says the latter."""

SECOND_TRIES = 5
"""So many in one run may be chance. With more, something has become slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests so that several processes, which take them from the front, end together.

    Tests of `tests/acceptance` mostly wait and the others mostly compute. They are mixed, so that
    there is always something to compute, each kind with its longest tests first.
    """
    usual = float(items[0].config.getini("timeout")) if items else 0
    longest_first = sorted(items, key=lambda item: max(limit_of(item), usual), reverse=True)
    waiting = [item for item in longest_first if "acceptance" in item.path.parts]
    computing = [item for item in longest_first if "acceptance" not in item.path.parts]
    placed = chain(
        ((place / len(computing), item) for place, item in enumerate(computing)),
        # Not up to the end: what is left there should be quick.
        ((0.8 * place / len(waiting), item) for place, item in enumerate(waiting)),
    )
    items[:] = [item for _, item in sorted(placed, key=lambda pair: pair[0])]
    for item in items:
        if WITH_PROCESSES & set(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=RAN_OUT))
        item.add_marker(pytest.mark.timeout(BUSY * max(limit_of(item), usual)), append=False)


def pytest_collection_finish() -> None:
    """Search for garbage less often: thousands of tests and all modules stay. Saves a tenth of the
    processor time."""
    collect_less()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which too many waits ran out, although all was well at the second try."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # one of several processes; the first one counts for all
        return
    second_tries = len(reporter.stats.get("rerun", ()))
    if second_tries > SECOND_TRIES and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\n{second_tries} second tries were needed, more than {SECOND_TRIES}.")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def limit_of(item: pytest.Item) -> float:
    """Return the seconds that a test asks for itself; 0 if it does not."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0


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
