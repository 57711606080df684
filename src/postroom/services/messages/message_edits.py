"""What an edit of a scheduled message may change, and what it changes besides."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from postroom.domain.audience.lists import parse_list_name
from postroom.domain.errors import Invalid
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.messages import Message
from postroom.mail.merge_fields import FieldRule
from postroom.services.messages.message_contents import (
    NewBodies,
    check_any_body,
    checked_time,
    fields_of,
    with_text,
)


def check_kept(
    old: Message, list_name: str | None, audience: Audience | None, scheduled_at: datetime | None
) -> None:
    """Raise `Invalid` if an edit changes who gets a message with planned recipients, or when."""
    why = "can no longer be changed: the recipients have been planned"
    if list_name is not None and parse_list_name(list_name) != old.list_name:
        raise Invalid("list", why)
    if audience is not None and audience != old.audience:
        raise Invalid("segment", why)
    if scheduled_at is not None and checked_time(scheduled_at) != old.scheduled_at:
        raise Invalid("scheduled_at", why)


def with_fields(message: Message, bodies: NewBodies, rules: Mapping[str, FieldRule]) -> Message:
    """Return a message with the fields that it uses. `Invalid` if the list has one of them not, or
    if the recipients have been planned without its values."""
    used = fields_of(message, bodies)
    for each in used:
        if each not in rules:
            raise Invalid("list", f"the message uses the field {each}, which this list has not")
        if message.queued_at is not None and each not in message.fields:
            problem = "can no longer be added: the recipients have been planned"
            raise Invalid("html", f"{{{{ {each} }}}} {problem}")
    return msgspec.structs.replace(
        message, fields=message.fields if message.queued_at is not None else used
    )


async def merged_bodies(current: NewBodies, bodies: NewBodies) -> NewBodies:
    """Return the bodies after an edit. `Invalid` if none is left."""
    if bodies.text is None and await has_generated_text(current):
        bodies = await with_text(bodies)
    merged = NewBodies(
        current.html if bodies.html is None else bodies.html,
        current.text if bodies.text is None else bodies.text,
        current.source if bodies.html is None else None,
    )
    check_any_body(merged)
    return merged


async def has_generated_text(bodies: NewBodies) -> bool:
    """Return whether the text is the one that is generated from the HTML."""
    if not bodies.html or not bodies.text:
        return False
    return (await with_text(NewBodies(bodies.html))).text == bodies.text
