"""Domain objects as JSON in snake_case: the command line and the API show the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from postroom.domain.audience.lists import MailingList, Subscriber
from postroom.domain.messages.messages import Message
from postroom.domain.queues.apps import app_values
from postroom.domain.queues.matching import Match
from postroom.services.accounts.api_keys import ApiKey
from postroom.services.audience.address_trace import Trace
from postroom.services.audience.files.imports import ImportReport
from postroom.services.messages.hold_rows import reason_of
from postroom.services.messages.holds import Hold
from postroom.services.messages.message_holds import Standing
from postroom.services.messages.outcomes import EmailRecord
from postroom.services.queues.apps import AppState
from postroom.services.queues.attempts import HistoryEntry, stable_id
from postroom.services.queues.queue_access import Rule
from postroom.services.queues.queue_overview import QueueOverview
from postroom.services.typed_values import shown
from postroom.storage import Entity, QueueMessage, StoredMessage


def of_list(mailing_list: MailingList) -> dict[str, Any]:
    return {
        "name": mailing_list.name,
        "description": mailing_list.description,
        "from_address": mailing_list.from_address,
        "public": mailing_list.public,
        "language": mailing_list.language,
        "postal_address": mailing_list.postal_address,
        "created_at": of_moment(mailing_list.created_at),
        "etag": mailing_list.etag,
    }


def of_subscriber(subscriber: Subscriber, *, with_guid: bool = True) -> dict[str, Any]:
    """`with_guid=False` is for readers who must not be able to act for the subscriber."""
    return {
        "list": subscriber.list_name,
        "email": subscriber.address,
        "guid": subscriber.guid if with_guid else None,
        "verified": subscriber.verified,
        "verified_at": of_moment(subscriber.verified_at),
        "blocked": subscriber.blocked or None,
        "created_at": of_moment(subscriber.created_at),
        "etag": subscriber.etag,
    }


def of_message(message: Message, standing: Standing | None = None) -> dict[str, Any]:
    """A message; in an index, where counting all would take long, without how it stands."""
    shown = {
        "ref": message.ref,
        "list": message.list_name,
        "subject": message.subject,
        "status": message.status.value,
        "reason": message.reason or None,
        "scheduled_at": of_moment(message.scheduled_at),
        "created_at": of_moment(message.created_at),
        "queued_at": of_moment(message.queued_at),
        "completed_at": of_moment(message.completed_at),
        "has_html": message.has_html,
        "has_text": message.has_text,
        "etag": message.etag,
    }
    if standing is None:
        return shown
    return {
        **shown,
        "counts": standing.counts.as_dict(),
        "holds": [of_hold(hold) for hold in standing.holds],
    }


def of_hold(hold: Hold) -> dict[str, Any]:
    return {
        "scope": hold.scope.value,
        "reason": reason_of(hold),
        "reply": hold.reply or None,
        "since": of_moment(hold.since),
        "next_probe": of_moment(hold.next_probe),
    }


def of_scheduled(message: Message, standing: Standing, *, has_passed: bool) -> dict[str, Any]:
    """A message, for whoever has just said when it goes out."""
    note = "the time has passed: it is sent now" if has_passed else None
    return {**of_message(message, standing), "note": note}


def of_email(email: EmailRecord) -> dict[str, Any]:
    return {
        "email": email.address,
        "outcome": email.outcome.value,
        "reply": email.reply or None,
        "tries": email.tries,
        "was_in_doubt": email.was_in_doubt,
    }


def of_import(report: ImportReport) -> dict[str, Any]:
    """Added, updated and rejected are all lines. A part of the updated ones is `unchanged` (on the
    list already, just as their line says) or `unsubscribed` (not on the list from now on)."""
    return {
        "dry_run": report.dry_run,
        "added": report.added,
        "updated": report.updated + report.unchanged + report.unsubscribed,
        "unchanged": report.unchanged,
        "unsubscribed": report.unsubscribed,
        "blocked": report.blocked,
        "confirmed": report.confirmed,
        "rejected": report.rejected,
        "columns": [{"name": each.name, "meaning": each.meaning} for each in report.columns],
        "ignored_columns": report.ignored_columns,
        "errors": [
            {"line": each.line, "email": each.email, "reason": each.reason}
            for each in report.errors
        ],
    }


def of_api_key(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": of_moment(key.created_at),
        "last_used_at": of_moment(key.last_used_at),
    }


def of_trace(trace: Trace) -> dict[str, Any]:
    return {
        "email": trace.address,
        "lists": [of_subscriber(each) for each in trace.subscriptions],
        "left": [
            {"list": each.list_name, "left_at": of_moment(each.left_at)}
            for each in trace.departures
        ],
        "messages": [{**of_message(message), **of_email(email)} for message, email in trace.emails],
    }


def of_app_state(state: AppState) -> dict[str, Any]:
    """An application, its configuration, and its processes on every live host."""
    return {
        **app_values(state.app),
        "origin": state.app.origin,
        "state": state.summary,
        "is_paused": state.control.is_paused,
        "hosts": [
            {
                "host": host,
                "machine": machine,
                "state": status.state,
                "reason": status.reason or None,
                "starts": status.starts,
                "crashes": status.crashes,
                "processes": [
                    {
                        "pid": each.pid,
                        "state": each.state,
                        "started_at": of_moment(each.started_at),
                        "in_hand": each.in_hand,
                        "handled": each.handled,
                        "memory": each.memory,
                    }
                    for each in status.processes
                ],
            }
            for host, machine, status in state.hosts
        ],
    }


def of_match(found: Match) -> dict[str, Any]:
    return {
        "queue": found.queue,
        "app": found.winner,
        "reason": found.reason,
        "candidates": [
            {"path": each.path, "fits": each.fits, "reason": each.reason}
            for each in found.candidates
        ],
    }


def of_queue_overview(queue: QueueOverview) -> dict[str, Any]:
    return {
        "name": queue.name,
        "length": queue.length,
        "oldest": of_moment(queue.oldest),
        "retry": queue.retry,
        "poison": queue.poison,
        "dead_letter": queue.dead_letter,
        "app": queue.app,
        "state": queue.state,
        "faulted": queue.faulted,
    }


def of_queue_message(message: QueueMessage) -> dict[str, Any]:
    """`id` is what redrive and delete ask for; `history_id` stays the same in every queue."""
    return {
        "id": message.id,
        "history_id": stable_id(message),
        "body": message.body,
        "properties": dict(message.properties),
        "dequeue_count": message.dequeue_count,
        "enqueued_at": of_moment(message.enqueued_at),
    }


def of_stored_message(stored: StoredMessage, now: datetime) -> dict[str, Any]:
    """A queue message, and when it can be received: a delay or a lease may have to run out."""
    return {
        **of_queue_message(stored.message),
        "ready_at": of_moment(stored.ready_at),
        "is_ready": stored.ready_at <= now,
    }


def of_history(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "time": of_moment(entry.time),
        "queue": entry.queue,
        "round": entry.round,
        "cycle": entry.cycle,
        "attempt": entry.attempt,
        "event": entry.event or None,
        "error": entry.error or None,
        "traceback": entry.traceback or None,
        "exit_status": entry.exit_status,
        "process": entry.process or None,
    }


def of_rule(rule: Rule) -> dict[str, Any]:
    return {
        "principal": rule.principal,
        "right": rule.right.value,
        "queues": rule.queues,
        "effect": rule.effect.value,
    }


def of_moment(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def of_entity(entity: Entity) -> dict[str, Any]:
    """Moments and bytes, which JSON does not have, as people type them."""
    return {
        "partition": entity.partition,
        "row": entity.row,
        "properties": {
            name: shown(value) if isinstance(value, bytes | datetime) else value
            for name, value in entity.properties.items()
        },
        "etag": entity.etag,
    }
