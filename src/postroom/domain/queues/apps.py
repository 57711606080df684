"""Applications that the host runs: what is said about one, and what can be said at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from postroom.domain.durations import parse_duration, show_duration
from postroom.domain.errors import Invalid
from postroom.domain.plain_text import one_line
from postroom.domain.queues.environments import RESERVED
from postroom.domain.queues.queue_names import DEAD_LETTER, LONGEST, RETRY, is_internal, segments
from postroom.domain.sizes import parse_size

BUILT_IN = "built in"
COMMAND_LINE = "command line"
API = "api"

LONGEST_DELAY = timedelta(days=7)
"""The longest delay of a queue message, so of a retry cycle too."""

_HANDLER = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_ENVIRONMENT = 32_000  # it travels in one packet, and is kept in one row

LEAST_MEMORY = 64_000_000
"""What Python and a handler with a few imports need."""

LEAST_OPEN_FILES = 32
"""What Python and the connection to the host need, with a few to spare."""


class OnPoison(StrEnum):
    """What becomes of a message whose attempts are used up."""

    MOVE = "move"
    REJECT = "reject"
    DROP = "drop"
    FAULT = "fault"


class App(msgspec.Struct, frozen=True):
    """An application at a path. Exactly one of `handler`, `command` and `serve` is given.

    `handler` is a Python callable, `command` a program for each message; `serve` is a callable that
    receives by itself, which only Postroom's own applications may be. `folder` is importable, and
    the working folder of programs. `handler_timeout` and `recycle_…`: None is never. Limits hold
    for one process, `memory_limit` in bytes, `cpu_limit` for one message; None is no limit. `user`
    is the host's own if it is empty. `origin` says who registered it.
    """

    path: str
    handler: str = ""
    command: tuple[str, ...] = ()
    serve: str = ""
    folder: str = ""
    min_processes: int = 0
    max_processes: int = 4
    concurrency: int = 1
    idle_timeout: timedelta = timedelta(minutes=20)
    handler_timeout: timedelta | None = None
    receive_retry_count: int = 5
    max_retry_cycles: int = 2
    retry_cycle_delay: timedelta = timedelta(minutes=30)
    on_poison: OnPoison = OnPoison.MOVE
    drain_timeout: timedelta = timedelta(seconds=30)
    recycle_after: timedelta | None = None
    recycle_messages: int | None = None
    recycle_memory: int | None = None
    memory_limit: int | None = None
    cpu_limit: timedelta | None = None
    open_files: int | None = None
    user: str = ""
    environment: dict[str, str] = {}
    origin: str = ""

    @property
    def revision(self) -> str:
        """The same for the same configuration, whoever registered it."""
        content = msgspec.json.encode(msgspec.structs.replace(self, origin=""))
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def principal(self) -> str:
        """By which rules of access name it."""
        return f"app:{self.path}"

    @property
    def runs(self) -> str:
        """What it runs, in one line."""
        return self.handler or self.serve or " ".join(self.command)


class AppControl(msgspec.Struct, frozen=True):
    """What operators have decided about an application, apart from its configuration.

    While it is paused, its messages wait. `restarts` is how often new processes were asked for.
    """

    is_paused: bool = False
    restarts: int = 0


def attempts_allowed(app: App) -> int:
    """How often a message is tried before it counts as poison: (R + 1) · (C + 1)."""
    return (app.receive_retry_count + 1) * (app.max_retry_cycles + 1)


def parse_path(path: object) -> str:
    """A path as it is kept: a leading slash, none at the end. `Invalid`."""
    if not isinstance(path, str):
        raise Invalid("path", "must be text")
    text = one_line("path", path, longest=LONGEST)
    if not text.startswith("/"):
        raise Invalid("path", f"begins with a slash, as in /{text}")
    clean = "/" + "/".join(part for part in text.split("/") if part)
    if clean.casefold().endswith((RETRY, DEAD_LETTER)):
        raise Invalid("path", f"{clean} is kept by the host; only ;poison can have an application")
    if is_internal("/".join(segments(clean))):
        raise Invalid("path", f"{clean} is for Postroom's own bells: choose another one")
    return clean


def parse_app(values: Mapping[str, object], *, folder: str = "", origin: str = "") -> App:
    """An application from what a file, a command or a request says about it.

    `Invalid` names the first field that cannot be accepted. Durations are text such as `20m` or
    `timedelta`s.
    """
    unknown = next((name for name in values if name not in FIELDS), None)
    if unknown is not None:
        raise Invalid(unknown, f"there is no such option (there are: {', '.join(FIELDS)})")
    if "path" not in values:
        raise Invalid("path", "is missing: say at which path, as in /shop/orders")
    parsed = {name: FIELDS[name](name, value) for name, value in values.items()}
    if bool(parsed.get("handler")) == bool(parsed.get("command")):
        given = "only one of them" if parsed.get("handler") else "one of them"
        raise Invalid("handler", f"say handler or command: {given} is needed")
    app = App(**parsed, folder=folder, origin=origin)
    if app.max_processes < app.min_processes:
        raise Invalid(
            "max_processes",
            f"{app.max_processes} is less than min_processes, which is {app.min_processes}",
        )
    return app


def changed_app(app: App, changes: Mapping[str, object]) -> App:
    """Return the application with other options; None sets one back to its default. `Invalid`.

    Its path stays. A `handler` takes the place of a `command`, and the other way round.
    """
    if "path" in changes:
        raise Invalid("path", "cannot be changed: register another application instead")
    values = {name: getattr(app, name) for name in FIELDS}
    if changes.get("handler") is not None:
        values["command"] = None
    elif changes.get("command") is not None:
        values["handler"] = None
    values |= changes
    given = {name: value for name, value in values.items() if value not in (None, "", (), {})}
    return parse_app(given, folder=app.folder, origin=app.origin)


def app_values(app: App) -> dict[str, Any]:
    """Return the configuration of an application, in words: for people, and for JSON.

    Of its environment only the names: a value may be a secret.
    """
    return {
        "path": app.path,
        **({"handler": app.handler} if app.handler else {}),
        **({"command": list(app.command)} if app.command else {}),
        **({"serve": app.serve} if app.serve else {}),
        "min_processes": app.min_processes,
        "max_processes": app.max_processes,
        "concurrency": app.concurrency,
        "idle_timeout": show_duration(app.idle_timeout),
        "handler_timeout": _shown(app.handler_timeout),
        "receive_retry_count": app.receive_retry_count,
        "max_retry_cycles": app.max_retry_cycles,
        "retry_cycle_delay": show_duration(app.retry_cycle_delay),
        "on_poison": app.on_poison.value,
        "drain_timeout": show_duration(app.drain_timeout),
        "recycle_after": _shown(app.recycle_after),
        "recycle_messages": app.recycle_messages,
        "recycle_memory": app.recycle_memory,
        "memory_limit": app.memory_limit,
        "cpu_limit": _shown(app.cpu_limit),
        "open_files": app.open_files,
        "user": app.user or None,
        "environment": sorted(app.environment),
    }


def _shown(length: timedelta | None) -> str | None:
    return None if length is None else show_duration(length)


# -- one reader for each field --------------------------------------------------------------------


def _path(field: str, value: object) -> str:
    return parse_path(value)


def _handler(field: str, value: object) -> str:
    if not isinstance(value, str) or not _HANDLER.fullmatch(value):
        raise Invalid(field, f"{value!r} is not written module:callable, as in orders:process")
    return value


def _command(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Invalid(field, 'is a list of texts, as in ["./process-order", "--quiet"]')
    if not all(isinstance(part, str) and "\0" not in part for part in value) or not value[0]:
        raise Invalid(field, "is a list of texts, of which the first names a program")
    return tuple(value)


def _number(least: int, most: int) -> Callable[[str, object], int]:
    def read(field: str, value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Invalid(field, f"is a whole number from {least} to {most:,}, not {value!r}")
        return value

    return read


def _duration(least: timedelta, most: timedelta) -> Callable[[str, object], timedelta]:
    def read(field: str, value: object) -> timedelta:
        try:
            length = value if isinstance(value, timedelta) else parse_duration(str(value))
        except ValueError as exc:
            raise Invalid(field, f"{exc}, not {value!r}") from exc
        if not least <= length <= most:
            limits = f"from {show_duration(least)} to {show_duration(most)}"
            raise Invalid(field, f"{show_duration(length)} is not {limits}")
        return length

    return read


def _on_poison(field: str, value: object) -> OnPoison:
    try:
        return OnPoison(str(value))
    except ValueError as exc:
        raise Invalid(field, f"{value!r} is not one of {', '.join(OnPoison)}") from exc


def _size(least: int) -> Callable[[str, object], int]:
    """Bytes, as a number or written `200MB`."""

    def read(field: str, value: object) -> int:
        size = value
        with suppress(ValueError):
            size = parse_size(str(value))
        if type(size) is not int or not least <= size <= 10**15:
            limit = f"{least // 1_000_000}MB"
            raise Invalid(field, f"{value!r} is not a size of at least {limit}, written like 200MB")
        return size

    return read


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
        raise Invalid(field, f"must be shorter than {_LONGEST_ENVIRONMENT:,} characters in all")
    return dict(value)


_SECOND, _YEAR = timedelta(seconds=1), timedelta(days=366)

FIELDS: Mapping[str, Callable[[str, object], Any]] = {
    "path": _path,
    "handler": _handler,
    "command": _command,
    "min_processes": _number(0, 1000),
    "max_processes": _number(1, 1000),
    "concurrency": _number(1, 1000),
    "idle_timeout": _duration(timedelta(milliseconds=10), _YEAR),
    "handler_timeout": _duration(timedelta(milliseconds=10), _YEAR),
    "receive_retry_count": _number(0, 1000),
    "max_retry_cycles": _number(0, 1000),
    "retry_cycle_delay": _duration(timedelta(0), LONGEST_DELAY),
    "on_poison": _on_poison,
    "drain_timeout": _duration(timedelta(0), timedelta(days=1)),
    "recycle_after": _duration(_SECOND, _YEAR),
    "recycle_messages": _number(1, 10**9),
    "recycle_memory": _size(1_000_000),
    "memory_limit": _size(LEAST_MEMORY),
    "cpu_limit": _duration(_SECOND, _YEAR),
    "open_files": _number(LEAST_OPEN_FILES, 1_000_000),
    "user": _user,
    "environment": _environment,
}
"""Everything that can be said about an application in a file, on the command line or by request."""
