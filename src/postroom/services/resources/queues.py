"""Queues and hosted applications as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from postroom.domain.queues.app_options import FIELDS, AppOption, OnPoison, OptionKind
from postroom.domain.queues.apps import app_values
from postroom.domain.queues.queue_names import Match
from postroom.services.queues.apps import AppState
from postroom.services.queues.attempts import HistoryEntry, stable_id
from postroom.services.queues.queue_access import AccessRule
from postroom.services.queues.queue_overview import QueueOverview
from postroom.services.resources import Resource, Time, describe_time
from postroom.storage import QueueMessage, StoredMessage


class ProcessResource(Resource, frozen=True):
    """A process of an application."""

    pid: int
    state: str
    started_at: Time
    in_progress: Annotated[int, Meta(description="Messages in progress.")]
    handled: int
    memory: Annotated[int, Meta(description="Bytes.")]


class HostResource(Resource, frozen=True):
    """An application on one host."""

    host: str
    machine: str
    state: str
    reason: Annotated[str | None, Meta(description="Why it does not run.")]
    starts: int
    crashes: int
    processes: list[ProcessResource]


_TYPES: dict[OptionKind, Any] = {
    OptionKind.TEXT: str,
    OptionKind.COMMAND: list[str],
    OptionKind.NUMBER: int,
    OptionKind.DURATION: str,
    OptionKind.SIZE: int,
    OptionKind.CHOICE: OnPoison,
    OptionKind.VARIABLES: list[str],
}


def _field(name: str, option: AppOption) -> tuple[Any, ...]:
    kind = _TYPES[option.kind] | None if option.can_be_none else _TYPES[option.kind]
    described: Any = Annotated[kind, Meta(description=option.help)]
    if name in ("handler", "command"):
        return (name, described | msgspec.UnsetType, msgspec.UNSET)
    return (name, described)


AppResource = msgspec.defstruct(
    "AppResource",
    [
        *(_field(name, option) for name, option in FIELDS.items()),
        ("serve", str | msgspec.UnsetType, msgspec.UNSET),
        ("origin", str),
        ("state", str),
        ("is_paused", bool),
        ("hosts", list[HostResource]),
    ],
    bases=(Resource,),
    namespace={
        "__doc__": "A hosted application, with one of `handler`, `command` and `serve`. Of its"
        " environment only the names are shown."
    },
    module=__name__,
    frozen=True,
    kw_only=True,
)


def describe_app(state: AppState) -> msgspec.Struct:
    """Return an application, its options, and its processes on every live host."""
    return AppResource(
        **app_values(state.app),
        origin=state.app.origin,
        state=state.summary,
        is_paused=state.control.is_paused,
        hosts=[
            HostResource(
                host=host,
                machine=machine,
                state=status.state,
                reason=status.reason or None,
                starts=status.starts,
                crashes=status.crashes,
                processes=[
                    ProcessResource(
                        pid=each.pid,
                        state=each.state,
                        started_at=describe_time(each.started_at),
                        in_progress=each.in_progress,
                        handled=each.handled,
                        memory=each.memory,
                    )
                    for each in status.processes
                ],
            )
            for host, machine, status in state.hosts
        ],
    )


class CandidateResource(Resource, frozen=True):
    """A path that a queue may activate."""

    path: str
    fits: bool
    reason: str


class MatchResource(Resource, frozen=True):
    """Which application a queue activates, and why."""

    queue: str
    app: str | None
    reason: str
    candidates: list[CandidateResource]


def describe_match(found: Match) -> MatchResource:
    return MatchResource(
        queue=found.queue,
        app=found.winner,
        reason=found.reason,
        candidates=[
            CandidateResource(each.path, each.fits, each.reason) for each in found.candidates
        ],
    )


class QueueResource(Resource, frozen=True):
    """A queue with its subqueues. `length` counts ready, delayed and leased messages."""

    name: str
    length: int
    oldest: Annotated[Time | None, Meta(description="When the next message was put.")]
    retry: int
    poison: int
    dead_letter: int
    app: Annotated[str | None, Meta(description="The application that takes its messages.")]
    state: str
    faulted: Annotated[str | None, Meta(description="Why the queue is stopped.")]


def describe_queue(queue: QueueOverview) -> QueueResource:
    return QueueResource(
        name=queue.name,
        length=queue.length,
        oldest=describe_time(queue.oldest),
        retry=queue.retry,
        poison=queue.poison,
        dead_letter=queue.dead_letter,
        app=queue.app,
        state=queue.state,
        faulted=queue.faulted,
    )


class QueueMessageResource(Resource, frozen=True):
    """A message in a queue."""

    id: Annotated[str, Meta(description="What redrive and delete take.")]
    history_id: Annotated[str, Meta(description="The same in every queue.")]
    body: str
    properties: dict[str, str]
    dequeue_count: int
    enqueued_at: Time


class StoredMessageResource(QueueMessageResource, frozen=True):
    """A message in a queue, and when it can be received."""

    ready_at: Annotated[Time, Meta(description="When its delay or lease ends, or ended.")]
    is_ready: Annotated[bool, Meta(description="Whether it can be received now.")]


def describe_queue_message(message: QueueMessage) -> QueueMessageResource:
    return QueueMessageResource(
        id=message.id,
        history_id=stable_id(message),
        body=message.body,
        properties=dict(message.properties),
        dequeue_count=message.dequeue_count,
        enqueued_at=describe_time(message.enqueued_at),
    )


def describe_stored_message(stored: StoredMessage, now: datetime) -> StoredMessageResource:
    return StoredMessageResource(
        **msgspec.structs.asdict(describe_queue_message(stored.message)),
        ready_at=describe_time(stored.ready_at),
        is_ready=stored.ready_at <= now,
    )


class PutResource(Resource, frozen=True):
    """A message that was put into a queue."""

    id: str


class RedriveResource(Resource, frozen=True):
    """How many messages were moved back, and whether more follow."""

    redriven: int
    is_over: bool


class AttemptResource(Resource, frozen=True):
    """One entry of the history of a queue message."""

    time: Time
    queue: str
    round: int
    cycle: int
    attempt: int
    event: str | None
    error: str | None
    traceback: str | None
    exit_status: int | None
    process: str | None


def describe_attempt(entry: HistoryEntry) -> AttemptResource:
    return AttemptResource(
        time=describe_time(entry.time),
        queue=entry.queue,
        round=entry.round,
        cycle=entry.cycle,
        attempt=entry.attempt,
        event=entry.event or None,
        error=entry.error or None,
        traceback=entry.traceback or None,
        exit_status=entry.exit_status,
        process=entry.process or None,
    )


class AccessRuleResource(Resource, frozen=True):
    """Who may do what with which queues."""

    principal: str
    right: str
    queues: str
    effect: str


def describe_access_rule(rule: AccessRule) -> AccessRuleResource:
    return AccessRuleResource(rule.principal, rule.right.value, rule.queues, rule.effect.value)
