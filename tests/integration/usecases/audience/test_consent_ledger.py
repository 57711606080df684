"""The consent ledger: an entry for each act, in the same write, and no way to change one unseen."""

from __future__ import annotations

import asyncio
import io

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import (
    ENDS,
    ConsentAction,
    ConsentEntry,
    ConsentSource,
    LedgerHead,
    details_of,
)
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.errors import NotNow
from postroom.services import entities
from postroom.services.audience.consent.consent_ledger import ConsentHistory, LedgerReport
from postroom.services.audience.consent.ledger_rows import LedgerRows
from postroom.services.resources.personal_data import describe_personal_data, describe_trace
from postroom.storage import Entity, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import check_pairs, fill, make_list

ANN = "ann@example.com"
PAGE = ConsentSource("sign-up page", "I agree to the newsletter.", "0123456789abcdef")


async def faults(services: Services, name: str) -> list[str]:
    found = services.ledger.faults(ListName(name), LedgerReport())
    return [each.fault async for each in found]


async def consent(services: Services, email: str = ANN) -> list[ConsentHistory]:
    return (await services.tracing.trace(email)).consent


async def acts(services: Services, email: str = ANN) -> list[list[str]]:
    return [
        [each.act.value for each in history.entries] for history in await consent(services, email)
    ]


async def with_a_history(services: Services) -> ListName:
    """A subscriber with four entries, one of whom is still on the list, and one who left."""
    name = await make_list(services)
    for email in (ANN, "bob@example.com"):
        await services.subscriptions.subscribe(name, email, source=PAGE)
        found = await services.subscriptions.get(name, email)
        await services.subscriptions.confirm(name, found.guid)
        found = await services.subscriptions.get(name, email)
        await services.preferences.pause(found)
    bob = await services.subscriptions.get(name, "bob@example.com")
    await services.subscriptions.unsubscribe(name, bob.guid, ConsentSource("one click"))
    return ListName(name)


async def test_every_act_of_a_subscriber_is_recorded_once(services: Services) -> None:
    use, name, other = services.subscriptions, await make_list(services), "contoso2"
    await make_list(services, other)
    assert await use.subscribe(name, ANN, source=PAGE)
    guid = (await use.get(name, ANN)).guid
    for _ in range(2):
        await use.confirm(name, guid)
    await services.preferences.save(await use.get(name, ANN), {}, "de")
    await services.preferences.pause(await use.get(name, ANN))
    await services.preferences.resume(await use.get(name, ANN))
    await use.edit(name, ANN, note="likes tea")
    await use.edit(name, ANN, blocked="asked by phone")
    await use.edit(name, ANN, blocked="", attributes={"first_name": "Ann"})
    await use.change_address(name, ANN, "anna@example.com")
    await use.move(name, "anna@example.com", other)
    await use.move(other, "anna@example.com", name)
    for _ in range(2):
        await use.unsubscribe(name, guid)

    assert await acts(services, "anna@example.com") == [
        [
            *("signed up", "confirmed", "details changed", "paused", "resumed", "blocked"),
            *("unblocked", "address changed", "moved to another list", "moved from another list"),
            "unsubscribed",
        ],
        ["moved from another list", "moved to another list"],
    ]
    entries = (await consent(services, "anna@example.com"))[0].entries
    signed_up, unblocked = details_of(entries[0]), details_of(entries[6])
    assert (signed_up.origin, signed_up.ip_digest) == ("sign-up page", PAGE.ip_digest)
    assert (signed_up.text, len(signed_up.text_version)) == (PAGE.text, 12)
    assert unblocked.changed == ("first_name",)
    assert await faults(services, name) == await faults(services, other) == []


async def test_subscribers_from_before_the_ledger_get_no_false_entries(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, ListName(name), 3)
    found = await services.subscriptions.slice(name)
    old, left, stays = (each.address for each in found.subscribers)
    assert await consent(services, old) == []
    await services.subscriptions.edit(name, old, blocked="bounced", source=ConsentSource("bounce"))
    await services.subscriptions.remove(name, left)
    assert await acts(services, old) == [["blocked"]]
    assert await acts(services, left) == [["removed"]]
    assert await acts(services, stays) == []
    assert await faults(services, name) == []


async def test_a_suppression_is_recorded_when_it_comes_and_when_it_is_lifted(
    services: Services,
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN, verified=True)
    await services.suppressions.suppress(ANN, "complaint", source="a test")
    await services.suppressions.lift(ANN)
    [history] = await consent(services)
    recorded = [(each.act.value, details_of(each).origin) for each in history.entries[1:]]
    assert recorded == [("blocked", "suppression"), ("unblocked", "suppression")]
    assert await faults(services, name) == []


