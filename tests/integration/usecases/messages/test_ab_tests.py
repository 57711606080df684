"""A/B tests: started, decided by numbers or people, cancelled, and interrupted at any write."""

from datetime import timedelta

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.waves.ab_tests import AbState, Criterion
from postroom.scheduler.retention import Retention
from postroom.services.audience.targeting.follow_ups import FollowUp
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.sending.holds import WaitingReasons
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import days, now, open_refs
from tests.integration.usecases.messages.ab_testing import (
    WHO,
    change_wait,
    click,
    deliver,
    end_wait,
    prepared,
    recipients,
    running,
    unsubscribe,
)
from tests.integration.usecases.pages import fan_out_whole, settle, settle_waiting


async def test_variants_are_separate_drafts(services: Services, store: Store) -> None:
    test = await prepared(services, store, variants=4)
    found = [await services.messages.get(ref) for ref in test.variants]
    assert [each.subject for each in found] == [f"Subject {letter}" for letter in "ABCD"]
    assert {each.status for each in found} == {MessageStatus.DRAFT}
    with pytest.raises(NotNow, match="at most 4 variants"):
        await services.ab_tests.add(test.key, ContentChange(subject="E"), WHO)
    for ref in test.variants:
        with pytest.raises(Exists):
            await services.ab_tests.create(ref, WHO)
        with pytest.raises(NotNow, match="is a variant of an A/B test"):
            await services.composing.schedule(ref)
    await services.messages.delete(test.variants[1])
    await services.ab_tests.add(test.key, ContentChange(from_name="Eve"), WHO)
    assert len((await services.ab_tests.get(test.key)).variants) == 4


async def test_a_test_that_cannot_be_sent_is_not_started(services: Services, store: Store) -> None:
    test = await prepared(services, store)
    second = test.variants[1]
    composing = services.composing
    for change, words in (
        (ContentChange(body="{{ nothing }}"), "variant B cannot be sent: .*nothing"),
        (ContentChange(body="x", track="aggregate"), "variant B has different tracking"),
        (ContentChange(track="off", exclude_segments=["some"]), "variant B goes to a different"),
        (ContentChange(exclude_segments=[], local_time=True), "variant B is sent by local time"),
    ):
        await composing.change(second, change, WHO)
        with pytest.raises(Invalid, match=words):
            await services.ab_tests.start(test.key)
    await services.messages.delete(second)
    with pytest.raises(NotNow, match="at least two variants"):
        await services.ab_tests.start(test.key)
    for share, wait in ((1, 60), (20, 0)):
        with pytest.raises(Invalid):
            await services.ab_tests.start(test.key, share=share, wait_minutes=wait)
    cancelled = await services.ab_tests.cancel(test.key)
    assert cancelled.state is AbState.CANCELLED
    with pytest.raises(NoSuch):
        await services.ab_tests.get(test.key)
    assert (await composing.schedule(test.key)).part is None, "an ordinary draft again"
    with pytest.raises(NotNow, match="begins with a draft"):
        await services.ab_tests.create(test.key, WHO)


async def test_clicks_decide_where_they_are_measured(services: Services, store: Store) -> None:
    test = await running(services, store, people=200, track="aggregate")
    await click(services, test.variants[1], 25)
    await click(services, test.variants[0], 2)  # however unequal the drawn shares are
    await unsubscribe(services, test.variants[1], 2)
    early = await services.ab_tests.advance(test.key)
    assert early.state is AbState.RUNNING, "the waiting time is not over"
    view = await services.ab_tests.view(early)
    assert view.best is not None
    assert (view.best.letter, view.decides_at is not None) == ("B", True)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    assert (done.state, done.winner, done.criterion) == (
        AbState.DONE, test.variants[1], Criterion.CLICKS,
    )  # fmt: skip
    assert done.confidence > 0.99
    rest = await services.messages.get(done.rest)
    assert (rest.subject, rest.published) == ("Subject B", False)
    assert await services.ab_tests.advance(test.key) == done, "it ends once"
    assert await services.ab_tests.rows.open_ones() == []
    with pytest.raises(NotNow, match="the test instead"):
        await services.composing.unschedule(rest.ref)


