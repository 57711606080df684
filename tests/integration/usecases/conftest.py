"""The use cases on each engine: a new, empty store for each test."""

import pytest

from postroom.encryption import Keyring
from postroom.storage import Store
from postroom.wiring import Services
from tests.contract.conftest import address, engine, store
from tests.services.passwords import quick_passwords

__all__ = ["address", "engine", "quick_passwords", "store"]


@pytest.fixture
def services(store: Store) -> Services:
    return Services(store, Keyring(lambda: [b"a secret key of the tests, long enough"]))
