"""A store as an earlier version wrote it is converted when it is opened for work."""

import asyncio
import logging
from collections import Counter
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.page_emails import ERASED
from postroom.domain.messages.pages import page_partition
from postroom.services import entities
from postroom.services.operations import address_conversion, page_conversion, store_conversions
from postroom.services.operations.store_conversions import Conversion, bring_up_to_date
from postroom.storage import Entity, KeyRange, SchemaTooNew, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, PowerCut
from tests.integration.usecases.making import rows_of
from tests.integration.usecases.messages.sending.test_sender_and_its_store import sender
from tests.integration.usecases.pages import check_sum, fan_out_whole, use_small_pages
from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.stores.old_stores import fill_with
from tests.services.waiting import until

LIST = ListName("news")
PERSON_5 = "person05@example.org"
RECIPIENTS = {
    f"{name}@example.org" for name in ("Zoe", "Bob", "alice", "ann.lee", "both", "carol", "dup")
}
"""Who is verified, not blocked and has not left, once each."""


@pytest.fixture
async def old(store: Store) -> Services:
    """A store with several spellings of addresses: see `make_spelled.py.txt`."""
    await fill_with(store, "spelled")
    return Services(store)


async def message_called(services: Services, subject: str) -> Message:
    found = await services.times.all(limit=100)
    return next(each for each in found.messages if each.subject == subject)


async def test_spellings_of_an_address_become_one_subscriber(
    old: Services, caplog: pytest.LogCaptureFixture
) -> None:
    guids = {
        str(row.properties["EmailAddress"]): row.row.removeprefix("guid:")
        for row in await rows_of(old.store, entities.LISTS, LIST)
        if row.row.startswith("guid:")
    }
    with caplog.at_level(logging.INFO):
        await bring_up_to_date(old.store)

    found = {str(each.address): each async for each in old.subscriptions.all(LIST)}
    assert set(found) == RECIPIENTS | {"blocked@example.org", "waits@example.org"}
    assert [each.key for each in found.values()] == sorted(each.key for each in found.values())
    assert found["dup@example.org"].verified
    assert found["ann.lee@example.org"].verified
    assert found["blocked@example.org"].blocked == "complained"
    assert not found["waits@example.org"].verified
    # Unsubscribed as Left@, and still on the list as left@.
    assert "left@example.org" not in found
    for names in ("dup@example.org and DUP@example.org", "left@example.org is removed"):
        assert names in caplog.text
    # Every link that was ever sent still leads to its owner.
    for spelling, guid in guids.items():
        owner = await old.subscriptions.by_guid(LIST, guid)
        if spelling.casefold() != "left@example.org":
            assert owner is not None, spelling
            assert owner.key == spelling.lower()
    left = await old.subscriptions.unsubscribe(LIST, guids["DUP@example.org"])
    assert left is not None
    remaining = await rows_of(old.store, entities.LISTS, LIST)
    assert "dup@example.org" not in {str(r.properties.get("EmailAddress")) for r in remaining}


async def test_messages_that_were_under_way_reach_everyone_once(
    old: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, 3, 2)
    await bring_up_to_date(old.store)
    for subject in ("Sending", "Queuing"):
        message = await message_called(old, subject)
        message = await fan_out_whole(old.store, message.ref)
        assert message.status is MessageStatus.PROCESSING
    messages = [await message_called(old, subject) for subject in ("Sending", "Queuing")]

    async def is_done() -> bool:
        return not sum([(await old.outcomes.counts(each)).pending for each in messages])

    with running_recording_smtp(keep_content=False) as server:
        async with sender(old.store, server, tmp_path):
            await until(is_done, "the message is done")
        assert server.copies() == dict.fromkeys(RECIPIENTS, 2), "one of each message"
    for message in messages:
        counts = await check_sum(old, message)
        assert counts.accepted == len(RECIPIENTS)
        assert counts.in_doubt == counts.refused == 0
        found = await old.outcomes.emails_to(message, Address("BOTH@example.org"))
        accepted = [each for each in found if each.outcome is EmailOutcome.ACCEPTED]
        assert [each.address for each in accepted] == ["both@example.org"]


async def test_emails_of_earlier_messages_are_found_in_any_spelling(old: Services) -> None:
    await bring_up_to_date(old.store)
    message = await message_called(old, "Done")
    sent = [each.address async for each in old.outcomes.emails(message)]
    for spelling in (str.lower, str.upper, str.title):
        found = [
            Counter(
                each.address
                for each in await old.outcomes.emails_to(
                    message, Address(f"{spelling(local)}@{domain}")
                )
            )
            for local, _, domain in (address.partition("@") for address in sent)
        ]
        assert sum(found, Counter()).keys() == set(sent)
    part = await old.outcomes.slice(message, prefix="BO")
    assert sorted(each.address for each in part.emails) == [
        "Bob@example.org",
        "Both@example.org",
        "both@example.org",
    ]
    retried = await fan_out_whole(old.store, (await old.retries.retry_refused(message.ref)).ref)
    again = [each.address async for each in old.outcomes.emails(retried)]
    assert again == ["Bob@example.org", "both@example.org"]


