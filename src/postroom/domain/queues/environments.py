"""The environment variables that hosted programs get.

A handler or program gets a few common variables and those of its application, never Postroom's
settings, some of which are secret (`POSTROOM_STORE`, `POSTROOM_SECRET_KEY`), nor other secrets in
the environment.
"""

from __future__ import annotations

from collections.abc import Mapping

RESERVED = "POSTROOM_"
"""The prefix of Postroom's own variables, which an application cannot set."""

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
    """Return the variables that every hosted program gets."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
