"""Users, sessions, links, the audit log and events, on each engine."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from io import BytesIO

import pyotp
import pytest

from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow
from postroom.services.accounts.access_links import AccessLinks
from postroom.services.accounts.audit import AuditService
from postroom.services.accounts.second_factor import CODES, TooManyCodes
from postroom.services.accounts.sessions import SessionService
from postroom.services.accounts.users import STRANGERS, Role
from postroom.services.events import EventService, Severity
from postroom.services.messages.message_contents import NewBodies
from postroom.services.row_ranges import new_row
from postroom.storage import Entity, KeyRange, Store, Value
from postroom.wiring import Services

pytestmark = pytest.mark.usefixtures("quick_passwords")

GOOD, BAD = "correct horse battery", "wrong horse battery"


async def test_two_administrators_who_remove_each_other_do_not_both_succeed(
    services: Services,
) -> None:
    ann = await services.users.create("ann@example.org", GOOD, Role.ADMINISTRATOR)
    bob = await services.users.create("bob@example.org", GOOD, Role.ADMINISTRATOR)
    results = await asyncio.gather(
        services.users.remove(ann.email),
        services.users.set_role(bob.email, Role.VIEWER),
        return_exceptions=True,
    )
    assert [type(each) for each in results if isinstance(each, Exception)] == [NotNow]
    [left] = [each for each in await services.users.all() if each.role is Role.ADMINISTRATOR]
    with pytest.raises(NotNow, match="the last administrator"):
        await services.users.remove(left.email)
    with pytest.raises(NotNow, match="the last administrator"):
        await services.users.set_role(left.email, Role.EDITOR)
    assert (await services.users.get(left.email)).role is Role.ADMINISTRATOR


async def test_many_attempts_slow_strangers_down_and_nobody_else(
    store: Store, services: Services
) -> None:
    users, ann = services.users, "ann@example.org"
    await users.create(ann, GOOD, Role.VIEWER)
    tries = [users.authenticate(ann, BAD) for _ in range(STRANGERS.burst + 2)]
    assert await asyncio.gather(*tries) == [None] * len(tries)
    assert (await users.get(ann)).is_slowed_down
    # Another process knows it too, and the right password does not help a stranger now.
    others = Services(store).users
    assert await others.authenticate(ann, GOOD) is None
    assert await others.authenticate(ann, BAD, is_known_device=True) is None
    assert await others.authenticate(ann, GOOD, is_known_device=True) is not None
    await services.events.settle()
    events = (await services.events.slice(least=Severity.WARNING)).events
    assert 1 <= len(events) <= 2  # once per process
    assert all(ann in event.text for event in events)

    assert (await users.get(ann)).is_slowed_down  # a login elsewhere gives strangers no more
    soon = datetime.now(UTC) + timedelta(seconds=STRANGERS.interval * (STRANGERS.burst - 1))
    await store.table("users").merge(Entity("user", ann, {"TriesMark": soon}))
    assert await users.authenticate(ann, GOOD) is not None  # a minute later at most
    assert not (await users.get(ann)).is_slowed_down


async def test_the_lock_of_an_earlier_version_ends(store: Store, services: Services) -> None:
    await services.users.create("ann@example.org", GOOD, Role.VIEWER)
    tomorrow = datetime.now(UTC) + timedelta(hours=24)
    old: dict[str, Value] = {"Tries": 0, "Locks": 9, "LockedUntil": tomorrow}
    await store.table("users").merge(Entity("user", "ann@example.org", old))
    assert await services.users.authenticate("ann@example.org", GOOD) is not None


async def test_wrong_codes_are_limited_more_strictly_than_passwords(services: Services) -> None:
    users, ann, secret = services.users, "ann@example.org", pyotp.random_base32()
    await users.create(ann, GOOD, Role.VIEWER)
    codes = await users.turn_on_second_factor(ann, secret, pyotp.TOTP(secret).now())
    for _ in range(CODES.burst):
        assert not await users.check_code(ann, "000000x")
    with pytest.raises(TooManyCodes):
        await users.check_code(ann, codes[0])
    assert await users.authenticate(ann, GOOD) is not None


async def test_a_new_password_ends_sessions_and_links_that_were_made_before(
    store: Store, services: Services
) -> None:
    user = await services.users.create("ann@example.org", GOOD, Role.VIEWER)
    token = await services.sessions.start(user, "192.0.2.1", "a browser\x00")
    found = await services.sessions.find(token)
    assert found is not None
    assert (found[0].email, found[1].place) == ("ann@example.org", "192.0.2.1")
    link = await services.access_links.reset("ann@example.org", "bob@example.org")

    changed = await services.users.set_password("ann@example.org", "another good password")
    assert await services.sessions.find(token) is None
    assert await services.sessions.of(changed) == []
    with pytest.raises(NotNow):
        await services.access_links.use(link, "a third good password")
    assert await services.users.check_password("ann@example.org", "another good password")
    # The row of the ended session goes with the next login.
    await services.sessions.start(changed, "", "")
    assert len([each async for each in store.table("sessions").scan()]) == 1


async def test_leftovers_of_a_removed_user_give_no_access(store: Store, services: Services) -> None:
    await services.users.create("boss@example.org", GOOD, Role.ADMINISTRATOR)
    user = await services.users.create("ann@example.org", GOOD, Role.VIEWER)
    token = await services.sessions.start(user, "", "")
    await services.users.remove("ann@example.org")
    assert await services.sessions.find(token) is None
    await services.users.create("ann@example.org", "another good password", Role.VIEWER)
    assert await services.sessions.find(token) is None
    for nonsense in ("", ".", "x" * 5000, token + "x", token.replace(".", "/"), "\ud800.x"):
        assert await services.sessions.find(nonsense) is None


async def test_sessions_are_ended_one_by_one_or_all_but_one(services: Services) -> None:
    user = await services.users.create("ann@example.org", GOOD, Role.VIEWER)
    tokens = [await services.sessions.start(user, "", f"browser {n}") for n in range(3)]
    sessions = await services.sessions.of(user)
    assert {each.browser for each in sessions} == {"browser 0", "browser 1", "browser 2"}
    first = next(each for each in sessions if each.browser == "browser 0")
    await services.sessions.end(user.email, first.id)
    await services.sessions.end(user.email, first.id)
    assert await services.sessions.find(tokens[0]) is None
    kept = await services.sessions.find(tokens[1])
    assert kept is not None
    assert await services.sessions.end_all(user, but=kept[1].id) == 1
    assert [await services.sessions.find(each) is None for each in tokens] == [True, False, True]


async def test_an_invitation_works_once(services: Services) -> None:
    first = await services.access_links.invite("Ann@EXAMPLE.org", Role.EDITOR, "bob@example.org")
    token = await services.access_links.invite("Ann@example.org", Role.VIEWER, "bob@example.org")
    assert await services.access_links.find(first) is None  # the newer one replaces it
    with pytest.raises(Invalid, match="at least 10"):
        await services.access_links.use(token, "short")
    results = await asyncio.gather(
        *(services.access_links.use(token, GOOD) for _ in range(3)), return_exceptions=True
    )
    assert sum(not isinstance(each, Exception) for each in results) == 1
    assert all(isinstance(each, Exists | NoSuch) for each in results if isinstance(each, Exception))
    user = await services.users.get("ANN@example.org")  # people write their own as they like
    assert (user.email, user.role) == ("ann@example.org", Role.VIEWER)
    with pytest.raises(NoSuch):
        await services.access_links.use(token, GOOD)
    with pytest.raises(Exists):
        await services.access_links.invite("Ann@example.org", Role.VIEWER, "")
    assert await services.access_links.all() == []


async def test_links_expire_and_are_revoked(store: Store, services: Services) -> None:
    links = services.access_links
    old = await links.invite("old@example.org", Role.VIEWER, "")
    [link] = await links.all()
    past = datetime.now(UTC) - timedelta(seconds=1)
    await store.table("accesslinks").merge(Entity("link", link.id, {"ExpiresAt": past}))
    assert await links.find(old) is None
    assert await links.all() == []
    token = await links.invite("ann@example.org", Role.VIEWER, "")
    [link] = await links.all()
    await links.revoke(link.id)
    await links.revoke(link.id)
    assert await AccessLinks(store, services.users).find(token) is None


async def test_a_code_of_the_second_factor_works_once(services: Services) -> None:
    users = services.users
    await users.create("ann@example.org", GOOD, Role.VIEWER)
    secret = pyotp.random_base32()
    with pytest.raises(Invalid):
        await users.turn_on_second_factor("ann@example.org", secret, "000000x")
    codes = await users.turn_on_second_factor("ann@example.org", secret, pyotp.TOTP(secret).now())
    assert len(set(codes)) == 10
    with pytest.raises(NotNow):
        await users.turn_on_second_factor("ann@example.org", secret, pyotp.TOTP(secret).now())

    next_code = pyotp.TOTP(secret).at(datetime.now(UTC), 1)
    used = await asyncio.gather(*(users.check_code("ann@example.org", next_code) for _ in range(3)))
    assert sum(used) == 1
    assert await users.check_code("ann@example.org", codes[0].upper().replace("-", " "))
    assert not await users.check_code("ann@example.org", codes[0])
    assert (await users.get("ann@example.org")).recovery_codes_left == 9
    renewed = await users.renew_recovery_codes("ann@example.org")
    assert not await users.check_code("ann@example.org", codes[1])
    assert await users.check_code("ann@example.org", renewed[1])
    await users.turn_off_second_factor("ann@example.org")
    assert not await users.check_code("ann@example.org", renewed[2])


async def test_the_audit_log_is_read_newest_first_by_actor_and_by_day(
    store: Store, services: Services
) -> None:
    audit = services.audit
    for number in range(5):
        await audit.record("ann@example.org", f"did {number}", "it", place="192.0.2.1")
        await audit.record("bob@example.org", f"saw {number}", "\r\n\ud800\x00" + "x" * 5000)
    first = await audit.newest(limit=4)
    assert [each.what for each in first.entries] == ["saw 4", "did 4", "saw 3", "did 3"]
    rest = await audit.newest(limit=100, after=first.next)
    assert len(rest.entries) == 6
    assert rest.next is None
    mine = await audit.newest(who="ann@example.org", limit=3)
    assert [each.what for each in mine.entries] == ["did 4", "did 3", "did 2"]
    more = await audit.newest(who="ann@example.org", limit=3, after=mine.next)
    assert [each.what for each in more.entries] == ["did 1", "did 0"]
    assert (await audit.newest(who="nobody\x00\ud800")).entries == []

    today = mine.entries[0].at.date()
    days = [today + timedelta(days=shift) for shift in (-1, 0, 1)]
    counts = [len((await audit.newest(day=day)).entries) for day in days]
    assert sum(counts) == 10 or today != datetime.now(UTC).date()
    assert counts[2] in (0, 10 - counts[1])

    assert await audit.forget_old(timedelta(hours=1)) == 0
    assert await audit.forget_old(timedelta(0)) == 10
    assert [each async for each in store.table("audit").scan()] == []


async def test_events_are_noted_in_the_background_and_read_newest_first(
    store: Store, services: Services
) -> None:
    events = services.events
    events.note("host", "started")
    events.note("host", "a queue faulted", severity=Severity.ERROR, subject="queue:a/b")
    events.note("sender", "slow\n", severity=Severity.WARNING)
    await events.settle()
    await EventService(store).record("scheduler", "a message is done", subject="message:1")
    found = await events.slice(limit=3)
    assert [each.text for each in found.events] == [
        "a message is done",
        "slow\N{REPLACEMENT CHARACTER}",
        "a queue faulted",
    ]
    assert [e.text for e in (await events.slice(limit=3, after=found.next)).events] == ["started"]
    warnings = (await events.slice(least=Severity.WARNING)).events
    assert [each.part for each in warnings] == ["sender", "host"]
    [error] = (await events.slice(least=Severity.ERROR)).events
    assert (error.subject, error.severity) == ("queue:a/b", Severity.ERROR)
    assert [each.part for each in await events.since(error.id)] == ["sender", "scheduler"]
    assert len(await events.since(None, limit=2)) == 2

    old = Entity(
        "all",
        new_row(datetime.now(UTC) - timedelta(days=91)),
        {"Severity": "info", "Part": "host", "Text": "long ago", "Subject": ""},
    )
    await store.table("events").insert(old)
    assert await events.forget_old() == 1
    assert await events.forget_old(timedelta(0)) == 4
    assert (await store.table("events").query(KeyRange())).entities == []


async def test_a_notification_that_cannot_be_sent_does_no_harm(store: Store) -> None:
    events, audit = EventService(store), AuditService(store)
    users = Services(store).users
    sessions = SessionService(store, users)
    await store.close()
    events.note("host", "stopped")
    await events.record("host", "stopped")
    await audit.record("ann@example.org", "did it")
    await events.settle(seconds=0.1)
    assert await sessions.find("not a token") is None


async def test_background_tasks_record_events(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.org")
    await services.imports.import_csv("news", BytesIO(b"email\nann@example.org\nnobody\n"))
    message = await services.messages.create(
        "news", "Hello", NewBodies(text="Hello"), datetime.now(UTC)
    )
    await services.message_states.pause(message.ref, "somebody's reason")
    await services.message_states.resume(message.ref)
    await services.message_states.pause(message.ref, "the server refuses", resumptions=1)
    found = (await services.events.slice()).events
    assert [(each.part, each.severity.value, each.subject) for each in found] == [
        ("sender", "warning", f"message:{message.ref}"),
        ("import", "info", "list:news"),
    ]
    assert (
        found[0].text == "the message 'Hello' to news was paused automatically: the server refuses"
    )
    assert "1 added, 0 updated, 1 rejected" in found[1].text
