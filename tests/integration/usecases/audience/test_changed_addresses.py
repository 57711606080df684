"""Who has changed their address keeps their history, and is forgotten under every address."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.former_addresses import MOST_FORMER
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.errors import NotNow
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.services.resources.personal_data import describe_personal_data, describe_trace
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.audience.test_personal_data import names
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import check_pairs, make_list, rows_of, schedule
from tests.integration.usecases.pages import check_sum, fan_out_whole, settle

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED
OLD, NEW, OTHER = Address("Old@example.com"), Address("new@example.com"), "other@example.com"


async def sent(services: Services, store: Store, name: str = "contoso1") -> Message:
    """Send a message to a list, on one page; mail servers accept it."""
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    await settle(services, message, 0, [ACCEPTED] * 100)
    return message


async def moved(services: Services, store: Store, name: str = "contoso1") -> Message:
    """Send a message to somebody who then changes their address."""
    await make_list(services, name)
    await services.subscriptions.add(name, OLD, verified=True)
    await services.subscriptions.add(name, OTHER, verified=True)
    message = await sent(services, store, name)
    await services.subscriptions.change_address(name, OLD, NEW)
    return message


async def selected(services: Services, rule: str, name: str = "contoso1") -> list[str]:
    return [each async for each in services.segments.select(name, rule)]


async def found(services: Services, address: str) -> Subscriber:
    return await services.subscriptions.get("contoso1", address)


async def test_a_trace_has_the_emails_to_former_addresses(services: Services, store: Store) -> None:
    message = await moved(services, store)

    traced = await services.tracing.trace(NEW)

    assert [(m.ref, e.address, e.outcome) for m, e in traced.emails] == [
        (message.ref, OLD, ACCEPTED)
    ]
    described = describe_trace(traced)
    [subscription] = described.lists
    assert subscription.former_addresses == (address_key(OLD),)
    [change] = described.address_changes
    assert (change.before, change.after) == ("old@example.com", NEW)


async def test_a_trace_of_a_former_address_says_where_its_owner_went(
    services: Services, store: Store
) -> None:
    await moved(services, store)

    traced = await services.tracing.trace(OLD)

    assert [each.address for each in traced.moved] == [NEW]


async def test_the_new_owner_of_an_address_gets_no_history_of_the_former_one(
    services: Services, store: Store
) -> None:
    first = await moved(services, store)
    await services.subscriptions.add("contoso1", OLD, verified=True)
    second = await sent(services, store)

    of_mover = await services.tracing.emails_of_list(await found(services, NEW))
    of_owner = await services.tracing.emails_of_list(await found(services, OLD))

    assert [(m.ref, e.address) for m, e in of_mover] == [(second.ref, NEW), (first.ref, OLD)]
    assert [(m.ref, e.address) for m, e in of_owner] == [(second.ref, OLD)]
    own = describe_personal_data(await found(services, NEW), None, of_mover, {}, [])
    assert [each.email for each in own.messages] == [NEW, OLD]
    traced = await services.tracing.trace(NEW)
    assert [(m.ref, e.address) for m, e in traced.emails] == [(second.ref, NEW), (first.ref, OLD)]


async def test_someone_who_comes_back_still_sees_the_emails_from_before(
    services: Services, store: Store
) -> None:
    await make_list(services)
    before = await services.subscriptions.add("contoso1", NEW, verified=True)
    message = await sent(services, store)
    await services.subscriptions.unsubscribe("contoso1", before.guid)
    again = await services.subscriptions.add("contoso1", NEW, verified=True)

    assert [m.ref for m, _ in await services.tracing.emails_of_list(again)] == [message.ref]


async def test_a_rule_selects_who_received_a_message_at_a_former_address(
    services: Services, store: Store
) -> None:
    message = await moved(services, store)
    rule = f"received {message.ref}"

    assert await selected(services, rule) == [NEW, OTHER]
    assert (await services.segments.explain_rule("contoso1", rule, NEW)).reason.holds
    await services.segments.create("contoso1", "had-it", rule)
    in_segment = await services.segments.subscribers("contoso1", "had-it")
    assert [each.address async for each in in_segment] == [NEW, OTHER]
    page = await services.segments.find("contoso1", "had-it")
    assert [each.address for each in page.subscribers] == [NEW, OTHER]
    await services.segments.create("contoso1", "missed-it", f"not received {message.ref}")
    draft = await services.messages.get(message.ref)
    audience = msgspec.structs.replace(draft.audience, segment="missed-it")
    assert (await services.audiences.count("contoso1", audience)).will_receive == 0


async def test_an_email_to_the_former_owner_of_an_address_does_not_belong_to_the_new_owner(
    services: Services, store: Store
) -> None:
    """Somebody moves to an address that another subscriber had, and back."""
    await make_list(services)
    await services.subscriptions.add("contoso1", OLD, verified=True)
    message = await sent(services, store)
    await services.subscriptions.change_address("contoso1", OLD, NEW)
    await services.subscriptions.add("contoso1", OTHER, verified=True)
    await services.subscriptions.change_address("contoso1", OTHER, OLD)
    await services.subscriptions.change_address("contoso1", OLD, OTHER)

    assert await selected(services, f"received {message.ref}") == [NEW]
    assert (await services.tracing.trace(OTHER)).emails == []


async def test_an_address_that_someone_returns_to_is_not_a_former_one(
    services: Services, store: Store
) -> None:
    await moved(services, store)
    for address in ("new2@example.com", OLD):
        current = await services.subscriptions.slice("contoso1", prefix="new")
        await services.subscriptions.change_address(
            "contoso1", current.subscribers[0].address, address
        )

    former = (await found(services, OLD)).former_addresses
    assert former == ("new@example.com", "new2@example.com")
    assert len((await services.tracing.trace(OLD)).emails) == 1


async def test_no_former_address_is_forgotten_to_make_room(
    services: Services, store: Store
) -> None:
    await make_list(services)
    await services.subscriptions.add("contoso1", "a0@example.com")
    for number in range(MOST_FORMER):
        await services.subscriptions.change_address(
            "contoso1", f"a{number}@example.com", f"a{number + 1}@example.com"
        )
    last = f"a{MOST_FORMER}@example.com"

    with pytest.raises(NotNow):
        await services.subscriptions.change_address("contoso1", last, NEW)

    assert len((await found(services, last)).former_addresses) == MOST_FORMER
    back = await services.subscriptions.change_address("contoso1", last, "a0@example.com")
    assert len(back.former_addresses) == MOST_FORMER


async def test_unsubscribing_counts_for_a_message_that_went_to_a_former_address(
    services: Services, store: Store
) -> None:
    message = await moved(services, store)
    mover = await found(services, NEW)

    await services.message_unsubscribes.unsubscribe("contoso1", mover.guid, message.ref)

    assert await services.message_unsubscribes.count(message.ref) == 1


async def test_a_bounce_of_an_email_to_a_former_address_does_not_suppress_the_new_one(
    services: Services, store: Store
) -> None:
    message = await moved(services, store)
    mover = await found(services, NEW)
    token = services.identification.signer.of_message(message.ref).token(mover.guid)

    email = await services.identification.identify(token, [])
    assert email is not None
    assert email.address == OLD
    await services.suppressions.record(
        Bounce(
            BounceKind.GONE,
            "event1",
            BounceSource.SMTP,
            datetime.now(UTC),
            email.list_name,
            subscriber=email.guid,
            address=email.address,
            ref=email.ref,
            status="5.1.1",
            by_code=True,
        )
    )

    assert await services.suppressions.of_address(OLD) != []
    assert await services.suppressions.of_address(NEW) == []
    assert (await found(services, NEW)).may_receive


async def test_erasing_a_person_erases_their_former_addresses_and_nobody_elses_emails(
    services: Services, store: Store
) -> None:
    first = await moved(services, store)
    await services.subscriptions.add("contoso1", OLD, verified=True)
    second = await sent(services, store)

    done = await services.personal_data.erase(NEW)

    assert (done.lists, done.emails) == (["contoso1"], 2)
    assert NEW not in await names(store)
    assert await services.outcomes.email(first, OLD) is None
    assert await services.outcomes.email(second, OLD) is not None
    assert (await found(services, OLD)).verified
    for message in (first, second):
        await check_sum(services, message)
    assert await rows_of(store, "erasures", "erasure") == []


async def test_an_erasure_also_erases_a_former_address_that_nobody_else_has(
    services: Services, store: Store
) -> None:
    await moved(services, store)
    await services.suppressions.suppress(OLD, "hard bounce", source="test")

    await services.personal_data.erase(NEW)

    everything = await names(store)
    assert NEW not in everything
    assert "old@example.com" not in everything.lower()
    [suppression] = await services.suppressions.of_address(OLD)
    assert suppression.address == "", "only the digest still protects it"


async def test_subscribers_who_left_are_erased_under_former_addresses_too(
    services: Services, store: Store
) -> None:
    message = await moved(services, store)
    await services.subscriptions.unsubscribe("contoso1", (await found(services, NEW)).guid)
    assert [m.ref for m, _ in (await services.tracing.trace(NEW)).emails] == [message.ref]

    await services.personal_data.erase(NEW)

    assert "old@example.com" not in (await names(store)).lower()


async def test_erasing_a_former_address_removes_it_from_the_subscriber_who_changed_it(
    services: Services, store: Store
) -> None:
    await moved(services, store)
    await moved(services, store, "left")
    left = await services.subscriptions.get("left", NEW)
    await services.subscriptions.unsubscribe("left", left.guid)

    await services.personal_data.erase(OLD)

    assert "old@example.com" not in (await names(store)).lower()
    assert (await found(services, NEW)).former_addresses == ()
    await check_pairs(store, "contoso1")


async def test_moving_to_another_list_keeps_the_history(services: Services, store: Store) -> None:
    message = await moved(services, store)
    await make_list(services, "second")
    await services.subscriptions.move("contoso1", NEW, "second")

    assert [m.ref for m, _ in (await services.tracing.trace(NEW)).emails] == [message.ref]
    await services.personal_data.erase(NEW)
    assert "old@example.com" not in (await names(store)).lower()


@pytest.mark.parametrize("is_repeated", [False, True], ids=["by the scheduler", "by asking again"])
async def test_an_interrupted_erasure_of_a_mover_is_finished(
    services: Services, store: Store, engine: str, is_repeated: bool
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        old, new = f"old{writes}@example.com", f"new{writes}@example.com"
        await services.subscriptions.add(name, old, verified=True)
        message = await sent(services, store, name)
        await services.subscriptions.change_address(name, old, new)
        await dies(Services(Fated(store, fate)).personal_data.erase(new))

        if is_repeated:
            await services.personal_data.erase(new)
        await services.personal_data.finish()

        if writes:  # the first write is the request
            everything = await names(store)
            assert old not in everything
            assert new not in everything
        assert await rows_of(store, "erasures", "erasure") == []
        await check_sum(services, message)

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)


async def test_an_interrupted_change_leaves_the_old_address_or_the_new_one(
    services: Services, store: Store, engine: str
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        old, new = f"old{writes}@example.com", f"new{writes}@example.com"
        await services.subscriptions.add(name, old, verified=True)
        await sent(services, store, name)
        await dies(Services(Fated(store, fate)).subscriptions.change_address(name, old, new))
        now = [each async for each in services.subscriptions.all(name)]
        assert len(now) == 1
        assert now[0].former_addresses == (() if now[0].address == old else (old,))
        assert len((await services.tracing.trace(now[0].address)).emails) == 1

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)