async def test_without_tracking_the_fewest_unsubscribes_decide(
    services: Services, store: Store
) -> None:
    test = await running(services, store, people=200)
    await unsubscribe(services, test.variants[0], 20)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    assert (done.winner, done.criterion) == (test.variants[1], Criterion.UNSUBSCRIBES)
    rest = await deliver(store, done.rest)
    assert rest.subject == "Subject B"
    events = (await services.events.slice()).events
    assert any("variant B won" in each.text for each in events)


async def test_a_person_may_choose_before(services: Services, store: Store) -> None:
    test = await prepared(services, store)
    with pytest.raises(NotNow, match="is draft"):
        await services.ab_tests.choose(test.key, test.key, WHO)
    await services.ab_tests.start(test.key, share=50)
    await services.ab_tests.advance(test.key)
    with pytest.raises(NotNow, match="not being sent yet"):
        await services.ab_tests.choose(test.key, test.key, WHO)
    for ref in test.variants:
        await deliver(store, ref)
    with pytest.raises(Invalid, match="not a variant"):
        await services.ab_tests.choose(test.key, "123456789012345678", WHO)
    await services.ab_tests.choose(test.key, test.variants[1], WHO)
    done = await services.ab_tests.advance(test.key)
    assert (done.state, done.winner, done.chosen_by) == (AbState.DONE, test.variants[1], WHO)


async def test_it_waits_for_a_paused_variant_and_continues_without_a_cancelled_one(
    services: Services, store: Store
) -> None:
    test = await prepared(services, store, variants=3)
    await services.ab_tests.start(test.key, share=60)
    await services.ab_tests.advance(test.key)
    first, second, third = test.variants
    await deliver(store, first)
    await fan_out_whole(store, second)
    await services.message_states.pause(second)
    await services.message_states.cancel(third)  # before anybody got it
    await end_wait(services, test.key)
    assert (await services.ab_tests.advance(test.key)).state is AbState.RUNNING
    await services.message_states.resume(second)
    assert (await services.ab_tests.advance(test.key)).state is AbState.RUNNING, "it is being sent"
    await change_wait(services, test.key, 60)
    sent = await deliver(store, second)
    view = await services.ab_tests.view(await services.ab_tests.advance(test.key))
    assert sent.completed_at is not None
    assert view.decides_at == sent.completed_at + timedelta(hours=1), "the wait begins again"
    await end_wait(services, test.key)
    planned = await recipients(services, await services.messages.get(second))
    done = await services.ab_tests.advance(test.key)
    assert (done.state, done.source) == (AbState.DONE, first)
    rest = await recipients(services, await fan_out_whole(store, done.rest))
    assert not rest & planned, "they still get the second variant"
    got_first = await recipients(services, await services.messages.get(first))
    assert len(rest | planned | got_first) == 80, "those of the third get the rest"


async def test_the_wait_begins_when_all_variants_were_sent(
    services: Services, store: Store
) -> None:
    """While the mail server is slow or unavailable, nobody can click."""
    test = await prepared(services, store)
    await services.ab_tests.start(test.key, share=50)
    await services.ab_tests.advance(test.key)
    first, second = test.variants
    await deliver(store, first)
    await end_wait(services, test.key)
    message = await fan_out_whole(store, second)
    planned = len(await recipients(services, message))
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * (planned - 2))
    waits = await services.ab_tests.advance(test.key)
    assert (waits.state, waits.sent_at) == (AbState.RUNNING, None)

    await change_wait(services, test.key, 60)
    await settle_waiting(services, message, WaitingReasons(2, now(), "451 later"))
    tried = await services.ab_tests.advance(test.key)
    assert tried.sent_at is not None
    assert (await services.ab_tests.view(tried)).decides_at == tried.sent_at + timedelta(hours=1)
    await services.message_states.pause(second)
    assert (await services.ab_tests.view(tried)).decides_at is None
    resumed = await services.message_states.resume(second)
    again = await services.ab_tests.advance(test.key)
    assert again.sent_at is not None
    assert resumed.resumed_at is not None
    assert again.sent_at >= resumed.resumed_at > tried.sent_at
    assert await services.ab_tests.advance(test.key) == again, "it is noted once"


