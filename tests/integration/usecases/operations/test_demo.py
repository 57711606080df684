"""The example data of `postroom up --demo`: history as Postroom would have written it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom import clock
from postroom.cli.operations.demo import fill_with_examples
from postroom.cli.operations.demo.memberships import invent, totals
from postroom.cli.operations.demo.plans import DAYS, GARDEN, NEWS, PLANS, SEGMENTS
from postroom.domain.errors import NotNow
from postroom.domain.messages.emails import EmailOutcome
from postroom.services.audience.growth.growth_history import GrowthPoint
from postroom.settings import load_settings
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, PowerCut
from tests.integration.usecases.pages import check_sum

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
SETTINGS = load_settings({}, Path("/nonexistent"), {})


async def test_the_demo_has_history_that_every_page_can_show(services: Services) -> None:
    assert await fill_with_examples(services, SETTINGS)
    assert not await fill_with_examples(services, SETTINGS), "the store is not empty any more"

    names = await services.lists.names()
    assert set(names) == {plan.name for plan in PLANS}
    size = await services.sizes.total(names)
    now = GrowthPoint(clock.now(), size.subscribers, size.verified)
    curve = await services.growth.curve(now)
    assert not curve.by_hour
    assert len(curve.points) >= DAYS
    assert curve.points[0].subscribers < 0.75 * size.subscribers
    for name in names:
        assert (await services.growth.curve(now, name)).points, name
    # What was derived agrees with what is counted.
    before = curve.points[-2]
    await services.growth.count_due()
    assert (await services.growth.curve(now)).points[-2] == before

    for segment, rule in SEGMENTS.items():
        found = await services.segments.preview(NEWS.name, rule)
        assert 0 < found.count < size.subscribers / 2, segment

    done = (await services.times.done(limit=100)).messages
    assert len(done) == sum(len(plan.mailings) for plan in PLANS)
    for message in (done[0], done[-1]):
        counts = await check_sum(services, message)
        assert counts == message.counts
        assert counts.pending == counts.in_doubt == counts.possible_duplicates == 0
        assert 0.98 < counts.accepted / counts.planned < 1
    [refused, *_] = [
        each
        async for each in services.outcomes.emails(done[0])
        if each.outcome is EmailOutcome.REFUSED
    ]
    assert refused.reply.startswith("55")
    assert len(await services.times.under_way(limit=10)) == 1
    assert len(await services.times.upcoming(limit=10)) == 1
    for message in await services.times.drafts(limit=10):
        await services.composing.checked(message)
    assert await services.unsubscribes.count_since(done[0].list_name, curve.points[0].at) > 100
    events = (await services.events.slice(limit=100)).events
    assert sum(" sent: " in each.text for each in events) == len(done)


async def test_those_who_bounced_or_complained_in_the_demo_are_suppressed_and_get_no_more(
    services: Services,
) -> None:
    await fill_with_examples(services, SETTINGS)
    suppressed = {each.address: each async for each in services.suppressions.all()}
    reasons = Counter(each.reason for each in suppressed.values())
    assert set(reasons) == {"hard bounce", "complaint"}
    blocked = [each async for each in services.subscriptions.rows.suppressed()]
    assert len(blocked) > 100
    done = (await services.times.done(limit=100)).messages
    for message in [each for each in done if each.list_name == NEWS.name]:
        async for email in services.outcomes.emails(message):
            known = suppressed.get(email.address)
            if known is not None and known.ref != message.ref and email.at is not None:
                its_list = (await services.messages.get(known.ref or message.ref)).list_name
                assert email.at < known.created_at or its_list != NEWS.name, email.address


async def test_a_demo_that_was_killed_is_filled_again(services: Services) -> None:
    with pytest.raises(PowerCut):
        await fill_with_examples(Services(Fated(services.store, Fate(40))), SETTINGS)
    assert await fill_with_examples(services, SETTINGS)
    done = (await services.times.done(limit=100)).messages
    assert await check_sum(services, done[0]) == done[0].counts


async def test_the_demo_never_writes_to_a_real_mail_server(services: Services) -> None:
    sending = load_settings({}, Path("/nonexistent"), {"transport": "smtp://mail.example.com"})
    with pytest.raises(NotNow, match="invented addresses"):
        await fill_with_examples(services, sending)
    assert await services.lists.names() == []


def test_the_same_seed_invents_the_same_people() -> None:
    sent = [NOON - timedelta(days=2, hours=3)]
    one, other = (invent(NEWS, sent, random.Random(7), NOON) for _ in range(2))
    assert one == other
    assert len({person.address for person in one}) == len(one)
    assert all(person.joined <= NOON for person in one)
    left = [person for person in one if person.left_at]
    assert left
    assert all(person.joined < (person.left_at or NOON) <= NOON for person in one)


def test_people_join_on_weekdays_after_campaigns_and_leave_after_messages() -> None:
    people = invent(NEWS, [NOON - timedelta(days=2)], random.Random(7), NOON)
    days = [(NOON - timedelta(days=ago)).date() for ago in range(DAYS, 0, -1)]
    joined = {day: sum(each.joined.date() == day for each in people) for day in days}
    campaign = (NOON - timedelta(days=NEWS.jump_days)).date()
    assert joined[campaign] > 4 * joined[campaign - timedelta(days=7)]
    weekend = [joined[day] for day in days if day.weekday() > 4]
    weekdays = [joined[day] for day in days if day.weekday() <= 4]
    assert sum(weekend) / len(weekend) < 0.7 * sum(weekdays) / len(weekdays)
    grown = totals(people, days)
    assert grown[days[-1]][0] == sum(
        each.is_on(datetime.combine(NOON.date(), datetime.min.time(), UTC)) for each in people
    )
    assert all(verified <= subscribers for subscribers, verified in grown.values())


def test_a_small_list_is_in_the_demo_as_well() -> None:
    people = invent(GARDEN, [], random.Random(3), NOON)
    assert 200 < sum(each.is_on(NOON) for each in people) < 400