async def test_an_import_has_one_entry_for_each_batch_and_its_subscribers_continue_it(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    people = [f"p{number:03}@example.com" for number in range(120)]
    lines = "\n".join(["email,first_name", *(f"{each},Pat" for each in people)])
    report = await services.imports.import_csv(name, io.BytesIO(lines.encode()))
    assert report.added == 120
    rows = [each async for each in store.table(entities.LISTS).scan()]
    assert sum(each.row.startswith("ledgerimport:") for each in rows) == 3
    assert sum(each.row.startswith("ledger:") for each in rows) == 0

    [history] = await consent(services, people[7])
    assert history.imported is not None
    assert (history.imported.origin, history.entries, history.fault) == ("import", [], "")

    changed = lines.replace("Pat", "Sam")
    report = await services.imports.import_csv(name, io.BytesIO(changed.encode()))
    assert (report.added, report.updated) == (0, 120)
    report = await services.imports.import_csv(name, io.BytesIO(changed.encode()))
    assert (report.updated, report.unchanged) == (0, 120)
    assert await acts(services, people[7]) == [["details changed"]]
    left = f"email,status\n{people[7]},unsubscribed\n"
    assert (await services.imports.import_csv(name, io.BytesIO(left.encode()))).unsubscribed == 1
    assert await acts(services, people[7]) == [["details changed", "unsubscribed"]]
    await check_pairs(store, name)


@pytest.mark.parametrize(
    ("row", "change", "fault"),
    [
        (",000002", {"Act": "unsubscribed"}, "entry 2 was changed"),
        (",000001", {"Details": '{"origin":"team"}'}, "the details of entry 1 were changed"),
        (",000001", {"Details": ""}, "the details of entry 1 are missing"),
        (",000002", None, "entry 2 is missing"),
        (",000003", None, "entry 3 is missing"),
    ],
)
async def test_a_changed_or_missing_entry_is_found(
    services: Services, store: Store, row: str, change: dict[str, str] | None, fault: str
) -> None:
    name, table = await with_a_history(services), store.table(entities.LISTS)
    assert await faults(services, name) == []
    guid = (await services.subscriptions.get(name, ANN)).guid
    found = await table.get(name, f"ledger:{guid}{row}")
    assert found is not None
    if change is None:
        await table.delete(name, found.row)
    else:
        await table.replace(Entity(name, found.row, {**found.properties, **change}))
    assert await faults(services, name) == [fault]
    assert [each.fault for each in await consent(services)] == [fault]


async def test_entries_that_are_missing_at_the_end_or_were_inserted_are_found(
    services: Services, store: Store
) -> None:
    name, table = await with_a_history(services), store.table(entities.LISTS)
    [bob] = await consent(services, "bob@example.com")
    guid, last = bob.entries[0].guid, bob.entries[-1]
    assert last.act in ENDS
    await table.delete(name, f"ledger:{guid},{last.number:06}")
    assert await faults(services, name) == ["entries are missing at its end"]
    for number in range(1, last.number):
        await table.delete(name, f"ledger:{guid},{number:06}")
    assert await faults(services, name) == ["all entries are missing"]
    ann = (await services.subscriptions.get(name, ANN)).guid
    copied = await table.get(name, f"ledger:{ann},000002")
    assert copied is not None
    await table.insert(Entity(name, f"ledger:{ann},000004", copied.properties))
    assert sorted(await faults(services, name)) == ["all entries are missing", "entry 4 is missing"]


async def test_a_subscriber_whom_the_import_does_not_name_is_found(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.imports.import_csv(name, io.BytesIO(b"email\nann@example.com\n"))
    [lookup] = [
        each
        async for each in store.table(entities.LISTS).scan()
        if each.row.startswith(entities.GUID_PREFIX)
    ]
    false = "guid:00000000-0000-4000-8000-000000000000"
    await store.table(entities.LISTS).insert(Entity(name, false, lookup.properties))
    assert await faults(services, name) == ["the entry of its import does not name the subscriber"]
    [entry] = [
        each
        async for each in store.table(entities.LISTS).scan()
        if each.row.startswith("ledgerimport:")
    ]
    await store.table(entities.LISTS).replace(
        Entity(name, entry.row, {**entry.properties, "Origin": "sign-up page"})
    )
    changed = await faults(Services(store), name)
    assert changed == ["the entry of its import was changed"] * 2


async def test_acts_at_the_same_time_are_all_recorded_in_one_chain(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, ANN, verified=True)
    one, two = Services(store), Services(store)
    await asyncio.gather(
        *(each.preferences.pause(ann) for each in (one, two)),
        *(
            each.preferences.save(ann, {}, language)
            for each, language in ((one, "de"), (two, "fr"))
        ),
    )
    [entries] = await acts(services)
    assert entries[0] == "added as confirmed"
    assert sorted(entries[1:]) == ["details changed", "details changed", "paused", "paused"]
    await asyncio.gather(*(each.subscriptions.unsubscribe(name, ann.guid) for each in (one, two)))
    assert (await acts(services))[0][5:] == ["unsubscribed"]
    assert await check_pairs(store, name) == set()


async def test_after_a_crash_anywhere_the_act_and_its_entry_are_both_there_or_neither(
    services: Services, store: Store, engine: str
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        dying = Services(Fated(store, fate)).subscriptions

        async def live() -> None:
            await dying.subscribe(name, ANN)
            guid = (await dying.get(name, ANN)).guid
            await dying.confirm(name, guid)
            await dying.unsubscribe(name, guid)

        await dies(live())
        histories = [each for each in await consent(services) if each.list_name == name]
        found = await services.subscriber_rows.find(name, Address(ANN))
        entries: list[ConsentEntry] = histories[0].entries if histories else []
        expected = [ConsentAction.SIGNED_UP, ConsentAction.CONFIRMED, ConsentAction.UNSUBSCRIBED]
        assert [each.act for each in entries] == expected[: len(entries)]
        assert (found is not None) == (len(entries) in (1, 2))
        assert found is None or found.verified == (len(entries) == 2)
        await check_pairs(store, name)

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)


async def test_erasing_leaves_a_valid_chain_that_says_nothing_about_the_person(
    services: Services, store: Store
) -> None:
    name = await with_a_history(services)
    for email in (ANN, "bob@example.com"):
        await services.personal_data.erase(email)
        await services.personal_data.erase(email)
        assert await consent(services, email) == []
    rows = [each async for each in store.table(entities.LISTS).scan()]
    entries = [each for each in rows if each.row.startswith("ledger:")]
    assert len(entries) == 9
    assert [each.row for each in rows if each.row.startswith("ledgerof:")] == []
    text = repr(rows)
    for secret in ("ann@", "bob@", PAGE.text, PAGE.ip_digest, "sign-up page"):
        assert secret not in text
    assert await faults(services, name) == []
    bare = next(each for each in entries if each.row.endswith(",000002"))
    changed = {**bare.properties, "Act": "unsubscribed"}
    await store.table(entities.LISTS).replace(Entity(name, bare.row, changed))
    assert await faults(services, name) == ["entry 2 was changed"]


async def test_a_list_takes_its_ledger_with_it(services: Services, store: Store) -> None:
    name = await with_a_history(services)
    await services.lists.delete(name)
    assert [each async for each in store.table(entities.LISTS).scan()] == []
    await make_list(services, name)
    assert await consent(services, "bob@example.com") == []


async def test_the_file_for_a_subscriber_has_their_entries(services: Services) -> None:
    name = await with_a_history(services)
    ann = await services.subscriptions.get(name, ANN)
    history = await services.ledger.of_subscriber(ann)
    own = msgspec.to_builtins(describe_personal_data(ann, history, [], {}, []))["consent"]
    team = msgspec.to_builtins(describe_trace(await services.tracing.trace(ANN)))["consent"]
    assert own == team
    assert [each["act"] for each in own] == ["signed up", "confirmed", "paused"]
    assert own[0]["text"] == PAGE.text
    assert [each["previous"] for each in own[1:]] == [each["hash"] for each in own[:-1]]


async def test_a_damaged_ledger_keeps_nobody_from_unsubscribing(
    services: Services, store: Store
) -> None:
    name, table = await with_a_history(services), store.table(entities.LISTS)
    ann = await services.subscriptions.get(name, ANN)
    lookup = await table.get(name, entities.guid_row(ann.guid))
    assert lookup is not None
    await table.replace(Entity(name, lookup.row, {"EmailAddress": ANN}))
    assert await faults(services, name) != []
    line = f"email,first_name\n{ANN},Ann\n"
    assert (await services.imports.import_csv(name, io.BytesIO(line.encode()))).updated == 1
    await table.replace(Entity(name, lookup.row, {"EmailAddress": ANN}))
    assert await services.subscriptions.unsubscribe(name, ann.guid) is not None
    assert (await acts(services))[0][3:] == ["details changed", "unsubscribed"]


async def test_the_explorer_does_not_change_entries(services: Services, store: Store) -> None:
    name = await with_a_history(services)
    rows = [each async for each in store.table(entities.LISTS).scan()]
    entry = next(each for each in rows if each.row.startswith("ledger:"))
    with pytest.raises(NotNow, match="the consent ledger"):
        await services.explorer.save(entities.LISTS, entry, entry.etag)
    with pytest.raises(NotNow, match="the consent ledger"):
        await services.explorer.delete(entities.LISTS, name, entry.row, entry.etag)


async def test_an_import_that_unsubscribes_survives_a_change_at_the_same_moment(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN, verified=True)
    read_head, changes = LedgerRows.head, iter([True])

    async def overtaken(self: LedgerRows, list_name: ListName, guid: SubscriberGuid) -> LedgerHead:
        head = await read_head(self, list_name, guid)
        if next(changes, False):  # another process writes now, once
            await services.subscriptions.edit(name, ANN, blocked="asked us")
        return head

    monkeypatch.setattr(LedgerRows, "head", overtaken)
    file = io.BytesIO(f"email,status\n{ANN},unsubscribed\n".encode())
    assert (await services.imports.import_csv(name, file)).unsubscribed == 1
    assert await services.subscriber_rows.find(name, Address(ANN)) is None
    assert await faults(services, name) == []
    assert (await acts(services))[-1][-2:] == ["blocked", "unsubscribed"]
