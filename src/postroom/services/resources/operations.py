"""Events and rows of the store as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from postroom.services.events import Event
from postroom.services.resources import Resource, Time, describe_time
from postroom.services.typed_values import shown
from postroom.storage import Entity


class EventResource(Resource, frozen=True):
    """Something that Postroom did or noticed on its own."""

    at: Time
    severity: str
    part: str
    text: str
    subject: str | None


def describe_event(event: Event) -> EventResource:
    return EventResource(
        at=describe_time(event.at),
        severity=event.severity.value,
        part=event.part,
        text=event.text,
        subject=event.subject or None,
    )


class RowResource(Resource, frozen=True):
    """A row of a table. Times and bytes, which JSON does not have, are text."""

    partition: str
    row: str
    properties: dict[str, Any]
    etag: str


def describe_row(entity: Entity) -> RowResource:
    return RowResource(
        partition=entity.partition,
        row=entity.row,
        properties={
            name: shown(value) if isinstance(value, bytes | datetime) else value
            for name, value in entity.properties.items()
        },
        etag=entity.etag,
    )