async def test_an_interrupted_conversion_is_finished_by_the_next_process(old: Services) -> None:
    async def keep() -> None:
        pass

    for writes in range(1, 100):
        try:
            await address_conversion.convert(Fated(old.store, Fate(writes)), keep)
        except PowerCut:
            continue
        break
    assert writes > 2, "it was interrupted, and got further each time"
    await bring_up_to_date(old.store)
    addresses = [each.address async for each in old.subscriptions.all(LIST)]
    assert set(addresses) == RECIPIENTS | {"blocked@example.org", "waits@example.org"}
    guids = {
        row.row
        for row in await rows_of(old.store, entities.LISTS, LIST)
        if row.row.startswith("guid:")
    }
    assert len(guids) == 13, "one for each spelling that was on the list, without left@"


async def test_emails_that_were_rows_are_part_of_their_pages(store: Store) -> None:
    await fill_with(store, "rows")  # see `make_rows.py.txt`
    services = Services(store)

    async def keep() -> None:
        pass

    for writes in range(1, 100):
        try:
            await page_conversion.convert(Fated(store, Fate(writes)), keep)
        except PowerCut:
            continue
        break
    assert writes > 2, "it was interrupted, and got further each time"
    await bring_up_to_date(store)

    before = [row async for row in store.table(entities.PAGES).scan()]
    await page_conversion.convert(store, keep)
    assert [row async for row in store.table(entities.PAGES).scan()] == before
    for table in (entities.MESSAGES, entities.ARCHIVE):
        assert [row async for row in store.table(table).scan() if "," in row.partition] == []
    done = await message_called(services, "Done")
    assert await check_sum(services, done) == Counts(planned=21, accepted=14, refused=7)
    sending = await message_called(services, "Sending")
    assert await check_sum(services, sending) == Counts(
        planned=21, accepted=7, refused=2, in_doubt=1, possible_duplicates=1, deferred=1
    )
    deferred = await services.pages.get(sending.day, sending.ref, 1)
    assert deferred is not None
    state = deferred.emails.state(1)
    assert (state.tries, state.unanswered, state.reply) == (3, 1, "451 later")
    assert state.next_try_at == deferred.waiting.next_try_at
    parked = await services.pages.get(sending.day, sending.ref, 3)
    assert parked is not None
    assert parked.parked
    for number in (4, 5):
        claimed = await services.pages.get(sending.day, sending.ref, number)
        assert claimed is not None
        assert claimed.claim.owner == "a dead sender"
    queuing = await fan_out_whole(store, (await message_called(services, "Queuing")).ref)
    found = [str(each.address) async for each in services.outcomes.emails(queuing)]
    assert found == [*(f"person{number:02}@example.org" for number in range(20)), "Zoe@example.org"]


async def test_an_email_that_was_erased_hides_no_other_one(
    store: Store,
) -> None:
    await fill_with(store, "rows")
    services = Services(store)
    done = await message_called(services, "Done")
    archive = store.table(entities.ARCHIVE)
    partition = page_partition(done.day, done.ref, 1)
    [email] = (await archive.query(KeyRange.only(partition), KeyRange.only(PERSON_5))).entities
    erased = f"erased-{'f' * 16}@erased.invalid"
    await archive.insert(Entity(partition, erased, email.properties))
    await archive.delete(partition, email.row)
    await bring_up_to_date(store)
    found = [str(each.address) async for each in services.outcomes.emails(done)]
    assert found.count(ERASED) == 1
    assert PERSON_5 not in found
    for address in set(found) - {ERASED}:
        assert await services.outcomes.email(done, Address(address)) is not None, address


async def test_one_of_many_processes_converts(store: Store) -> None:
    await store.table("people").insert(Entity("p", "r", {}))
    calls = 0

    async def convert(*_: object) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.05)

    steps = [Conversion("the first", convert), Conversion("the second", convert)]
    await asyncio.gather(*(bring_up_to_date(store, steps) for _ in range(5)))
    assert calls == len(steps)
    await bring_up_to_date(store, steps)
    assert calls == len(steps)


async def test_a_new_store_begins_with_the_newest_version(store: Store) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("there is nothing to convert")

    await bring_up_to_date(store, [Conversion("anything", never)])
    found = await store.table(store_conversions.TABLE).get(
        store_conversions.PARTITION, store_conversions.ROW
    )
    assert found is not None
    assert found.properties["Version"] == 1


async def test_a_store_of_a_newer_version_is_refused(store: Store) -> None:
    newer = len(store_conversions.CONVERSIONS) + 1
    row = Entity(store_conversions.PARTITION, store_conversions.ROW, {"Version": newer})
    await store.table(store_conversions.TABLE).insert(row)
    with pytest.raises(SchemaTooNew, match=f"version {newer}.*use the newer Postroom"):
        await bring_up_to_date(store)
