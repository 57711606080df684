"""The options of hosted applications, each defined once.

`postroom.toml`, the command line, the API, the form of the team pages and the JSON that shows an
application are derived from `FIELDS`; a test compares the table in docs/host.md with it. To add an
option, add it here and to `App`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from enum import Enum, StrEnum, auto
from typing import Any

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.plain_text import one_line
from postroom.domain.queues.queue_names import DEAD_LETTER, LONGEST, RETRY, is_internal, segments
from postroom.domain.units import parse_duration, parse_size, show_duration

LONGEST_DELAY = timedelta(days=7)
"""The longest delay of a queue message, and so of a retry cycle."""

_HANDLER = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_ENVIRONMENT = 32_000  # it travels in one packet, and is kept in one row
_SECOND, _YEAR = timedelta(seconds=1), timedelta(days=366)

RESERVED = "POSTROOM_"
"""The prefix of Postroom's own variables, which an application cannot set."""


LEAST_MEMORY = 64_000_000
"""What Python and a handler with a few imports need."""

LEAST_OPEN_FILES = 32
"""What Python and the connection to the host need, with a few to spare."""


class OnPoison(StrEnum):
    """What happens to a message after its last failed attempt."""

    MOVE = "move"
    REJECT = "reject"
    DROP = "drop"
    FAULT = "fault"


class OptionKind(Enum):
    """How a value is written. Durations are `20m`, sizes are `200MB`."""

    TEXT = auto()
    COMMAND = auto()
    NUMBER = auto()
    DURATION = auto()
    SIZE = auto()
    CHOICE = auto()
    VARIABLES = auto()


class AppOption(msgspec.Struct, frozen=True):
    """One option of an application. `read` returns the value as `App` keeps it, or `Invalid`.

    `can_be_none`: without a value there is no limit. An option with `decides_what_runs` is changed
    on the command line and in files only: a stolen login or key must not be able to run programs.
    """

    kind: OptionKind
    read: Callable[[str, object], Any]
    label: str
    help: str
    can_be_none: bool = False
    decides_what_runs: bool = False
    range: tuple[int, int] = (0, 0)


def parse_path(path: object) -> str:
    """Return a path as it is kept: with a leading slash, and none at the end. `Invalid`."""
    if not isinstance(path, str):
        raise Invalid("path", "must be text")
    text = one_line("path", path, longest=LONGEST)
    if not text.startswith("/"):
        raise Invalid("path", f"must begin with a slash: /{text}")
    clean = "/" + "/".join(part for part in text.split("/") if part)
    if clean.casefold().endswith((RETRY, DEAD_LETTER)):
        raise Invalid("path", f"{clean} is the host's own; only ;poison can have an application")
    if is_internal("/".join(segments(clean))):
        raise Invalid("path", f"{clean} is reserved for Postroom itself: choose another path")
    return clean


def _path(field: str, value: object) -> str:
    return parse_path(value)


def _handler(field: str, value: object) -> str:
    if not isinstance(value, str) or not _HANDLER.fullmatch(value):
        raise Invalid(field, f"must be module:callable, as in orders:process, not {value!r}")
    return value


