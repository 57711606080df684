"""An overview of all queues: how much is waiting in them, and which application handles it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from postroom.domain.queues.queue_names import (
    BELLS,
    dead_letter_queue,
    is_internal,
    poison_queue,
    retry_queue,
    root_queue,
    winner,
)
from postroom.services.queues.apps import AppRegistry, AppState
from postroom.services.queues.delivery import QueueService
from postroom.storage import QueueInfo, Store


class QueueOverview(msgspec.Struct, frozen=True):
    """A queue. `app` is the path of the application that it activates, `state` what happens to its
    messages, in words, and `faulted` why it is stopped. `failed_since` is when the oldest of its
    failed messages was moved to the poison queue or became a dead letter."""

    name: str
    length: int
    oldest: datetime | None
    retry: int
    poison: int
    dead_letter: int
    app: str | None
    state: str
    faulted: str | None = None
    failed_since: datetime | None = None


class QueueOverviewService:
    def __init__(self, store: Store, apps: AppRegistry, queues: QueueService) -> None:
        self._store = store
        self._apps = apps
        self._queues = queues

    async def overview(self) -> list[QueueOverview]:
        """Return all queues except hosts' bells, sorted by name."""
        infos = {info.name: info for info in await self._store.queues()}
        faults = await self._queues.faulted()
        states = {state.app.path: state for state in await self._apps.states()}
        names = sorted({root_queue(name) for name in infos} | set(faults))
        return [
            _overview(name, infos, faults.get(name), states)
            for name in names
            if not name.startswith(f"{BELLS}/")
        ]


def _overview(
    name: str,
    infos: Mapping[str, QueueInfo],
    faulted: str | None,
    states: Mapping[str, AppState],
) -> QueueOverview:
    nothing = QueueInfo(name, 0, None)
    own = infos.get(name, nothing)
    poison = infos.get(poison_queue(name), nothing)
    dead_letter = infos.get(dead_letter_queue(name), nothing)
    path = winner(name, states)
    return QueueOverview(
        name=name,
        length=own.length,
        oldest=own.oldest,
        retry=infos.get(retry_queue(name), nothing).length,
        poison=poison.length,
        dead_letter=dead_letter.length,
        app=path,
        state=_state(name, faulted, states[path] if path is not None else None),
        faulted=faulted,
        failed_since=min(filter(None, (poison.oldest, dead_letter.oldest)), default=None),
    )


def _state(name: str, faulted: str | None, app: AppState | None) -> str:
    if is_internal(name):
        return "internal"
    if faulted is not None:
        return "faulted"
    if app is None:
        return "no application"
    return app.of_queue(name)
