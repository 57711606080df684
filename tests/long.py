"""What only `make test-long` does: more rounds of what is random, and the slow engine."""

import os
from typing import TypeVar

T = TypeVar("T")

IS_LONG = os.environ.get("POSTROOM_LONG_TESTS") == "1"


def sized(usual: T, long: T) -> T:
    return long if IS_LONG else usual