async def test_cancelling_stops_what_has_not_begun(services: Services, store: Store) -> None:
    test = await prepared(services, store)
    await services.ab_tests.start(test.key, at=days(1))
    await services.ab_tests.advance(test.key)
    assert await open_refs(services) == sorted(test.variants)
    with pytest.raises(NotNow, match="cancel the test instead"):
        await services.composing.unschedule(test.key)
    await services.ab_tests.cancel(test.key)
    assert (await services.ab_tests.advance(test.key)).state is AbState.CANCELLED
    for ref in test.variants:
        assert (await services.messages.get(ref)).status is MessageStatus.CANCELLED
    with pytest.raises(NotNow, match="is cancelled"):
        await services.ab_tests.cancel(test.key)


async def test_cancelling_keeps_the_rest_from_being_sent(services: Services, store: Store) -> None:
    test = await running(services, store)
    await services.ab_tests.cancel(test.key)
    done = await services.ab_tests.advance(test.key)
    assert done.state is AbState.CANCELLED
    assert {(await services.messages.get(each)).status for each in test.variants} == {
        MessageStatus.COMPLETED
    }
    with pytest.raises(NoSuch):
        await services.messages.get(done.rest)


async def test_a_message_that_a_suspended_process_adds_after_the_end_is_not_sent(
    services: Services, store: Store
) -> None:
    test = await running(services, store)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    found = await services.ab_tests.get(test.key)
    await services.ab_tests.rows.save(msgspec.structs.replace(found, state=AbState.CANCELLED))
    rest = await fan_out_whole(store, done.rest)
    assert (rest.status, rest.queued_pages) == (MessageStatus.PAUSED, 0)
    assert rest.reason == "its A/B test was cancelled"


async def test_someone_who_comes_back_between_two_variants_gets_one(
    services: Services, store: Store
) -> None:
    test = await prepared(services, store, people=30)
    await services.ab_tests.start(test.key, share=90)
    await services.ab_tests.advance(test.key)
    first = await recipients(services, await deliver(store, test.key))
    name = (await services.messages.get(test.key)).list_name
    for address in first:  # each gets another GUID
        await services.subscriptions.remove(name, address)
        await services.subscriptions.add(name, address, verified=True)
    second = await recipients(services, await deliver(store, test.variants[1]))
    assert first
    assert second
    assert not first & second


async def test_without_any_variant_left_it_ends(services: Services, store: Store) -> None:
    test = await prepared(services, store)
    await services.ab_tests.start(test.key, at=days(1))
    await services.ab_tests.advance(test.key)
    for ref in test.variants:
        await services.messages.delete(ref)
    assert (await services.ab_tests.advance(test.key)).state is AbState.CANCELLED


async def test_a_problem_is_shown_and_goes_away(services: Services, store: Store) -> None:
    test = await prepared(services, store)
    await services.ab_tests.start(test.key)
    await services.composing.change(test.variants[1], ContentChange(subject=""), WHO)
    for _ in range(2):
        stuck = await services.ab_tests.advance(test.key)
        assert (stuck.state, "subject" in stuck.problem) == (AbState.STARTING, True)
    await services.composing.change(test.variants[1], ContentChange(subject="Hi"), WHO)
    found = await services.ab_tests.advance(test.key)
    assert (found.state, found.problem) == (AbState.RUNNING, "")


async def test_new_subscribers_after_the_test_do_not_include_those_of_the_variants(
    services: Services, store: Store
) -> None:
    test = await running(services, store)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    rest = await deliver(store, done.rest)
    await services.subscriptions.add(rest.list_name, "late@example.com", verified=True)
    with pytest.raises(NotNow, match="message to the rest"):
        await services.follow_ups.create(test.key, FollowUp.NEW, "Again", WHO)
    draft = await services.follow_ups.create(rest.ref, FollowUp.NEW, "Again", WHO)
    await services.composing.schedule(draft.ref)
    queued = await fan_out_whole(store, draft.ref)
    assert await recipients(services, queued) == {"late@example.com"}


async def test_retention_removes_the_test_with_its_first_variant(
    services: Services, store: Store
) -> None:
    test = await running(services, store)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    await deliver(store, done.rest)
    kept = timedelta(seconds=-1)
    assert await Retention(services, archive=kept, events=None).remove_old() == 3
    for ref in (*test.variants, done.rest):
        with pytest.raises(NoSuch):
            await services.ab_tests.get(ref)


async def test_retention_keeps_variants_until_the_rest_knows_their_recipients(
    services: Services, store: Store
) -> None:
    test = await running(services, store)
    kept = timedelta(seconds=-1)
    assert await Retention(services, archive=kept, events=None).remove_old() == 0
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    sent = [await recipients(services, await services.messages.get(r)) for r in test.variants]
    rest = await recipients(services, await deliver(store, done.rest))
    assert rest
    assert not rest & set().union(*sent)


