"""Retry only the failed: another message, for those whom one did not reach."""

from datetime import UTC, datetime

import pytest

from postroom.domain.errors import NoSuch, NotNow
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.scheduler.completion import Completion
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import (
    check_pages,
    check_sum,
    fan_out_whole,
    settle,
    use_small_pages,
)

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=4, pages=2)


async def half_refused(services: Services, store: Store) -> tuple[Message, list[str]]:
    """A message that is done, to 12 subscribers, every other one of whom was refused."""
    name = await make_list(services)
    made = await fill(store, name, 12)
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    for page in range(message.queued_pages):
        await settle(services, message, page, [REFUSED, ACCEPTED, REFUSED, ACCEPTED])
    assert await Completion(services).check(message)
    return await services.messages.get(message.ref), [each.address for each in made[::2]]


async def test_only_the_refused_who_still_want_it_get_it(services: Services, store: Store) -> None:
    message, refused = await half_refused(services, store)
    await services.subscriptions.remove(message.list_name, refused[0])
    await services.subscriptions.edit(message.list_name, refused[1], blocked="bounced")
    await services.subscriptions.edit(message.list_name, refused[2], verified=False)
    await services.subscriptions.add(message.list_name, "new@example.com", verified=True)
    made = await services.retries.retry_refused(message.ref)
    assert (made.retry_of, made.subject, made.status) == (
        message.ref,
        message.subject,
        MessageStatus.PENDING,
    )
    assert await services.messages.bodies(made) == await services.messages.bodies(message)
    queued = await fan_out_whole(store, made.ref)
    assert await check_pages(store, queued) == refused[3:]
    assert (await check_sum(services, queued)).planned == 3
    assert (await services.outcomes.counts(message)).refused == 6, "its own record stays"


async def test_repeated_requests_create_one_retry(services: Services, store: Store) -> None:
    message, _ = await half_refused(services, store)
    assert await services.retries.retry_of(message) is None
    first = await services.retries.retry_refused(message.ref)
    again = await services.retries.retry_refused(message.ref)
    assert first.ref == again.ref == await services.retries.retry_of(message)
    # Deleted before it was sent, it can be asked for again.
    await services.messages.delete(first.ref)
    assert (await services.retries.retry_refused(message.ref)).ref == first.ref


async def test_it_is_refused_before_the_end_and_without_a_failure(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 2)
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    with pytest.raises(NotNow, match="wait until it is finished"):
        await services.retries.retry_refused(message.ref)
    await settle(services, message, 0, [ACCEPTED, ACCEPTED])
    assert await Completion(services).check(message)
    with pytest.raises(NotNow, match="has no refused emails"):
        await services.retries.retry_refused(message.ref)
    with pytest.raises(NoSuch):
        await services.retries.retry_refused("123456789012345678")


async def test_interrupted_after_any_write_it_creates_one_message(
    services: Services, store: Store
) -> None:
    message, _ = await half_refused(services, store)

    async def attempt(fate: Fate, writes: int) -> None:
        await dies(Services(Fated(store, fate)).retries.retry_refused(message.ref))
        made = await services.retries.retry_refused(message.ref)
        assert [each.ref for each in (await services.messages.slice()).messages] == [made.ref]
        await services.messages.delete(made.ref)

    await cut_after_each_write(attempt)


async def test_its_fan_out_interrupted_after_any_write_leaves_out_nobody(
    services: Services, store: Store, engine: str
) -> None:
    message, refused = await half_refused(services, store)
    bodies = await services.messages.bodies(message)

    async def attempt(fate: Fate, writes: int) -> None:
        made = await services.messages.create(
            message.list_name, "Again", bodies, datetime.now(UTC), retry_of=message.ref
        )
        await dies(fan_out_whole(Fated(store, fate), made.ref))
        queued = await fan_out_whole(store, made.ref)
        assert await check_pages(store, queued) == refused

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)


async def test_emails_are_found_from_the_beginning_of_an_address_on(
    services: Services, store: Store
) -> None:
    message, refused = await half_refused(services, store)
    everybody = [record.address async for record in services.outcomes.emails(message)]
    for start in (0, 3, 4, 11):
        prefix = everybody[start].partition("@")[0]
        part = await services.outcomes.slice(message, prefix=prefix)
        assert [each.address for each in part.emails] == [everybody[start]]
    part = await services.outcomes.slice(message, prefix="user", limit=5)
    rest = await services.outcomes.slice(message, prefix="user", after=part.next)
    assert [each.address for each in part.emails + rest.emails] == everybody
    assert (await services.outcomes.slice(message, prefix="zoe")).emails == []
    found = await services.outcomes.slice(message, prefix="user", outcome=REFUSED)
    assert [each.address for each in found.emails] == refused


async def test_a_message_that_is_done_has_its_sum_with_it(services: Services, store: Store) -> None:
    message, _ = await half_refused(services, store)
    assert message.counts is not None
    assert (message.counts.planned, message.counts.refused, message.counts.accepted) == (12, 6, 6)
    assert await check_sum(services, message) == message.counts
