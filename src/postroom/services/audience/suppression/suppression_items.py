"""Work items of `mail/suppress`: what is left to do about suppressions."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import MessageRef


class SuppressionTask(StrEnum):
    APPLY = "apply"
    """Write the suppressions of an address onto the rows of subscribers once more."""

    APPLY_MANY = "apply_many"
    """The same for up to 100 addresses, with spaces between them."""

    REFUSED = "refused"
    """Record the refusals of a message that is done."""

    COUNT = "count"
    """Count the bounces of a message, and compare them with limits."""


class SuppressionItem(msgspec.Struct, frozen=True):
    """A task, and the address or message that it is about."""

    task: SuppressionTask
    subject: str


def apply_again(address: Address) -> str:
    return f"{SuppressionTask.APPLY},{address}"


def apply_to_many(addresses: Iterable[Address]) -> str:
    return f"{SuppressionTask.APPLY_MANY},{' '.join(addresses)}"


def record_refused(ref: MessageRef) -> str:
    return f"{SuppressionTask.REFUSED},{ref}"


def count_bounces(ref: MessageRef) -> str:
    return f"{SuppressionTask.COUNT},{ref}"


def parse_suppression_item(body: str) -> SuppressionItem:
    """Parse `TASK,SUBJECT`. `Invalid`."""
    task, _, subject = body.partition(",")
    if task not in set(SuppressionTask) or not subject:
        raise Invalid("work item", f"{body[:60]!r} is not 'TASK,SUBJECT'")
    return SuppressionItem(SuppressionTask(task), subject)