async def test_someone_with_a_new_address_does_not_get_the_rest_as_well(
    services: Services, store: Store
) -> None:
    test = await running(services, store)
    first = await services.messages.get(test.key)
    old = min(await recipients(services, first))
    subscriber = await services.subscriptions.get(first.list_name, old)
    new = Address("new@example.com")
    await services.subscriptions.rows.change_address(subscriber, new)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    rest = await recipients(services, await deliver(store, done.rest))
    assert rest
    assert new not in rest


async def test_erasing_a_former_address_waits_until_the_rest_is_planned(
    services: Services, store: Store
) -> None:
    """Erased before, the rest would go to the subscriber at the new address as well."""
    test = await running(services, store)
    first = await services.messages.get(test.key)
    old = min(await recipients(services, first))
    await services.subscriptions.change_address(first.list_name, old, "new@example.com")
    assert (await services.personal_data.erase(old)).waiting == [test.key]
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    assert done.state is AbState.DONE
    assert (await services.personal_data.erase(old)).waiting == [test.key]

    rest = await recipients(services, await deliver(store, done.rest))

    assert rest
    assert Address("new@example.com") not in rest
    assert (await services.personal_data.erase(old)).waiting == []
    sent = await services.messages.get(test.key)
    assert await services.outcomes.emails_to(sent, Address(old)) == []


async def test_each_step_can_be_interrupted_after_any_write(
    services: Services, store: Store, engine: str
) -> None:
    """Whatever the process was doing, the next one finishes it: two variants, one rest."""
    await services.lists.create("steps", "Steps", "news@contoso.example")
    for number in range(12):
        await services.subscriptions.add("steps", f"user{number}@example.com", verified=True)
    content = ContentChange(list_name="steps", subject="A", body="<p>Hi</p>", text="")

    async def attempt(fate: Fate, writes: int) -> None:
        first = await services.composing.create(content, WHO)
        test = await services.ab_tests.create(first.ref, WHO)
        second = await services.ab_tests.add(first.ref, ContentChange(subject="B"), WHO)
        await services.ab_tests.start(first.ref, share=50)

        async def everything(tests: Services) -> None:
            await tests.ab_tests.advance(first.ref)
            for ref in (first.ref, second.ref):
                if (await services.messages.get(ref)).status is not MessageStatus.COMPLETED:
                    await deliver(store, ref)
            found = await services.ab_tests.get(first.ref)
            if found.state is AbState.RUNNING:
                await end_wait(services, first.ref)
            await tests.ab_tests.advance(first.ref)

        await dies(everything(Services(Fated(store, fate))))
        await everything(services)
        done = await services.ab_tests.get(test.key)
        assert (done.state, done.variants) == (AbState.DONE, (first.ref, second.ref))
        assert await services.ab_tests.rows.open_ones() == []
        assert await open_refs(services) == [done.rest], "one message to the rest"
        rest = await deliver(store, done.rest)
        got = [
            await recipients(services, await services.messages.get(ref))
            for ref in (first.ref, second.ref, rest.ref)
        ]
        assert sum(map(len, got)) == len(set[str]().union(*got)) == 12

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)


async def test_cancelling_can_be_interrupted_after_any_write(
    services: Services, store: Store, engine: str
) -> None:
    await services.lists.create("steps", "Steps", "news@contoso.example")
    content = ContentChange(list_name="steps", subject="A", body="<p>Hi</p>", text="")

    async def attempt(fate: Fate, writes: int) -> None:
        first = await services.composing.create(content, WHO)
        await services.ab_tests.create(first.ref, WHO)
        second = await services.ab_tests.add(first.ref, ContentChange(subject="B"), WHO)
        await services.ab_tests.start(first.ref, at=days(1))
        await services.ab_tests.advance(first.ref)
        await services.ab_tests.cancel(first.ref)
        await dies(Services(Fated(store, fate)).ab_tests.advance(first.ref))
        assert (await services.ab_tests.advance(first.ref)).state is AbState.CANCELLED
        for ref in (first.ref, second.ref):
            assert (await services.messages.get(ref)).status is MessageStatus.CANCELLED

    await cut_after_each_write(attempt, stride=2 if engine == "azure" else 1)
