"""Which variables of our own environment hosted programs get.

A handler or a program gets a short list of common variables and those of its application. It never
gets the settings of Postroom, of which some are secrets (`POSTROOM_STORE`, `POSTROOM_SECRET_KEY`),
nor the secrets of other programs that share the environment.
"""

from __future__ import annotations

from collections.abc import Mapping

RESERVED = "POSTROOM_"
"""Names that begin like this are Postroom's: an application cannot set them."""

PASSED_ON = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",  # without it some installations of Python do not start
        "LOGNAME",
        "PATH",
        "TMPDIR",
        "TZ",
        "USER",
    }
)
PASSED_ON_PREFIXES = ("LC_", "PYTHON")


def common_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every hosted program may see."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
