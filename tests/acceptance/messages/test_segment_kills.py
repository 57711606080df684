"""kill -9 during fan-out to a segment, while subscribers join and leave it."""

import asyncio
import random
from datetime import UTC, datetime

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.messages import Message
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Entity, Insert, Merge
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, address_of
from tests.acceptance.messages.faults.test_kills import begins
from tests.long import sized
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import BUSY

NAME = ListName(LIST)
CITIES = ("Bern", "Basel", "Bern", "Basel")
"""Of each four, the first always lives in Bern, the second never; the others move all the time."""
MOST_MOVES = 2_000 * BUSY


def attributes(city: str) -> str:
    return msgspec.json.encode({"city": city}).decode()


async def fill(services: Services, count: int) -> None:
    await services.lists.create(LIST, "Contoso's news", "news@contoso.example")
    await services.fields.declare(LIST, [Field("city")])
    await services.segments.create(LIST, "bern", 'city = "Bern"')
    for start in range(0, count, 50):
        operations = []
        for number in range(start, start + 50):
            new = msgspec.structs.replace(
                new_subscriber(NAME, address_of(number), verified=True),
                attributes={"city": CITIES[number % 4]},
            )
            operations += [
                Insert(entities.subscriber_entity(new)),
                Insert(entities.lookup_entity(new)),
            ]
        await services.store.table(entities.LISTS).apply(operations)


async def move_people(services: Services, count: int) -> None:
    """Let every third and fourth subscriber move between cities until this is cancelled."""
    table = services.store.table(entities.LISTS)
    for _ in range(MOST_MOVES):
        start = random.randrange(0, count, 100)
        moving = [
            Merge(
                Entity(
                    NAME,
                    entities.email_row(address_of(number)),
                    {"Attributes": attributes(random.choice(CITIES))},
                )
            )
            for number in range(start, start + 100)
            if number % 4 >= 2
        ]
        await table.apply(moving)
        await asyncio.sleep(0.005)


async def schedule(services: Services) -> Message:
    return await services.messages.create(
        LIST, "News", NewBodies(None, "Hello"), datetime.now(UTC), audience=Audience("bern")
    )


async def planned(services: Services, message: Message) -> list[Address]:
    message = await services.messages.get(message.ref)
    return [
        address async for page in services.pages.whole(message) for address in page.emails.addresses
    ]


@pytest.mark.timeout(sized(180, 900))
async def test_exactly_those_who_matched_at_fan_out_get_the_message_once(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count, kills = sized(3_000, 40_000), sized(8, 40)
    await fill(services, count)
    messages = [await schedule(services)]
    moving = asyncio.create_task(move_people(services, count))
    for _ in range(kills):
        scheduler = postroom.start("scheduler")
        if not await begins(services, messages[-1].ref):
            messages.append(await schedule(services))
            await begins(services, messages[-1].ref)
        await asyncio.sleep(random.uniform(0.0, 0.02))
        before = await planned(services, messages[-1])
        scheduler.kill()
        scheduler.wait()
        after = await planned(services, messages[-1])
        assert after[: len(before)] == before, "who is on a page stays there"
    postroom.start("scheduler")
    postroom.start("sender")
    expected: dict[str, int] = {}
    for message in messages:
        _, counts = await SumChecker(services, message).until_done(60)
        chosen = await planned(services, message)
        assert counts.accepted == counts.planned == len(chosen) == len(set(chosen))
        assert {address_of(number) for number in range(0, count, 4)} <= set(chosen)
        assert not {address_of(number) for number in range(1, count, 4)} & set(chosen)
        for address in chosen:
            expected[address] = expected.get(address, 0) + 1
    moving.cancel()
    assert server.copies() == expected