def _command(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Invalid(field, 'must be a list of strings, such as ["./process-order", "--quiet"]')
    if not all(isinstance(part, str) and "\0" not in part for part in value) or not value[0]:
        raise Invalid(field, "must be a list of strings, the first of which names a program")
    return tuple(value)


def _number(least: int, most: int, label: str, help: str, *, none: bool = False) -> AppOption:
    def read(field: str, value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Invalid(field, f"must be a whole number from {least} to {most:,}, not {value!r}")
        return value

    return AppOption(OptionKind.NUMBER, read, label, help, none, range=(least, most))


def _duration(
    least: timedelta, most: timedelta, label: str, help: str, *, none: bool = False
) -> AppOption:
    def read(field: str, value: object) -> timedelta:
        try:
            length = value if isinstance(value, timedelta) else parse_duration(str(value))
        except ValueError as exc:
            raise Invalid(field, f"{exc}, not {value!r}") from exc
        if not least <= length <= most:
            limits = f"from {show_duration(least)} to {show_duration(most)}"
            raise Invalid(field, f"must be {limits}, not {show_duration(length)}")
        return length

    return AppOption(OptionKind.DURATION, read, label, help, none)


def _on_poison(field: str, value: object) -> OnPoison:
    try:
        return OnPoison(str(value))
    except ValueError as exc:
        raise Invalid(field, f"must be one of {', '.join(OnPoison)}, not {value!r}") from exc


def _size(least: int, label: str, help: str) -> AppOption:
    """Bytes, as a number or written `200MB`."""

    def read(field: str, value: object) -> int:
        size = value
        with suppress(ValueError):
            size = parse_size(str(value))
        if type(size) is not int or not least <= size <= 10**15:
            limit = f"{least // 1_000_000}MB"
            raise Invalid(
                field, f"must be a size of at least {limit}, written like 200MB, not {value!r}"
            )
        return size

    return AppOption(OptionKind.SIZE, read, label, help, can_be_none=True)


def _user(field: str, value: object) -> str:
    if not isinstance(value, str) or not _USER.fullmatch(value):
        raise Invalid(field, f"must be the name of a user of this machine, not {value!r}")
    return value


def _environment(field: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Invalid(field, f"must be a table of names and texts, not {value!r}")
    for name, text in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise Invalid(field, f"{name!r} cannot be the name of a variable")
        if name.startswith(RESERVED):
            raise Invalid(field, f"{name} is reserved: names must not begin with {RESERVED}")
        if not isinstance(text, str) or "\0" in text:
            raise Invalid(field, f"the value of {name} must be text")
    if sum(len(name) + len(text) for name, text in value.items()) > _LONGEST_ENVIRONMENT:
        raise Invalid(field, f"must be shorter than {_LONGEST_ENVIRONMENT:,} characters in total")
    return dict(value)


_TEXT = OptionKind.TEXT
_TEN_MILLISECONDS = timedelta(milliseconds=10)

FIELDS: Mapping[str, AppOption] = {
    "path": AppOption(_TEXT, _path, "Path", "Queues whose names begin with it activate it."),
    "handler": AppOption(
        _TEXT, _handler, "Handler", "A Python function, as module:callable.", decides_what_runs=True
    ),
    "command": AppOption(
        OptionKind.COMMAND,
        _command,
        "Command",
        "A program: the message on its standard input, exit status 0 accepts it.",
        decides_what_runs=True,
    ),
    "min_processes": _number(0, 1000, "Minimum processes", "Processes kept running."),
    "max_processes": _number(1, 1000, "Maximum processes", "The maximum on each host."),
    "concurrency": _number(1, 1000, "Concurrency", "Messages that one process handles at a time."),
    "idle_timeout": _duration(
        _TEN_MILLISECONDS, _YEAR, "Idle timeout", "A process without work stops after this time."
    ),
    "handler_timeout": _duration(
        _TEN_MILLISECONDS, _YEAR, "Handler timeout", "Maximum time for one message.", none=True
    ),
    "receive_retry_count": _number(
        0, 1000, "Retries per cycle", "Retries after the first attempt."
    ),
    "max_retry_cycles": _number(0, 1000, "Retry cycles", "Cycles after the first one."),
    "retry_cycle_delay": _duration(
        timedelta(0), LONGEST_DELAY, "Delay between cycles", "The delay between retry cycles."
    ),
    "on_poison": AppOption(
        OptionKind.CHOICE,
        _on_poison,
        "On poison",
        f"After the last failed attempt: {', '.join(OnPoison)}.",
    ),
    "drain_timeout": _duration(
        timedelta(0),
        timedelta(days=1),
        "Drain timeout",
        "Time to finish when a process is stopped.",
    ),
    "recycle_after": _duration(
        _SECOND, _YEAR, "Process lifetime", "Replace a process after this time.", none=True
    ),
    "recycle_messages": _number(
        1, 10**9, "Messages per process", "Replace a process after this many messages.", none=True
    ),
    "recycle_memory": _size(
        1_000_000, "Memory per process", "Replace a process that uses more, such as 200MB."
    ),
    "memory_limit": _size(
        LEAST_MEMORY, "Memory limit", "A process cannot allocate more, such as 256MB."
    ),
    "cpu_limit": _duration(_SECOND, _YEAR, "CPU limit", "CPU time for one message.", none=True),
    "open_files": _number(
        LEAST_OPEN_FILES, 1_000_000, "Open files", "Descriptors per process.", none=True
    ),
    "user": AppOption(
        _TEXT,
        _user,
        "User",
        "Run its processes as this user; the host must run as root.",
        can_be_none=True,
        decides_what_runs=True,
    ),
    "environment": AppOption(
        OptionKind.VARIABLES,
        _environment,
        "Environment",
        "Variables of its processes.",
        decides_what_runs=True,
    ),
}
"""Everything that a file, the command line or a request can set, in the order it is shown."""

CHANGEABLE: Mapping[str, AppOption] = {
    name: option
    for name, option in FIELDS.items()
    if name != "path" and not option.decides_what_runs
}
"""The options that the API and the team pages can change."""


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
    """Return the environment variables that every hosted program gets, in addition to those of its
    application: never Postroom's settings, nor any other secret in the environment."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
