"""What the API rests on, on each engine: keys, repeated requests, pages of emails."""

from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.errors import Invalid, NoSuch, NotNow
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.refs import new_ref
from postroom.services.accounts.api_keys import Scope
from postroom.services.idempotency import KEPT, Answered, Begun
from postroom.storage import InvalidValue, Store
from postroom.wiring import Services
from tests.integration.usecases.making import BODIES, fill, make_list, now, open_refs, schedule
from tests.integration.usecases.pages import fan_out_whole, settle, use_small_pages


async def test_a_key_is_known_by_its_whole_text_until_it_is_revoked(
    services: Services, store: Store
) -> None:
    made = await services.keys.create("the shop", ["subscribe", "lists"])
    found = await services.keys.find(made.secret)
    assert found is not None
    assert (found.name, found.scopes) == (
        "the shop",
        frozenset({Scope.SUBSCRIBE, Scope.LISTS}),
    )
    for wrong in (made.secret[:-1], made.secret + "x", made.key.id, "", "pr_"):
        assert await services.keys.find(wrong) is None
    await services.keys.settle()
    [shown] = await Services(store).keys.all()
    assert shown.last_used_at is not None
    await services.keys.revoke(made.key.id)
    assert await services.keys.find(made.secret) is None
    with pytest.raises(NoSuch):
        await services.keys.revoke(made.key.id)
    with pytest.raises(Invalid, match="not 'all'"):
        await services.keys.create("", ["all"])


async def test_a_repeated_request_gets_its_first_response(services: Services) -> None:
    idempotency = services.idempotency
    begun = await idempotency.begin("key", "one", "body")
    assert isinstance(begun, Begun)
    with pytest.raises(NotNow, match="is in progress"):
        await idempotency.begin("key", "one", "body")
    await idempotency.finish(begun, 201, '{"ref": "1"}')
    assert await idempotency.begin("key", "one", "body") == Answered(201, '{"ref": "1"}')
    with pytest.raises(Invalid, match="another request"):
        await idempotency.begin("key", "one", "another body")
    assert isinstance(await idempotency.begin("another key", "one", "another body"), Begun)


async def test_a_request_that_was_refused_leaves_no_record(services: Services) -> None:
    begun = await services.idempotency.begin("key", "one", "body")
    assert isinstance(begun, Begun)
    await services.idempotency.forget(begun)
    assert isinstance(await services.idempotency.begin("key", "one", "another"), Begun)


async def test_a_request_of_a_dead_process_is_taken_over_to_the_same_end(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await services.idempotency.begin("key", "one", "body")
    monkeypatch.setattr("postroom.services.idempotency.ABANDONED", timedelta(seconds=-1))
    second = await services.idempotency.begin("key", "one", "body")
    assert isinstance(first, Begun)
    assert isinstance(second, Begun)
    assert (second.ref, second.at) == (first.ref, first.at)
    await services.idempotency.finish(first, 500, "late")  # it lives after all, and is not heard
    await services.idempotency.finish(second, 201, "done")
    assert await services.idempotency.begin("key", "one", "body") == Answered(201, "done")


async def test_a_record_that_is_too_old_counts_no_more(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await services.idempotency.begin("key", "one", "body")
    assert isinstance(begun, Begun)
    await services.idempotency.finish(begun, 201, "done")
    await services.idempotency.sweep(datetime.now(UTC) - KEPT)
    assert isinstance(await services.idempotency.begin("key", "one", "body"), Answered)
    monkeypatch.setattr("postroom.services.idempotency.KEPT", timedelta(seconds=-1))
    other = await services.idempotency.begin("key", "one", "another body")
    assert isinstance(other, Begun)
    assert other.ref != begun.ref


async def test_a_message_with_a_reserved_reference_is_created_once(services: Services) -> None:
    name = await make_list(services)
    ref, at = new_ref(), now()
    made = await services.messages.create(name, "News", BODIES, at, ref=ref)
    again = await services.messages.create(name, "News", BODIES, at, ref=ref)
    assert (made.ref, again) == (ref, made)
    assert await open_refs(services) == [ref]


async def test_emails_are_paged_and_found_by_their_outcome(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=3, pages=2)
    made = [each.address for each in await fill(store, await make_list(services), 8)]
    message = await fan_out_whole(store, (await schedule(services)).ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 3)
    await settle(services, message, 1, [EmailOutcome.ACCEPTED, EmailOutcome.REFUSED])
    found: list[str] = []
    after: str | None = None
    for _ in range(10):
        part = await services.outcomes.slice(message, limit=2, after=after)
        found += [each.address for each in part.emails]
        if (after := part.next) is None:
            break
    assert found == made
    refused = await services.outcomes.slice(message, outcome=EmailOutcome.REFUSED)
    assert [each.address for each in refused.emails] == [made[4]]
    monkeypatch.setattr("postroom.services.messages.sending.outcomes._MOST_PAGES", 1)
    first = await services.outcomes.slice(message, outcome=EmailOutcome.REFUSED)
    assert (first.emails, first.next is None) == ([], False)
    second = await services.outcomes.slice(message, outcome=EmailOutcome.REFUSED, after=first.next)
    assert [each.address for each in second.emails] == [made[4]]
    for bad in ("nonsense", "WyJhIl0", "WyJhIiwiYiJd"):
        with pytest.raises(InvalidValue):
            await services.outcomes.slice(message, after=bad)
