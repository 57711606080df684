"""How long the long tests are: in `make test` long enough, in `make test-long` as long as it takes
to find what happens once in a thousand times."""

import os

IS_LONG = os.environ.get("POSTROOM_LONG_TESTS") == "1"


def sized(usual: int, long: int) -> int:
    return long if IS_LONG else usual
