"""What travels with a queue message: who set it, and how it changes on the message's way."""

from __future__ import annotations

from collections.abc import Mapping

from postroom.services.queues.attempts import (
    CRASHED,
    CYCLE,
    ROUND,
    STABLE_ID,
    round_of,
    stable_id,
)
from postroom.storage import QueueMessage

EXPIRES_AT = "expires_at"
"""When a message is too old to be delivered: a time in ISO 8601."""

DEAD_LETTERS = "dead_letter_queue"
"""The queue that its sender wants a rejected or expired message in, instead of `;dead-letter`."""

ORIGIN = "origin_queue"
"""Of a message in such a queue: where it was rejected, and where a redrive brings it back to."""

RESERVED = (STABLE_ID, CYCLE, ROUND, CRASHED, EXPIRES_AT, ORIGIN)
"""Properties that are not the sender's to set."""


def noted(message: QueueMessage) -> dict[str, str]:
    """Its properties, with the id that it keeps from now on."""
    return {**message.properties, STABLE_ID: stable_id(message)}


def anew(message: QueueMessage) -> dict[str, str]:
    """Its properties for a new round: its counters begin at nothing."""
    properties = without(without(noted(message), CYCLE), CRASHED)
    properties[ROUND] = str(round_of(message.properties) + 1)
    return properties


def redriven(message: QueueMessage) -> dict[str, str]:
    """Its properties when it is brought back: it is as new, and rejected to the same queue."""
    properties = without(without(anew(message), EXPIRES_AT), ORIGIN)
    if ORIGIN in message.properties:
        properties[DEAD_LETTERS] = message.queue
    return properties


def origin_of(properties: Mapping[str, str]) -> str | None:
    return properties.get(ORIGIN)


def without(properties: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key != name}
