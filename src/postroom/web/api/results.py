"""What calls answer: for the document, to which a test holds the answers.

The answers themselves are made by `services.shapes`, as on the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.queues.apps import OnPoison
from postroom.services.audience.files.columns import Meaning
from postroom.transport.contract import Scope
from postroom.web.api.fields import ListLanguage

T = TypeVar("T")

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


class Result(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Index(Result, Generic[T]):
    """Some of many; `next` goes on as `after`, and is null at the end."""

    items: list[T]
    next: str | None


class MailingListResult(Result):
    name: str
    description: str
    from_address: str
    public: bool
    language: ListLanguage
    postal_address: str
    created_at: Time
    etag: str


class SubscriberResult(Result):
    list: str
    email: str
    guid: Annotated[
        str | None,
        Field(
            description="The secret in this subscriber's links; null for keys without the scope"
            " `subscribers`."
        ),
    ]
    verified: bool
    verified_at: Time | None
    blocked: str | None
    created_at: Time
    etag: str


class RejectedLineResult(Result):
    line: int
    email: str
    reason: str


class ColumnResult(Result):
    """What a column of a file is used for."""

    name: str
    meaning: Meaning


class ImportResult(Result):
    """Added, updated and rejected are all lines. A part of the updated ones is `unchanged` (on the
    list already, just as their line says) or `unsubscribed` (not on the list from now on).
    `confirmed` counts those who are verified now and were not, `blocked` those whom their line
    blocks. `errors` has the rejected lines, up to 10,000 of them. With `dry_run` nothing has been
    written."""

    dry_run: bool
    added: int
    updated: int
    unchanged: int
    unsubscribed: int
    blocked: int
    confirmed: int
    rejected: int
    columns: list[ColumnResult]
    ignored_columns: list[str]
    errors: list[RejectedLineResult]


class SignUpResult(Result):
    email_address: str
    list_name: str
    verified: bool


class CountsResult(Result):
    """planned = pending + accepted + refused + suppressed + in_doubt, at every moment."""

    planned: int
    pending: int
    accepted: int
    refused: int
    suppressed: int
    in_doubt: int
    possible_duplicates: int
    deferred: Annotated[
        int, Field(description="A part of pending: these wait for another attempt, or for a hold.")
    ]


class HoldResult(Result):
    """Why emails wait through no fault of their recipients, and when a single one is tried."""

    scope: Annotated[Scope, Field(description="Which emails wait.")]
    reason: str
    reply: Annotated[str | None, Field(description="The mail server's reply.")]
    since: Time
    next_probe: Time


class MessageResult(Result):
    ref: Annotated[str, Field(pattern="^[0-9]{18}$")]
    list: str
    subject: str
    status: MessageStatus
    reason: str | None
    scheduled_at: Time
    created_at: Time
    queued_at: Time | None
    completed_at: Time | None
    has_html: bool
    has_text: bool
    counts: CountsResult
    holds: Sequence[HoldResult]
    etag: str


class ScheduledResult(MessageResult):
    note: Annotated[
        str | None,
        Field(description="Says so if the time has passed, and the message is sent now."),
    ]


class BodiesResult(Result):
    html: str | None
    text: str | None


class EmailResult(Result):
    email: str
    outcome: EmailOutcome
    reply: Annotated[str | None, Field(description="The mail server's last words.")]
    tries: int
    was_in_doubt: bool


class QueueResult(Result):
    """`length` counts ready, delayed and leased messages; `oldest` is when the next one was put."""

    name: str
    length: int
    oldest: Time | None
    retry: int
    poison: int
    dead_letter: int
    app: Annotated[str | None, Field(description="The application that takes its messages.")]
    state: str
    faulted: Annotated[str | None, Field(description="Why it is stopped.")]


class QueueMessageResult(Result):
    """`id` is what redrive and delete ask for; `history_id` stays the same in every queue."""

    id: str
    history_id: str
    body: str
    properties: dict[str, str]
    dequeue_count: int
    enqueued_at: Time
    ready_at: Annotated[Time, Field(description="When its delay or its lease runs out, or did.")]
    is_ready: Annotated[bool, Field(description="Whether it can be received now.")]


class PutResult(Result):
    id: str


class RedriveResult(Result):
    redriven: int
    is_over: bool


class ProcessResult(Result):
    pid: int
    state: str
    started_at: Time
    in_hand: int
    handled: int
    memory: Annotated[int, Field(description="Bytes.")]


class HostResult(Result):
    """What an application does on one host."""

    host: str
    machine: str
    state: str
    reason: Annotated[str | None, Field(description="Why it does not run.")]
    starts: int
    crashes: int
    processes: list[ProcessResult]


class AppResult(Result):
    """One of `handler`, `command` and `serve` is there."""

    path: str
    handler: str = ""
    command: list[str] = []
    serve: str = ""
    min_processes: int
    max_processes: int
    concurrency: int
    idle_timeout: str
    handler_timeout: str | None
    receive_retry_count: int
    max_retry_cycles: int
    retry_cycle_delay: str
    on_poison: OnPoison
    drain_timeout: str
    recycle_after: str | None
    recycle_messages: int | None
    recycle_memory: int | None
    memory_limit: Annotated[int | None, Field(description="Bytes that a process may allocate.")]
    cpu_limit: Annotated[str | None, Field(description="CPU time for one message.")]
    open_files: Annotated[int | None, Field(description="Descriptors that a process may have.")]
    user: Annotated[str | None, Field(description="The host's own user if null.")]
    environment: Annotated[list[str], Field(description="The names of its own variables.")]
    origin: str
    state: str
    is_paused: bool
    hosts: list[HostResult]


class FieldProblem(Result):
    field: str
    problem: str


class Problem(Result):
    """RFC 9457."""

    type: Annotated[str, Field(json_schema_extra={"format": "uri-reference"})]
    title: str
    status: int
    detail: str
    errors: Annotated[list[FieldProblem], Field(description="For each field that is wrong.")] = []
