"""Hides the GUIDs of subscribers from people who may view them but not act for them.

A GUID is a secret: anybody who has it can confirm or unsubscribe its owner. Administrators and API
keys with the scope `subscribers` see it; everyone else sees a mask.
"""

from __future__ import annotations

import re

import msgspec

from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.domain.queues.queue_names import root_queue
from postroom.services.queues.attempts import HistoryEntry
from postroom.storage import QueueMessage

MASK = "●●●●●●"
_GUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII)


def hide_guids(text: str) -> str:
    """Return the text with a mask in place of each GUID."""
    return _GUID.sub(MASK, text)


def hide_in_message(message: QueueMessage) -> QueueMessage:
    """Hide GUIDs in a message of `mail/confirm` (`GUID,LIST`) and its subqueues; messages of other
    queues belong to applications and stay as they are."""
    if root_queue(message.queue) != CONFIRM_QUEUE:
        return message
    return msgspec.structs.replace(
        message,
        body=hide_guids(message.body),
        properties={name: hide_guids(text) for name, text in message.properties.items()},
    )


def hide_in_history(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    """Hide GUIDs in what went wrong with a message of `mail/confirm`."""
    return [
        msgspec.structs.replace(
            each,
            event=hide_guids(each.event),
            error=hide_guids(each.error),
            traceback=hide_guids(each.traceback),
        )
        if root_queue(each.queue) == CONFIRM_QUEUE
        else each
        for each in entries
    ]
