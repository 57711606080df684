"""Changes of many subscribers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from postroom.domain.errors import DomainError
from postroom.services.audience.signup.subscriptions import SubscriptionService

MOST_AT_ONCE: Final = 1000
BLOCKED_BY_HAND: Final = "blocked by an administrator"


class BulkAction(StrEnum):
    ASK = "ask"
    VERIFY = "verify"
    BLOCK = "block"
    UNBLOCK = "unblock"
    REMOVE = "remove"


class BulkReport(msgspec.Struct, frozen=True):
    """How many were changed, and why the others were not."""

    done: int
    problems: list[str]


async def change_many(
    subscriptions: SubscriptionService, list_name: str, emails: Sequence[str], action: BulkAction
) -> BulkReport:
    """Change up to `MOST_AT_ONCE` subscribers; each succeeds or fails on its own."""
    change = _change(subscriptions, list_name, action)
    results = await asyncio.gather(*(_problem(change, each) for each in emails[:MOST_AT_ONCE]))
    problems = [result for result in results if result]
    return BulkReport(len(results) - len(problems), problems)


def _change(
    subscriptions: SubscriptionService, list_name: str, action: BulkAction
) -> Callable[[str], Awaitable[object]]:
    match action:
        case BulkAction.VERIFY:
            return lambda email: subscriptions.edit(list_name, email, verified=True)
        case BulkAction.ASK:
            return lambda email: subscriptions.ask(list_name, email)
        case BulkAction.BLOCK:
            return lambda email: subscriptions.edit(list_name, email, blocked=BLOCKED_BY_HAND)
        case BulkAction.UNBLOCK:
            return lambda email: subscriptions.edit(list_name, email, blocked="")
        case BulkAction.REMOVE:
            return lambda email: subscriptions.remove(list_name, email)
        case _:
            assert_never(action)


async def _problem(change: Callable[[str], Awaitable[object]], email: str) -> str:
    """Change one subscriber; return what went wrong, or an empty text."""
    try:
        await change(email)
    except DomainError as exc:
        return str(exc)
    return ""
