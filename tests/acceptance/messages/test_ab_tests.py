"""A/B tests with real processes: kill -9 of the scheduler between and within all steps."""

import asyncio
import random
import time
from itertools import product

import msgspec
import pytest

from postroom.domain.messages.messages import FINAL, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.ab_tests import AbState, AbTest, Criterion
from postroom.services.audience.results.engagement import Engagement
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, address_of, fill
from tests.acceptance.hosting import SECRET_KEY
from tests.long import sized
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import until

COUNT = 600
WHO = "ann@example.com"
CASES = sized(
    [("sqlite", Criterion.CLICKS), ("postgres", Criterion.UNSUBSCRIBES)],
    list(product(("sqlite", "postgres"), Criterion)),
)
"""Each engine and each criterion; `make test-long` combines all."""


async def prepared(services: Services, track: str) -> AbTest:
    content = ContentChange(
        list_name=LIST, subject="A", body="<p>Hello {{ email }}</p>", text="", track=track
    )
    first = await services.composing.create(content, WHO)
    await services.ab_tests.create(first.ref, WHO)
    await services.ab_tests.add(first.ref, ContentChange(subject="B"), WHO)
    return await services.ab_tests.start(first.ref, share=40)


async def answer(services: Services, test: AbTest, criterion: Criterion) -> None:
    """Let people like the second variant better, and the waiting time end."""
    first, second = test.variants
    if criterion is Criterion.CLICKS:
        await services.engagement.add(second, "a batch", Engagement(clicked=40))
    else:
        message = await services.messages.get(first)
        emails = [each async for each in services.outcomes.emails(message)]
        for each in emails[:30]:
            guid = (await services.subscriptions.get(LIST, each.address)).guid
            await services.message_unsubscribes.unsubscribe(LIST, guid, first)
    found = await services.ab_tests.get(test.key)
    await services.ab_tests.rows.save(msgspec.structs.replace(found, wait_minutes=0))


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("engine", "criterion"), CASES, indirect=["engine"])
async def test_whatever_is_killed_everyone_gets_one_variant(
    postroom: Postroom, services: Services, server: RecordingSmtp, criterion: Criterion
) -> None:
    postroom.settings["secret_key"] = SECRET_KEY
    await fill(services, COUNT)
    test = await prepared(services, "aggregate" if criterion is Criterion.CLICKS else "off")
    postroom.start("sender")
    scheduler = postroom.start("scheduler")

    async def statuses(*refs: MessageRef) -> set[MessageStatus]:
        return {(await services.messages.get(ref)).status for ref in refs}

    async def are_sent() -> bool:
        return await statuses(*test.variants) <= FINAL

    async def has_left_the_start() -> bool:
        return (await services.ab_tests.get(test.key)).state is not AbState.STARTING

    await until(has_left_the_start, "the variants are scheduled")
    await asyncio.sleep(random.uniform(0, 0.5))
    scheduler.kill()
    scheduler = postroom.start("scheduler")
    await until(are_sent, "the variants are sent")
    await answer(services, test, criterion)

    async def is_decided() -> bool:
        found = await services.ab_tests.get(test.key)
        return found.state in (AbState.DECIDED, AbState.DONE)

    await until(is_decided, "it is decided")
    scheduler.kill()  # before, within or after the creation of the rest
    began = time.monotonic()
    postroom.start("scheduler")

    async def is_done() -> bool:
        found = await services.ab_tests.get(test.key)
        return found.state is AbState.DONE and await statuses(found.rest) <= FINAL

    await until(is_done, "the rest is sent")
    print(f"done {time.monotonic() - began:.1f} s after the kill")
    done = await services.ab_tests.get(test.key)
    assert (done.winner, done.criterion) == (test.variants[1], criterion)
    assert (await services.messages.get(done.rest)).subject == "B"
    assert server.copies() == {address_of(number): 1 for number in range(COUNT)}
    refs = (*test.variants, done.rest)
    counts = [await services.outcomes.counts(await services.messages.get(ref)) for ref in refs]
    assert sum(each.accepted for each in counts) == COUNT
    assert not any(each.possible_duplicates for each in counts)
