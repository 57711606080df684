"""The registry of applications, for the hosts of all machines.

| table      | partition | row          | holds                                              |
|------------|-----------|--------------|----------------------------------------------------|
| `hostapps` | `app`     | `app` + path | the application; the path in lower case, once each.|
|            |           |              | Its environment is encrypted                       |
| `hostapps` | `app`     | `control` + path | Paused, Restarts: decisions of operators       |
| `hostapps` | `app`     | `version`    | a random text that is replaced with every change   |
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from postroom.domain.errors import Exists, NoSuch, NotNow, Overtaken
from postroom.domain.queues.app_options import parse_path
from postroom.domain.queues.apps import BUILT_IN, App, AppControl, changed_app
from postroom.domain.queues.queue_names import Match, match, segments
from postroom.encryption import DecryptionError, Keyring, without_key
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.services.queues.hosts import AppStatus, HostReport, HostStatusService
from postroom.services.stored_secrets import SecretRows
from postroom.storage import (
    Conflict,
    Delete,
    Entity,
    Insert,
    KeyRange,
    Operation,
    Replace,
    Store,
    Upsert,
)

log = logging.getLogger(__name__)

TABLE = "hostapps"
PARTITION = "app"

_APP = "app"
_CONTROL = "control"
_VERSION = "version"
_ENVIRONMENT = "Environment"
_BATCH = 99  # changes that go into one batch with the version


class AppClash(Exists):
    """The path is taken; the text names the origin."""

    def __init__(self, app: App) -> None:
        super().__init__("application", app.path)
        self.origin = app.origin

    def __str__(self) -> str:
        return (
            f"the application {self.name!r} already exists with another configuration,"
            f" from: {self.origin}"
        )


class AppState(msgspec.Struct, frozen=True):
    """An application and its status on each live host: (host id, machine, status)."""

    app: App
    hosts: tuple[tuple[str, str, AppStatus], ...] = ()
    control: AppControl = AppControl()

    @property
    def summary(self) -> str:
        """Return its state in words, and what keeps it or one of its queues from running."""
        of_queues = {each for _, _, status in self.hosts for each in status.queues.values()}
        return "; ".join([self._activity, *sorted(of_queues - {self._activity})])

    def of_queue(self, queue: str) -> str:
        """Return the state of one of its queues, in words."""
        reasons = {status.queues.get(queue, "") for _, _, status in self.hosts} - {""}
        return "; ".join(sorted(reasons)) or self._activity

    @property
    def _activity(self) -> str:
        if self.control.is_paused:
            return "paused"
        if not self.hosts:
            return "no host"
        troubles = {status.whole_trouble for _, _, status in self.hosts} - {""}
        if troubles:
            return "; ".join(sorted(troubles))
        processes = sum(len(status.processes) for _, _, status in self.hosts)
        return f"{processes} running" if processes else "stopped"


class AppRegistry:
    def __init__(
        self, store: Store, hosts: HostStatusService, keyring: Keyring | None = None
    ) -> None:
        self._table = store.table(TABLE)
        self._hosts = hosts
        self._secrets = SecretRows(TABLE, keyring or Keyring(without_key))
        self._unreadable: set[tuple[str, ...]] = set()

    async def all(self) -> list[App]:
        """Return all applications, sorted by path."""
        return [app for app, _ in await self._rows()]

    async def version(self) -> str:
        """Return a text that differs after every change."""
        found = await self._table.get(PARTITION, _VERSION)
        return "" if found is None else entities.read(found, "Version", str)

    async def get(self, path: str) -> App:
        """Return the application at a path. `NoSuch`, `DecryptionError`."""
        return self._app_from(await self._found(path))

    async def add(self, app: App) -> None:
        """Register an application, unless the same is registered already. `Exists`."""
        entity = self._entity(app)
        try:
            await self._change([Insert(entity)])
        except Conflict as exc:
            found = await self._table.get(PARTITION, entity.row)
            if found is None:
                raise Overtaken("application", app.path) from exc
            if self._app_from(found).revision != app.revision:
                raise AppClash(self._app_from(found)) from exc

    async def remove(self, path: str) -> None:
        """Remove an application. `NoSuch`; `NotNow` if it is one of Postroom's own."""
        app = _without_environment(await self._found(path))
        if app.origin == BUILT_IN:
            raise NotNow(f"the application {app.path!r} is part of Postroom and cannot be removed")
        changes: list[Operation] = [Delete(PARTITION, _row(app.path))]
        if await self._table.get(PARTITION, _control_row(app.path)) is not None:
            changes.append(Delete(PARTITION, _control_row(app.path)))
        try:
            await self._change(changes)
        except Conflict as exc:
            raise NoSuch("application", path) from exc

    async def update(self, path: str, changes: Mapping[str, object]) -> App:
        """Change options of an application; None resets one to its default. Running hosts replace
        its processes. `NoSuch`, `Invalid`; `NotNow` if a file or Postroom itself defines it."""
        found = await self._found(path)
        app = self._app_from(found)
        if app.origin == BUILT_IN:
            raise NotNow(f"the application {app.path!r} is a part of Postroom: change its settings")
        if not self.is_changeable(app):
            raise NotNow(
                f"the application {app.path!r} is registered in {app.origin}:"
                " change it there and run postroom app reload in that folder"
            )
        changed = changed_app(app, changes)
        try:
            await self._change([Replace(self._entity(changed), found.etag)])
        except Conflict as exc:
            raise Overtaken("application", path) from exc
        return changed

    @staticmethod
    def is_changeable(app: App) -> bool:
        """Return whether its options are kept here, not in a file or in Postroom itself."""
        return app.origin != BUILT_IN and ":" not in app.origin

    # -- decisions of operators -------------------------------------------------------------------

    async def pause(self, path: str) -> None:
        """Pause it on all hosts; messages in progress finish. `NoSuch`."""
        await self._decide(path, lambda control: replace(control, is_paused=True))

    async def resume(self, path: str) -> None:
        """Resume it. `NoSuch`."""
        await self._decide(path, lambda control: replace(control, is_paused=False))

    async def restart(self, path: str) -> None:
        """Replace its processes on all hosts one by one, so that they run its current code.
        `NoSuch`."""
        await self._decide(path, lambda control: replace(control, restarts=control.restarts + 1))

    async def _decide(self, path: str, decide: Callable[[AppControl], AppControl]) -> None:
        row = _control_row(_without_environment(await self._found(path)).path)

        async def change() -> None:
            found = await self._table.get(PARTITION, row)
            control = decide(_control_from(found) if found is not None else AppControl())
            entity = Entity(
                PARTITION, row, {"Paused": control.is_paused, "Restarts": control.restarts}
            )
            await self._change([Insert(entity) if found is None else Replace(entity, found.etag)])

        await retry_on_conflict(change, "application", path)

    async def controls(self) -> dict[tuple[str, ...], AppControl]:
        """Return decisions by path segments; without one, the default applies. Applications that
        `all` could not decrypt are paused."""
        rows = self._table.scan(KeyRange.only(PARTITION), KeyRange.prefix(f"{_CONTROL}/"))
        found = {
            segments(entity.row.removeprefix(f"{_CONTROL}/")): _control_from(entity)
            async for entity in rows
        }
        for path in self._unreadable:
            found[path] = replace(found.get(path, AppControl()), is_paused=True)
        return found

    # -- files and states -------------------------------------------------------------------------

    async def sync(self, origin: str, apps: Sequence[App]) -> None:
        """Register the applications of one origin, and remove those that it no longer has.

        An origin is a name, or a file of a machine, `MACHINE:FILE`. The same file on another
        machine may replace it, as when machines are upgraded one by one; what it leaves out is
        removed once no host lives on the first machine. `Exists` if another origin has a path.
        """

        async def change() -> None:
            changes = await self._changes(origin, apps)
            for start in range(0, len(changes), _BATCH):
                await self._change(changes[start : start + _BATCH])

        await retry_on_conflict(change, "origin of applications", origin)

    async def _changes(self, origin: str, apps: Sequence[App]) -> list[Operation]:
        """Return the changes that register the applications of an origin."""
        known = {segments(app.path): (app, etag) for app, etag in await self._rows()}
        changes: list[Operation] = []
        for app in apps:
            mine = msgspec.structs.replace(app, origin=origin)
            found, etag = known.pop(segments(app.path), (None, ""))
            if found is None:
                changes.append(Insert(self._entity(mine)))
            elif found.origin == origin or _is_same_file(found.origin, origin):
                if found != mine:
                    changes.append(Replace(self._entity(mine), etag))
            elif found.revision != app.revision:
                raise AppClash(found)
        machines = {report.machine for report in await self._hosts.live()}
        changes += [
            Delete(PARTITION, _row(app.path), etag)
            for app, etag in known.values()
            if app.origin == origin
            or (_is_same_file(app.origin, origin) and _machine(app.origin) not in machines)
        ]
        return changes

    async def explain(self, queue: str) -> Match:
        """Return which application a queue activates, and why."""
        return match(queue, [app.path for app in await self.all()])

    async def states(self) -> list[AppState]:
        """Return every application with its state on each host."""
        reports = await self._hosts.current()
        apps = await self.all()
        controls = await self.controls()
        return [
            AppState(app, _on_hosts(app, reports), controls.get(segments(app.path), AppControl()))
            for app in apps
        ]

    async def state(self, path: str) -> AppState:
        """Return an application with its state on each host. `NoSuch`."""
        wanted = segments(parse_path(path))
        for state in await self.states():
            if segments(state.app.path) == wanted:
                return state
        raise NoSuch("application", path)

    async def _found(self, path: str) -> Entity:
        """Return the row of an application. `NoSuch`."""
        found = await self._table.get(PARTITION, _row(parse_path(path)))
        if found is None:
            raise NoSuch("application", path)
        return found

    async def _rows(self) -> list[tuple[App, str]]:
        """Return every application with its ETag. One whose environment cannot be decrypted is
        without it and paused: otherwise all its messages would fail."""
        rows = self._table.scan(KeyRange.only(PARTITION), KeyRange.prefix(f"{_APP}/"))
        found: list[tuple[App, str]] = []
        unreadable: set[tuple[str, ...]] = set()
        async for entity in rows:
            try:
                app = self._app_from(entity)
            except DecryptionError as exc:
                app = _without_environment(entity)
                unreadable.add(segments(app.path))
                if segments(app.path) not in self._unreadable:
                    log.error("the application %s is paused: %s", app.path, exc)
            found.append((app, entity.etag))
        self._unreadable = unreadable
        return found

    def _entity(self, app: App) -> Entity:
        """Return the row. The environment often has secrets, so it is encrypted."""
        row = _row(app.path)
        content = msgspec.json.encode(replace(app, environment={})).decode()
        encrypted = ""
        if app.environment:
            text = msgspec.json.encode(app.environment).decode()
            encrypted = self._secrets.encrypted(PARTITION, row, _ENVIRONMENT, text)
        return Entity(PARTITION, row, {"Path": app.path, "App": content, _ENVIRONMENT: encrypted})

    def _app_from(self, entity: Entity) -> App:
        """Return the application of a row. `DecryptionError`."""
        app = _without_environment(entity)
        text = self._secrets.read(entity, _ENVIRONMENT)
        if not text:
            return app
        return replace(app, environment=msgspec.json.decode(text, type=dict[str, str]))

    async def _change(self, operations: Sequence[Operation]) -> None:
        """Change rows and the version in one step. Hosts that miss the bell poll the version."""
        version = Entity(PARTITION, _VERSION, {"Version": secrets.token_hex(8)})
        await self._table.apply([*operations, Upsert(version)])
        await self._hosts.ring_bells("applications")


def _on_hosts(app: App, reports: Sequence[HostReport]) -> tuple[tuple[str, str, AppStatus], ...]:
    return tuple(
        (report.id, report.machine, status)
        for report in reports
        for status in report.apps
        if status.path == app.path
    )


def _without_environment(entity: Entity) -> App:
    return msgspec.json.decode(entities.read(entity, "App", str), type=App)


def _row(path: str) -> str:
    return f"{_APP}/{'/'.join(segments(path))}"


def _control_row(path: str) -> str:
    return f"{_CONTROL}/{'/'.join(segments(path))}"


def _control_from(entity: Entity) -> AppControl:
    return AppControl(entities.read(entity, "Paused", bool), entities.read(entity, "Restarts", int))


def _is_same_file(one: str, other: str) -> bool:
    """Return whether two origins are the same file, perhaps on two machines."""
    file = one.partition(":")[2]
    return bool(file) and file == other.partition(":")[2]


def _machine(origin: str) -> str:
    return origin.partition(":")[0]
