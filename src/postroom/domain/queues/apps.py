"""Applications that the host runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.queues.app_options import FIELDS, OnPoison
from postroom.domain.units import show_duration

BUILT_IN = "built in"
COMMAND_LINE = "command line"
API = "api"


class App(msgspec.Struct, frozen=True):
    """An application at a path. Exactly one of `handler`, `command` and `serve` is set.

    `app_options` explains the options; None means no limit. `serve` is a callable that receives
    messages itself, which only Postroom's own applications have. `folder` is importable, and the
    working folder of programs. An empty `user` is the host's own. `origin` says who registered it.
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
        """Return a hash of the configuration, without its origin."""
        content = msgspec.json.encode(msgspec.structs.replace(self, origin=""))
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def principal(self) -> str:
        """Return the name by which access rules refer to it."""
        return f"app:{self.path}"

    @property
    def runs(self) -> str:
        """Return what it runs, in one line."""
        return self.handler or self.serve or " ".join(self.command)


class AppControl(msgspec.Struct, frozen=True):
    """What operators have decided about an application, apart from its configuration.

    While it is paused, its messages wait. `restarts` counts the requests for new processes.
    """

    is_paused: bool = False
    restarts: int = 0


def parse_app(values: Mapping[str, object], *, folder: str = "", origin: str = "") -> App:
    """Return an application from the options in a file, a command or a request.

    `Invalid` names the first option that is wrong. Durations are text such as `20m` or `timedelta`.
    """
    unknown = next((name for name in values if name not in FIELDS), None)
    if unknown is not None:
        raise Invalid(unknown, f"is not an option; the options are {', '.join(FIELDS)}")
    if "path" not in values:
        raise Invalid("path", "is missing: give one, such as /shop/orders")
    parsed = {name: FIELDS[name].read(name, value) for name, value in values.items()}
    if bool(parsed.get("handler")) == bool(parsed.get("command")):
        count = "not both" if parsed.get("handler") else "one is required"
        raise Invalid("handler", f"give handler or command: {count}")
    app = App(**parsed, folder=folder, origin=origin)
    if app.max_processes < app.min_processes:
        raise Invalid(
            "max_processes",
            f"must be at least min_processes ({app.min_processes}), not {app.max_processes}",
        )
    return app


def changed_app(app: App, changes: Mapping[str, object]) -> App:
    """Return the application with changed options; None resets one to its default. `Invalid`.

    The path cannot change. A `handler` replaces a `command`, and the other way round.
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
    """Return the configuration of an application as JSON shows it.

    `handler`, `command` and `serve` appear only if they are set. The environment is shown by its
    names alone: a value may be a secret.
    """
    shown = {name: _shown(getattr(app, name)) for name in FIELDS}
    for name in ("handler", "command"):
        if not shown[name]:
            del shown[name]
    return {**shown, **({"serve": app.serve} if app.serve else {})}


def _shown(value: Any) -> Any:
    match value:
        case timedelta():
            return show_duration(value)
        case StrEnum():
            return value.value
        case tuple():
            return list(value)
        case dict():
            return sorted(value)
        case "":
            return None
    return value
