"""The use cases on each engine: a new, empty store for each test.

Azurite takes longer than both other engines together, so it is used in `make test-long` only: that
all engines behave alike is tested by `tests/contract`.
"""

import pytest

from postroom.encryption import Keyring
from postroom.storage import Store
from postroom.wiring import Services
from tests.contract.conftest import address, store
from tests.long import IS_LONG
from tests.services.passwords import quick_passwords

__all__ = ["address", "quick_passwords", "store"]

ENGINES = ["sqlite", "postgres", "azure"] if IS_LONG else ["sqlite", "postgres"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def services(store: Store) -> Services:
    return Services(store, Keyring(lambda: [b"a secret key of the tests, long enough"]))
