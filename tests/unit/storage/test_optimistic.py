"""The helper that repeats a change which lost a race."""

from __future__ import annotations

import pytest

from postroom.domain.errors import Overtaken
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import StaleETag


async def test_a_change_is_repeated_until_it_wins() -> None:
    attempts = 0

    async def change() -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise StaleETag("row")
        if attempts == 2:
            raise Overtaken("message", "1")
        return attempts

    assert await retry_on_conflict(change, "message", "1") == 3


async def test_a_change_that_always_loses_ends() -> None:
    async def change() -> None:
        raise StaleETag("row")

    with pytest.raises(Overtaken, match="'7'"):
        await retry_on_conflict(change, "message", "7")


async def test_other_errors_are_not_repeated() -> None:
    attempts = 0

    async def change() -> None:
        nonlocal attempts
        attempts += 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await retry_on_conflict(change, "message", "7")
    assert attempts == 1


async def test_a_final_conflict_is_not_repeated() -> None:
    attempts = 0

    async def change() -> None:
        nonlocal attempts
        attempts += 1
        raise StaleETag("row")

    with pytest.raises(StaleETag):
        await retry_on_conflict(change, "message", "7", final=StaleETag)
    assert attempts == 1
