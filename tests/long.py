"""What only `make test-long` does: more rounds of what is random, and the slow engine."""

import os

IS_LONG = os.environ.get("POSTROOM_LONG_TESTS") == "1"


def sized(usual: int, long: int) -> int:
    return long if IS_LONG else usual
