"""What an edit of a scheduled message may change, and what else changes with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from postroom.domain.audience.lists.lists import parse_list_name
from postroom.domain.errors import Invalid
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.messages import Message
from postroom.mail.personal.content_conditions import compared_fields
from postroom.mail.personal.merge_fields import FieldRule
from postroom.services.messages.message_contents import (
    NewBodies,
    check_any_body,
    checked_time,
    columns_of,
    with_text,
)


def check_kept(
    old: Message, list_name: str | None, audience: Audience | None, scheduled_at: datetime | None
) -> None:
    """Raise `Invalid` if an edit changes who gets a message with planned recipients, or when."""
    why = "can no longer be changed: the recipients are already prepared"
    if list_name is not None and parse_list_name(list_name) != old.list_name:
        raise Invalid("list", why)
    if audience is not None and audience != old.audience:
        is_list = audience.more_lists != old.more_lists
        raise Invalid("more_lists" if is_list else "segment", why)
    if scheduled_at is not None and checked_time(scheduled_at) != old.scheduled_at:
        raise Invalid("scheduled_at", why)


def with_fields(message: Message, bodies: NewBodies, rules: Mapping[str, FieldRule]) -> Message:
    """Return a message with the fields and conditions that it uses. `Invalid` if the list lacks
    one of the fields, or if the recipients were prepared without its values."""
    used = columns_of(message, bodies)
    for each in (*used.fields, *compared_fields(used.conditions)):
        if each not in rules:
            raise Invalid(
                "list", f"the message uses the field {each}, which this list does not have"
            )
    if message.queued_at is None:
        return msgspec.structs.replace(message, **msgspec.structs.asdict(used))
    added = [f"{{{{ {each} }}}}" for each in used.fields if each not in message.fields]
    added += [f"{{% if {each} %}}" for each in used.conditions if each not in message.conditions]
    if added:
        problem = "can no longer be added: the recipients are already prepared"
        raise Invalid("html", f"{added[0]} {problem}")
    return message


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
