"""Confirming and blocking: the work item that asks for it, and the subscriber after it."""

from __future__ import annotations

import msgspec

from postroom import clock
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.audience.renamed_fields import without
from postroom.domain.errors import NotNow
from postroom.storage import MessageToPut


def confirmation_item(subscriber: Subscriber, language: str) -> MessageToPut:
    """Return a work item for `mail/confirm`: the subscriber and the language."""
    properties = {"language": language} if language else {}
    return MessageToPut(f"{subscriber.guid},{subscriber.list_name}", properties=properties)


def is_blocked(subscriber: Subscriber) -> NotNow:
    """Return the error that says how to unblock a subscriber first."""
    if subscriber.is_suppressed:
        return NotNow(f"{subscriber.address} is suppressed: lift the suppression first")
    return NotNow(f"{subscriber.address} is blocked: unblock it first")


def with_block(subscriber: Subscriber, reason: str) -> Subscriber:
    """Return a subscriber who is blocked by hand, or no longer if there is no reason. `NotNow` if a
    suppression blocks them."""
    if reason == subscriber.blocked:
        return subscriber
    if subscriber.is_suppressed:
        raise is_blocked(subscriber)
    return msgspec.structs.replace(subscriber, blocked=reason)


def verified_now(subscriber: Subscriber) -> Subscriber:
    return msgspec.structs.replace(subscriber, verified=True, verified_at=clock.now())


def confirmed_with(subscriber: Subscriber, fields: Fields) -> Subscriber:
    """Return a subscriber who has confirmed, and with that what they gave at a later sign-up."""
    pending = subscriber.pending_attributes
    return msgspec.structs.replace(
        verified_now(subscriber),
        attributes={**without(subscriber.attributes, pending, fields), **pending},
        pending_attributes={},
    )
