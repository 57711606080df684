"""Subscribers are found by state and by the beginning of their address, a bit at a time."""

import io

from postroom.services.audience.bulk_changes import BulkAction, change_many
from postroom.services.audience.subscriber_search import SubscriberState
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import fill, make_list


async def test_each_look_continues_where_the_last_one_ended(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 25)]
    await change_many(services.subscriptions, name, made[20:22], BulkAction.BLOCK)
    for state, expected in (
        (None, made),
        (SubscriberState.VERIFIED, made),
        (SubscriberState.UNVERIFIED, []),
        (SubscriberState.BLOCKED, made[20:22]),
    ):
        for seconds in (60.0, 0.0):
            found, after = [], ""
            for _ in range(30):
                look = await services.search.find(
                    name, state=state, limit=10, after=after, seconds=seconds
                )
                found += [each.address for each in look.subscribers]
                if look.next is None:
                    break
                after = look.next
            assert found == expected, (state, seconds)


async def test_the_beginning_of_an_address_is_enough(services: Services, store: Store) -> None:
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 25)]
    look = await services.search.find(name, prefix=made[10][:9])
    assert [each.address for each in look.subscribers] == made[10:20]
    look = await services.search.find(name, prefix=made[10][:9], after=made[18])
    assert [each.address for each in look.subscribers] == made[19:20]
    assert (await services.search.find(name, prefix="zoe")).subscribers == []


async def test_any_part_of_an_address_is_found_in_any_case(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 2100)]
    await services.subscriptions.add(name, "Ann.Lee@Example.org")
    for part, expected in (("R00209", made[2090:2100]), ("LEE@ex", ["Ann.Lee@example.org"])):
        found, after, looks = [], "", 0
        for _ in range(10):
            looks += 1
            look = await services.search.find(
                name, contains=part, limit=4, after=after, seconds=0.0
            )
            found += [each.address for each in look.subscribers]
            if look.next is None:
                break
            after = look.next
        assert looks >= 3, "a thousand at a time"
        assert found == expected
    unverified = await services.search.find(
        name, contains="e", state=SubscriberState.UNVERIFIED, seconds=60
    )
    assert [each.address for each in unverified.subscribers] == ["Ann.Lee@example.org"]


async def test_what_is_done_for_many_is_done_for_each_that_is_there(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 5, verified=False)]
    asked = [*made[:2], "nobody@example.com", "no address"]
    left = await services.search.find(name)
    for action in BulkAction:
        report = await change_many(services.subscriptions, name, asked, action)
        assert report.done == 2, action
        assert len(report.problems) == 2
        left = await services.search.find(name)
        states = {each.address: each for each in left.subscribers}
        if action is BulkAction.BLOCK:
            assert [bool(states[each].blocked) for each in made] == [True, True, *[False] * 3]
        elif action is BulkAction.UNBLOCK:
            assert not any(each.blocked for each in left.subscribers)
    assert [each.address for each in left.subscribers] == made[2:], "the last one removes"


async def test_sizes_are_exact_for_small_lists_and_counted_for_large_ones(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 7)
    size = (await services.sizes.of([name]))[name]
    assert (size.subscribers, size.verified, size.counted_at) == (7, 7, None)
    large = await make_list(services, "large")
    await fill(store, large, 501)
    size = (await services.sizes.of([name, large]))[large]
    assert (size.subscribers, size.verified, size.recipients) == (501, 501, 501)
    assert size.counted_at is not None, "counted when it was asked for"


async def test_the_number_of_recipients_follows_imports_and_sign_ups_at_once(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    many = "".join(f"user{number}@example.com,true\n" for number in range(600))
    await services.imports.import_csv(name, io.BytesIO(f"email,verified\n{many}".encode()))
    assert (await services.estimates.of(name, None)).recipients == 600
    more = (
        b"email,status\nUser1@example.com,bounced\nuser2@example.com,unsubscribed\nx@y.org,active\n"
    )
    await services.imports.import_csv(name, io.BytesIO(more))
    assert (await services.estimates.of(name, None)).recipients == 599
    await services.subscriptions.subscribe(name, "new@example.com")
    new = await services.subscriptions.get(name, "new@example.com")
    await services.subscriptions.confirm(name, new.guid)
    assert (await services.estimates.of(name, None)).recipients == 600
    await services.subscriptions.edit(name, "user3@example.com", blocked="complained")
    await services.subscriptions.edit(name, "user4@example.com", verified=False)
    await services.subscriptions.remove(name, "user5@example.com")
    size = (await services.sizes.of([name]))[name]
    counted = await services.growth.count_now(name)
    assert (size.subscribers, size.verified, size.recipients) == (600, 598, 597)
    assert (counted.subscribers, counted.verified, counted.recipients) == (600, 598, 597)
    waiting = await services.subscriptions.get(name, "user7@example.com")
    before = (await services.estimates.of(name, None)).recipients
    waiting = await services.preferences.pause(waiting)
    assert (await services.estimates.of(name, None)).recipients == before - 1
    await services.preferences.resume(waiting)
    assert (await services.estimates.of(name, None)).recipients == before
