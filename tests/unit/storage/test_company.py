"""Waiting for company: who goes together, and who alone."""

import asyncio

from postroom.storage.sqlite.company import Company


async def test_whoever_comes_while_the_first_one_waits_goes_with_it() -> None:
    company = Company()
    gone: list[str] = []

    async def go(name: str) -> None:
        await company.wait(0.05)
        gone.append(name)

    first = [asyncio.create_task(go(name)) for name in "ab"]
    await asyncio.sleep(0)
    assert gone == []
    await asyncio.gather(*first)
    assert gone == ["a", "b"]
    later = asyncio.create_task(go("c"))
    await asyncio.sleep(0)
    assert gone == ["a", "b"], "for the next one it begins anew"
    await later
    assert gone == ["a", "b", "c"]
