"""Queues: waiting and failed messages, and the applications that process them."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.domain.queues.queue_names import (
    dead_letter_queue,
    is_retry,
    is_subqueue,
    poison_queue,
    retry_queue,
    root_queue,
)
from postroom.domain.units import parse_duration
from postroom.services.accounts.users import Role
from postroom.services.queues.attempts import STABLE_ID, HistoryEntry, stable_id
from postroom.services.queues.queue_access import hide_in_history, hide_in_message
from postroom.services.queues.queue_overview import QueueOverview
from postroom.storage import InvalidRequest, QueueMessage
from postroom.storage.limits import RECEIVE_MESSAGES
from postroom.web.rendering.sorting import Sortable, SortColumn, Sorting
from postroom.web.rendering.templating import queue_url
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LONGEST_SHOWN = 2_000  # characters of a body
_INDEX: Final = Sortable[QueueOverview](
    {
        "queue": SortColumn("Queue", lambda each: each.name),
        "waiting": SortColumn("Waiting", lambda each: each.length, is_number=True),
        "oldest": SortColumn("Oldest waiting", lambda each: each.oldest),
        "retry": SortColumn("Retry", lambda each: each.retry, is_number=True),
        "poison": SortColumn("Poison", lambda each: each.poison, is_number=True),
        "dead_letters": SortColumn("Dead letters", lambda each: each.dead_letter, is_number=True),
        "application": SortColumn("Application", lambda each: each.app),
        "state": SortColumn("State", lambda each: each.state),
    },
    key_order="queue",
    order_label="Sorted by name",
)


class ShownMessage(msgspec.Struct, frozen=True):
    """A message, the beginning of its body, and its history."""

    message: QueueMessage
    is_cut: bool
    history: list[HistoryEntry]

    @property
    def excerpt(self) -> str:
        return self.message.body[:_LONGEST_SHOWN]


class QueueTab(msgspec.Struct, frozen=True):
    """A queue or one of its subqueues."""

    label: str
    queue: str
    count: int


async def index(visit: Visit) -> Response:
    wanted = visit.parameter("name").strip()
    if wanted:
        return visit.redirect(queue_url(visit.services.store.queue(wanted).name))
    sorting = Sorting(visit, _INDEX)
    queues = await visit.services.queue_overview.overview()
    template = "admin/queues/queues_table.html" if visit.is_partial else "admin/queues/queues.html"
    return visit.render(template, queues=sorting.sort(queues), sorting=sorting)


async def queue(visit: Visit) -> Response:
    return await _show(visit, visit.parameter("name"))


async def put(visit: Visit) -> Response:
    """Add a message; after an error, show the page again with what was typed."""
    name = await _named(visit)
    typed = {field: await visit.text(field) for field in ("body", "delay", "properties")}
    try:
        made = await visit.services.queues.put(
            name,
            typed["body"],
            delay=_delay(typed["delay"]),
            properties=_properties(typed["properties"]),
        )
    except (Invalid, InvalidRequest) as exc:
        field = exc.field if isinstance(exc, Invalid) and exc.field in typed else "body"
        problem = exc.problem if isinstance(exc, Invalid) else str(exc)
        return await _show(visit, name, status=422, typed=typed, problems={field: problem})
    await visit.audit("added a queue message", f"{name}: {made}")
    return visit.redirect(queue_url(name), f"Message {made} added.")


async def redrive(visit: Visit) -> Response:
    """Redrive all failed messages, in the background."""
    name = await _named(visit)
    visit.context.redrives.start(name, rate=_rate(await visit.text("rate")))
    await visit.audit("redrove all messages", name)
    return visit.redirect(queue_url(name), "Redrive started.")


async def redrive_one(visit: Visit) -> Response:
    """Redrive one message from a subqueue, or from the queue `source`."""
    name, identity = await _named(visit), await visit.text("id")
    source = await visit.text("source") or None
    await visit.services.queues.redrive(name, id=identity, source=source)
    await visit.audit("redrove a message", f"{name}: {identity}")
    text = f"Message {identity} moved back to {root_queue(name)}."
    return visit.redirect(queue_url(source or name), text)


async def clear_fault(visit: Visit) -> Response:
    name = await _named(visit)
    cleared = await visit.services.queues.clear_fault(name)
    await visit.audit("cleared the fault of a queue", name)
    return visit.redirect(
        queue_url(name), "Queue resumed." if cleared else "The queue was not stopped."
    )


async def confirm_delete(visit: Visit) -> Response:
    name, identity = visit.parameter("queue"), visit.parameter("id")
    return visit.render(
        "admin/queues/queue_confirm.html",
        title="Delete this message?",
        text=f"Message {identity} and its history are deleted from {name} immediately"
        " and cannot be restored.",
        button="Delete permanently",
        action="/queue/delete",
        fields={"queue": name, "id": identity},
        back=queue_url(name),
    )


async def delete(visit: Visit) -> Response:
    name, identity = await _named(visit), await visit.text("id")
    await visit.services.queues.delete_message(name, identity)
    await visit.audit("deleted a queue message", f"{name}: {identity}")
    return visit.redirect(queue_url(name), f"Message {identity} deleted.")


async def confirm_purge(visit: Visit) -> Response:
    name = visit.parameter("queue")
    info = await visit.services.store.queue(name).info()
    return visit.render(
        "admin/queues/queue_confirm.html",
        title=f"Purge queue {name}?",
        text=f"All its messages (about {info.length:,}) are deleted immediately, including those in"
        " progress. They cannot be restored.",
        button="Delete all messages",
        action="/queue/purge",
        fields={"queue": name},
        back=queue_url(name),
    )


async def purge(visit: Visit) -> Response:
    name = await _named(visit)
    await visit.services.queues.purge(name)
    await visit.audit("purged a queue", name)
    return visit.redirect(queue_url(name), "Queue purged.")


async def _named(visit: Visit) -> str:
    """Return the name of the queue in the form. `InvalidName`."""
    return visit.services.store.queue(await visit.text("queue")).name


async def _show(
    visit: Visit,
    name: str,
    *,
    status: int = 200,
    typed: dict[str, str] | None = None,
    problems: dict[str, str] | None = None,
) -> Response:
    messages, overview = await asyncio.gather(
        visit.services.queues.peek(name, RECEIVE_MESSAGES), _overview(visit, root_queue(name))
    )
    tabs = _tabs(overview, name)
    return visit.render(
        "admin/queues/queue.html",
        status=status,
        name=name,
        root=overview,
        tabs=tabs,
        count=next((tab.count for tab in tabs if tab.queue == name), 0),
        messages=await _shown(visit, messages),
        is_failed=is_subqueue(name) and not is_retry(name),
        is_sub=is_subqueue(name),
        redriving=visit.context.redrives.latest(name),
        typed=typed or {"body": "", "delay": "", "properties": ""},
        problems=problems or {},
        most=RECEIVE_MESSAGES,
        delete_url="/queue/delete?" + urlencode({"queue": name}),
        purge_url="/queue/purge?" + urlencode({"queue": name}),
    )


async def _overview(visit: Visit, root: str) -> QueueOverview:
    """Return the overview of a queue; one that does not exist yet is empty."""
    found = await visit.services.queue_overview.overview()
    for each in found:
        if each.name == root:
            return each
    match = await visit.services.apps.explain(root)
    return QueueOverview(root, 0, None, 0, 0, 0, match.winner, "no messages yet")


def _tabs(overview: QueueOverview, name: str) -> list[QueueTab]:
    root = overview.name
    tabs = [
        QueueTab("Waiting", root, overview.length),
        QueueTab("Retry", retry_queue(root), overview.retry),
        QueueTab("Poison", poison_queue(root), overview.poison),
        QueueTab("Dead letters", dead_letter_queue(root), overview.dead_letter),
    ]
    return tabs if any(tab.queue == name for tab in tabs) else [*tabs, QueueTab(name, name, 0)]


async def _shown(visit: Visit, messages: list[QueueMessage]) -> list[ShownMessage]:
    async def shown(message: QueueMessage) -> ShownMessage:
        was_tried = message.dequeue_count > 0 or STABLE_ID in message.properties
        history = await visit.services.queues.history(stable_id(message)) if was_tried else []
        if not visit.may(Role.ADMINISTRATOR):
            message, history = hide_in_message(message), hide_in_history(history)
        return ShownMessage(message, len(message.body) > _LONGEST_SHOWN, history)

    return list(await asyncio.gather(*map(shown, messages)))


def _delay(text: str) -> float:
    if not text.strip():
        return 0.0
    try:
        return parse_duration(text).total_seconds()
    except ValueError as exc:
        raise Invalid("delay", f"{exc}, not {text!r}") from exc


def _rate(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError as exc:
        raise Invalid(
            "rate", f"must be a number of messages per second, not {text[:40]!r}"
        ) from exc


def _properties(text: str) -> dict[str, str]:
    """Parse properties, one per line, written as NAME=VALUE."""
    properties: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise Invalid("properties", f"must be written as NAME=VALUE, not {line[:40]!r}")
        properties[name.strip()] = value.strip()
    return properties


VIEWS = (
    View("/queues", index, role=Role.VIEWER),
    View("/queues/{name:path}", queue, role=Role.VIEWER),
    View("/queue/redrive", redrive, role=Role.EDITOR, methods=("POST",)),
    View("/queue/redrive-one", redrive_one, role=Role.EDITOR, methods=("POST",)),
    View("/queue/clear-fault", clear_fault, role=Role.EDITOR, methods=("POST",)),
    View("/queue/put", put, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/queue/delete", confirm_delete, role=Role.ADMINISTRATOR),
    View("/queue/delete", delete, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/queue/purge", confirm_purge, role=Role.ADMINISTRATOR),
    View("/queue/purge", purge, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
)
