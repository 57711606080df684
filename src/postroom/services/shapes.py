"""Domain objects as JSON in snake_case: the command line and the API show the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from postroom.domain.emails import Counts
from postroom.domain.lists import MailingList, Subscriber
from postroom.domain.messages import Message
from postroom.services.imports import ImportReport
from postroom.services.outcomes import EmailRecord
from postroom.services.tracing import Trace


def of_list(mailing_list: MailingList) -> dict[str, Any]:
    return {
        "name": mailing_list.name,
        "description": mailing_list.description,
        "from_address": mailing_list.from_address,
        "created_at": of_moment(mailing_list.created_at),
        "etag": mailing_list.etag,
    }


def of_subscriber(subscriber: Subscriber) -> dict[str, Any]:
    return {
        "list": subscriber.list_name,
        "email": subscriber.address,
        "guid": subscriber.guid,
        "verified": subscriber.verified,
        "verified_at": of_moment(subscriber.verified_at),
        "blocked": subscriber.blocked or None,
        "created_at": of_moment(subscriber.created_at),
        "etag": subscriber.etag,
    }


def of_message(message: Message, counts: Counts | None = None) -> dict[str, Any]:
    """A message; in an index, where counting all would take long, without its counts."""
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
    return shown if counts is None else {**shown, "counts": counts.as_dict()}


def of_email(email: EmailRecord) -> dict[str, Any]:
    return {
        "email": email.address,
        "outcome": email.outcome.value,
        "reply": email.reply or None,
        "tries": email.tries,
        "was_in_doubt": email.was_in_doubt,
    }


def of_import(report: ImportReport) -> dict[str, Any]:
    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "rejected": report.rejected,
        "ignored_columns": report.ignored_columns,
        "errors": [
            {"line": each.line, "email": each.email, "reason": each.reason}
            for each in report.errors
        ],
    }


def of_trace(trace: Trace) -> dict[str, Any]:
    return {
        "email": trace.address,
        "lists": [of_subscriber(each) for each in trace.subscriptions],
        "messages": [{**of_message(message), **of_email(email)} for message, email in trace.emails],
    }


def of_moment(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
