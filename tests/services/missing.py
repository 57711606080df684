"""What happens to a test whose service is not installed."""

import os
from typing import NoReturn

import pytest


def require(what: str, how_to_install: str) -> NoReturn:
    """End the test that needs `what`: skipped on somebody's laptop, failed when `CI=true`.

    A laptop need not have everything; a CI run that quietly tests less than it claims is a lie.
    """
    reason = f"{what} is not installed. To install it: {how_to_install}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
