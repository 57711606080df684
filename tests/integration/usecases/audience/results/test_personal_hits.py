"""Personal tracking: only those are recorded who agree when a hit is counted, each of them once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import HIT_QUEUE, OPENED, Hit, HitBatch, HitCause
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.inbound.hit_worker import HitWorker
from postroom.services.audience.results import people as people_module
from postroom.services.audience.results.message_results import PeopleFigures
from postroom.services.audience.results.people import PeopleRows
from postroom.services.entities import CONSENT_CHANGED
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import KeyRange, Store
from postroom.wiring import Services, make_withdrawn_consents
from tests.contract.conftest import ON_ONE_ENGINE
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import fill, make_list, now
from tests.integration.usecases.pages import fan_out_whole, settle

NAME = ListName("contoso1")
_CHANGES = KeyRange.only(CONSENT_CHANGED)
TARGETS = ("https://www.example.com/one", "https://www.example.com/two")
HTML = "".join(f'<a href="{each}">Read</a>' for each in TARGETS)


async def agree(services: Services, people: Iterable[Subscriber], yes: bool = True) -> None:
    rows = services.subscriptions.rows
    for each in people:
        found = await services.subscriptions.get(NAME, each.address)
        await rows.save(found, msgspec.structs.replace(found, tracking=yes), found.etag)


async def tracked(services: Services, track: Track = Track.PERSONAL) -> Message:
    message = await services.messages.create(
        NAME, "News", NewBodies(HTML), now(), options=SendingOptions(track=track)
    )
    message = await fan_out_whole(services.store, message.ref)
    await services.link_tables.tracking(message, HTML, "https://lists.example.com")
    return message


def hit(message: Message, person: Subscriber | None, number: int = 1, **more: object) -> Hit:
    guid = None if person is None else person.guid
    at = time.time() - 100
    made = Hit(message.ref, number, at, secrets.token_hex(8), HitCause.PERSON, guid)
    return msgspec.structs.replace(made, **more)


async def queue(services: Services, hits: Sequence[Hit], times: int = 1) -> None:
    body = msgspec.json.encode(HitBatch(secrets.token_hex(8), tuple(hits))).decode()
    await services.store.queue(HIT_QUEUE).put_many([body] * times)


def worker_of(services: Services) -> HitWorker:
    messages, engagement = services.messages, services.engagement
    return HitWorker(services.store, messages, engagement, services.personal_hits)


async def work(worker: HitWorker) -> None:
    await worker._take()
    await worker._count_ripe()


async def count(services: Services, hits: Sequence[Hit], times: int = 1) -> None:
    await queue(services, hits, times)
    await work(worker_of(services))
    assert (await services.store.queue(HIT_QUEUE).info()).length == 0


async def figures(services: Services, message: Message) -> tuple[int, int]:
    found = (await services.results.of_message(message)).people
    assert found is not None
    return found.opened, found.clicked


async def addresses(services: Services, message: Message, limit: int = 100) -> list[str]:
    """Everybody whom the list of people shows, part by part."""
    found: list[str] = []
    after: str | None = None
    for _ in range(100):
        page = await services.personal_hits.people(message, limit=limit, after=after)
        assert len(page.people) <= limit
        found += [each.subscriber.address for each in page.people]
        if (after := page.next) is None:
            return sorted(found)
    raise AssertionError("endless")


@pytest.fixture
async def people(services: Services, store: Store) -> list[Subscriber]:
    """Forty subscribers, of whom the first thirty agree."""
    await make_list(services)
    made = await fill(store, NAME, 40)
    await agree(services, made[:30])
    await make_withdrawn_consents(services).finish()  # their hits are older than this test
    return made


async def test_everyone_counts_once_wherever_the_worker_dies_and_however_often_hits_arrive(
    services: Services, people: list[Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people_module, "_AT_ONCE", 2)
    message = await tracked(services)
    openers, clickers = people[::2], people[5:35:3]  # with some who do not agree

    async def attempt(fate: Fate, writes: int) -> None:
        hits = [hit(message, each, OPENED) for each in openers]
        hits += [hit(message, each, number) for each in clickers for number in (1, 2, 1)]
        await queue(services, hits, times=2)  # the web server got no reply, and put it again
        dying = Services(Fated(services.store, fate), services.keyring)
        await dies(work(worker_of(dying)))
        await fate.end_leases(services.store)
        await work(worker_of(services))
        agreed = people[:30]
        opened = [each for each in openers if each in agreed]
        clicked = [each for each in clickers if each in agreed]
        assert await figures(services, message) == (len(opened), len(clicked))
        results = await services.results.of_message(message)
        assert [each.people for each in results.links] == [len(clicked)] * 2
        assert results.opened == len(openers) * (writes // 7 + 1), "visits of everybody, too"
        shown = sorted({each.address for each in [*opened, *clicked]})
        assert await addresses(services, message, 3) == shown

    await cut_after_each_write(attempt, at_most=200, stride=7)
    await services.results.forget(message)
    assert await figures(services, message) == (0, 0)
    assert [each async for each in services.store.table("engagement").scan()] == []


async def test_withdrawn_consent_ends_recording_and_removes_what_was_recorded(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services)
    ann, bob = people[:2]
    await count(services, [hit(message, ann, OPENED), hit(message, bob, OPENED)])
    assert await addresses(services, message) == [ann.address, bob.address]
    await agree(services, [ann], yes=False)
    assert await addresses(services, message) == [bob.address]
    await count(services, [hit(message, ann), hit(message, people[39])])
    assert await figures(services, message) == (2, 0)
    assert (await services.results.of_message(message)).clicked == 2, "without individuals"
    withdrawn = make_withdrawn_consents(services)
    await withdrawn.finish()
    rows = PeopleRows(services.store)
    assert await rows.get(message.ref, ann.guid) is None
    assert await rows.get(message.ref, bob.guid) is not None
    assert await figures(services, message) == (2, 0), "the sums stay"

    # A new consent brings nothing back, also if it comes before the rows are removed.
    await agree(services, [ann])
    await agree(services, [bob], yes=False)
    await agree(services, [bob])
    await withdrawn.finish()
    assert await addresses(services, message) == []
    await count(services, [hit(message, ann)])
    await withdrawn.finish()
    assert await addresses(services, message) == [ann.address]
    assert (await services.store.table("listindex").query(_CHANGES)).entities == []


async def test_rows_are_removed_wherever_a_withdrawal_is_interrupted(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services)
    withdrawn, rows = make_withdrawn_consents(services), PeopleRows(services.store)

    async def attempt(fate: Fate, writes: int) -> None:
        who = people[writes]
        await count(services, [hit(message, who)])
        dying = Services(Fated(services.store, fate), services.keyring)
        await dies(agree(dying, [who], yes=False))
        await withdrawn.finish()
        has_row = await rows.get(message.ref, who.guid) is not None
        assert has_row == (await services.subscriptions.get(NAME, who.address)).tracking
        await agree(services, [who], yes=False)
        await dies(make_withdrawn_consents(dying).finish())
        await withdrawn.finish()
        assert await rows.get(message.ref, who.guid) is None

    await cut_after_each_write(attempt, at_most=20)


async def test_erasing_a_person_removes_their_hits_and_keeps_the_totals(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * len(people))
    ann, bob = people[:2]
    await count(services, [hit(message, each, n) for each in (ann, bob) for n in (OPENED, 2)])
    before = await services.results.of_message(message)
    traced = (await services.tracing.trace(ann.address)).engagement[message.ref]
    assert traced.links == (TARGETS[1],)
    await queue(services, [hit(message, ann, 1)])  # not counted yet when she is erased

    await services.personal_data.erase(ann.address)
    await work(worker_of(services))

    rows = [repr(each) async for each in services.store.table("engagement").scan()]
    assert not any(ann.guid in each for each in rows)
    assert any(bob.guid in each for each in rows)
    after = await services.results.of_message(message)
    assert after.people == before.people == PeopleFigures(0, 2, 2)
    assert after.opened == before.opened == 2
    assert await addresses(services, message) == [bob.address]


async def test_erasure_is_complete_wherever_it_is_interrupted(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * len(people))

    async def attempt(fate: Fate, writes: int) -> None:
        who = people[writes]
        await count(services, [hit(message, who, OPENED)])
        dying = Services(Fated(services.store, fate), services.keyring)
        await dies(dying.personal_data.erase(who.address))
        await count(services, [hit(message, who, 1)])
        await services.personal_data.finish()
        if fate.written == 0:
            await services.personal_data.erase(who.address)
        rows = [repr(each) async for each in services.store.table("engagement").scan()]
        assert not any(who.guid in each for each in rows)
        assert (await figures(services, message))[0] == writes + 1

    await cut_after_each_write(attempt, at_most=30)


@ON_ONE_ENGINE
async def test_nothing_is_recorded_about_individuals_unless_the_message_is_personal(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services, Track.AGGREGATE)
    await count(services, [hit(message, people[0]), hit(message, people[1], OPENED)])
    results = await services.results.of_message(message)
    assert (results.opened, results.clicked, results.people) == (1, 1, None)
    assert await addresses(services, message) == []
    rows = [each.partition async for each in services.store.table("engagement").scan()]
    assert set(rows) == {str(message.ref)}


@ON_ONE_ENGINE
async def test_programs_and_proxies_with_a_personal_link_are_nobody(
    services: Services, people: list[Subscriber]
) -> None:
    message = await tracked(services)
    gateway = [hit(message, people[0], number, visitor="gateway") for number in (1, 2, 0)]
    proxy = hit(message, people[1], OPENED, agent=HitCause.PROXY)
    program = hit(message, people[2], agent=HitCause.PROGRAM)
    await count(services, [*gateway, proxy, program, hit(message, people[3])])
    assert await figures(services, message) == (0, 1)
    assert await addresses(services, message) == [people[3].address]


@ON_ONE_ENGINE
async def test_a_whole_batch_of_people_fits_into_what_the_store_takes_at_once(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await fill(store, await make_list(services), 380)
    await agree(services, made)
    message = await tracked(services)
    monkeypatch.setattr(people_module, "_partition", lambda ref, guid: f"{ref},0")
    assert len(made) > 3 * people_module._AT_ONCE
    await count(services, [hit(message, each, OPENED) for each in made])
    assert await figures(services, message) == (380, 0)
