"""Rules about opens and clicks: only of people who agree that they are recorded."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.audience.rules import RuleError
from postroom.domain.messages.hits import OPENED
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import new_ref
from postroom.domain.messages.tracking import Track
from postroom.services.audience.targeting import engaged_subscribers
from postroom.storage import Store
from postroom.wiring import Services
from tests.contract.conftest import ON_ONE_ENGINE
from tests.integration.usecases.audience.results.test_personal_hits import (
    NAME,
    agree,
    count,
    hit,
    tracked,
)
from tests.integration.usecases.making import address_of, days, fill, make_list


@pytest.fixture
async def people(services: Services, store: Store) -> list[Subscriber]:
    """Eight subscribers, of whom the first six agree."""
    await make_list(services)
    made = await fill(store, NAME, 8)
    await agree(services, made[:6])
    return made


async def selected(services: Services, rule: str) -> list[int]:
    found = [each async for each in services.segments.select(NAME, rule)]
    numbers = [number for number in range(8) if address_of(number) in found]
    assert len(numbers) == len(found)
    preview = await services.segments.preview(NAME, rule)
    assert preview.count == len(found)
    return numbers


async def clicked_and_opened(services: Services, people: list[Subscriber]) -> Message:
    """0 opens, 1 clicks the first link, 2 both links, 3 opens and clicks; 7, who does not agree,
    does everything."""
    message = await tracked(services)
    did = {0: (OPENED,), 1: (1,), 2: (1, 2), 3: (OPENED, 2), 7: (OPENED, 1, 2)}
    hits = [hit(message, people[who], each) for who, links in did.items() for each in links]
    await count(services, hits)
    return message


async def test_who_opened_and_clicked_a_message_or_a_link(
    services: Services, people: list[Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engaged_subscribers, "_AT_ONCE", 2)
    message = await clicked_and_opened(services, people)
    other = await tracked(services)
    await count(services, [hit(other, people[4])])
    for rule, expected in (
        (f"clicked {message.ref}", [1, 2, 3]),
        (f"not clicked {message.ref}", [0, 4, 5, 6, 7]),
        (f"opened {message.ref}", [0, 3]),
        (f"opened {message.ref} and not clicked {message.ref}", [0]),
        ('clicked "EXAMPLE.com/two"', [2, 3]),
        ('clicked "example.com"', [1, 2, 3, 4]),
        ('clicked "example.org"', []),
        ("clicked within 90 days", [1, 2, 3, 4]),
        ("opened within 1 day", [0, 3]),
        ("inactive for 1 day", []),
    ):
        assert await selected(services, rule) == expected, rule
    monkeypatch.setattr(engaged_subscribers, "MOST_MESSAGES", 1)
    assert await selected(services, 'clicked "example.com"') == [4], "the last message only"
    await agree(services, people[1:2], yes=False)
    assert await selected(services, f"clicked {message.ref}") == [2, 3]
    assert await selected(services, "clicked within 90 days") == [2, 3, 4]
    explained = await services.segments.explain_rule(
        NAME, f"clicked {message.ref}", people[2].address
    )
    assert explained.reason.holds
    assert explained.reason.text == f"clicked {message.ref}"


async def test_someone_is_inactive_who_agreed_before_and_did_nothing_since(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services)

    async def change(number: int, **moments: object) -> None:
        rows = services.subscriptions.rows
        found = await services.subscriptions.get(NAME, people[number].address)
        await rows.save(found, msgspec.structs.replace(found, **moments), found.etag)

    await change(0, tracking_since=days(-200))
    await change(1, tracking_since=days(-200), opened_at=days(-181), clicked_at=days(-190))
    await change(2, tracking_since=days(-200), opened_at=days(-179))
    await change(3, tracking_since=None)  # an earlier version did not note when they agreed
    await change(6, tracking_since=days(-200))  # does not agree
    assert await selected(services, "inactive for 180 days") == [0, 1]
    assert await selected(services, "not inactive for 180 days") == [2, 3, 4, 5, 6, 7]
    await count(services, [hit(message, people[1])])
    assert await selected(services, "inactive for 180 days") == [0]


async def test_the_days_of_the_last_open_and_click_only_move_forwards(
    services: Services, people: list[Subscriber]
) -> None:
    message, ann = await tracked(services), people[0]

    async def known() -> tuple[Subscriber, str]:
        found = await services.subscriptions.get(NAME, ann.address)
        return found, found.etag

    await count(services, [hit(message, ann), hit(message, ann, OPENED)], times=2)
    first, etag = await known()
    assert first.opened_at is not None
    assert first.clicked_at is not None
    await count(services, [hit(message, ann), hit(message, ann, OPENED)])
    assert (await known())[1] == etag, "one write per day"
    yesterday = first.clicked_at - timedelta(days=1)
    await services.subscriptions.rows.note_engagement(first, yesterday, yesterday)
    assert (await known())[1] == etag
    tomorrow = first.clicked_at + timedelta(days=1)
    await services.subscriptions.rows.note_engagement(first, None, tomorrow)
    assert (await known())[0].clicked_at == tomorrow
    await services.subscriptions.edit(NAME, ann.address, note="a change keeps it")
    assert (await known())[0].clicked_at == tomorrow
    await agree(services, [ann], yes=False)
    left = (await known())[0]
    assert (left.tracking_since, left.opened_at, left.clicked_at) == (None, None, None)


@ON_ONE_ENGINE
async def test_a_message_that_is_not_personal_selects_nobody_and_an_unknown_one_is_refused(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services, Track.AGGREGATE)
    await count(services, [hit(message, people[0])])
    assert await selected(services, f'clicked {message.ref} or clicked "example"') == []
    with pytest.raises(RuleError, match="there is no message"):
        await services.segments.create(NAME, "clickers", f"opened {new_ref()}")


@ON_ONE_ENGINE
async def test_an_audience_can_be_those_who_did_not_click(
    services: Services, people: list[Subscriber]
) -> None:
    message = await clicked_and_opened(services, people)
    await services.segments.create(NAME, "clickers", f"clicked {message.ref}")
    found = await services.segments.find(NAME, "clickers")
    assert [each.address for each in found.subscribers] == [address_of(n) for n in (1, 2, 3)]
    assert ListName(found.subscribers[0].list_name) == NAME
