"""A/B tests in small: prepared, sent, answered and decided."""

from __future__ import annotations

import msgspec

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.ab_tests import AbState, AbTest
from postroom.scheduler.completion import Completion
from postroom.services.audience.results.engagement import Engagement
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import fill, make_list, now
from tests.integration.usecases.pages import fan_out_whole, settle

WHO = "ann@example.com"
HTML = "<p>Hello {{ email }}</p>"


async def prepared(
    services: Services, store: Store, people: int = 80, variants: int = 2, track: str = "off"
) -> AbTest:
    """Return a test that is a draft, with its own list."""
    name = await make_list(services)
    await fill(store, name, people)
    change = ContentChange(list_name=name, subject="Subject A", body=HTML, track=track)
    first = await services.composing.create(change, WHO)
    await services.ab_tests.create(first.ref, WHO)
    for letter in "BCD"[: variants - 1]:
        await services.ab_tests.add(first.ref, ContentChange(subject=f"Subject {letter}"), WHO)
    return await services.ab_tests.get(first.ref)


async def deliver(store: Store, ref: str) -> Message:
    """Send a message to all its recipients."""
    services = Services(store)
    message = await fan_out_whole(store, ref)
    for page in range(message.queued_pages):
        await settle(services, message, page, [EmailOutcome.ACCEPTED] * 100)
    assert await Completion(services).check(message)
    return await services.messages.get(ref)


async def recipients(services: Services, message: Message) -> set[str]:
    return {each.address async for each in services.outcomes.emails(message)}


async def running(services: Services, store: Store, *, share: int = 50, **how: object) -> AbTest:
    """Return a test whose variants are sent."""
    test = await prepared(services, store, **how)  # type: ignore[arg-type]
    await services.ab_tests.start(test.key, share=share, at=now())
    test = await services.ab_tests.advance(test.key)
    assert test.state is AbState.RUNNING, test
    for ref in test.variants:
        await deliver(store, ref)
    return test


async def end_wait(services: Services, key: MessageRef) -> None:
    """What time does: the waiting time is over."""
    await change_wait(services, key, 0)


async def change_wait(services: Services, key: MessageRef, minutes: int) -> None:
    test = await services.ab_tests.get(key)
    await services.ab_tests.rows.save(msgspec.structs.replace(test, wait_minutes=minutes))


async def click(services: Services, ref: MessageRef, times: int) -> None:
    await services.engagement.add(ref, "a batch", Engagement(clicked=times))


async def unsubscribe(services: Services, ref: MessageRef, people: int) -> None:
    """Let some recipients use the link of their email."""
    message = await services.messages.get(ref)
    for address in sorted(await recipients(services, message))[:people]:
        subscriber = await services.subscriptions.get(message.list_name, address)
        await services.message_unsubscribes.unsubscribe(message.list_name, subscriber.guid, ref)
