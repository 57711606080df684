"""Callers that share one transaction, and those that come later."""

import asyncio

from postroom.storage.sqlite.writer import CommitDelay


async def test_callers_that_arrive_while_the_first_one_waits_continue_with_it() -> None:
    delay = CommitDelay()
    continued: list[str] = []

    async def wait(name: str) -> None:
        await delay.wait(0.05)
        continued.append(name)

    first = [asyncio.create_task(wait(name)) for name in "ab"]
    await asyncio.sleep(0)
    assert continued == []
    await asyncio.gather(*first)
    assert continued == ["a", "b"]
    later = asyncio.create_task(wait("c"))
    await asyncio.sleep(0)
    assert continued == ["a", "b"], "the next one waits again"
    await later
    assert continued == ["a", "b", "c"]
