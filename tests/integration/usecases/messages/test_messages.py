"""Messages: scheduled, edited by two at once, interrupted anywhere, and found exactly once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from postroom.domain.errors import Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import (
    LARGEST_BODY,
    LONGEST_SUBJECT,
    TRANSITIONS,
    Message,
    MessageStatus,
    with_status,
)
from postroom.domain.messages.pages import SCHEDULE_QUEUE
from postroom.services import entities
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.message_rows import MessagePart
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import (
    BODIES,
    blob_names,
    days,
    make_list,
    now,
    open_refs,
    rows_of,
    schedule,
)

MONDAY = datetime(2031, 6, 2, 9, 0, tzinfo=UTC)
TUESDAY = MONDAY + timedelta(days=1)
FRIDAY = MONDAY + timedelta(days=4)


async def in_status(services: Services, status: MessageStatus) -> Message:
    """A message that has come so far, by the ways that there are."""
    message = await schedule(services, at=days(1))
    if status is MessageStatus.DRAFT:
        return await services.composing.unschedule(message.ref)
    if status in (MessageStatus.PENDING, MessageStatus.PAUSED, MessageStatus.CANCELLED):
        change = {
            MessageStatus.PAUSED: services.message_states.pause,
            MessageStatus.CANCELLED: services.message_states.cancel,
        }.get(status)
        return message if change is None else await change(message.ref)
    for step in (MessageStatus.QUEUING, MessageStatus.PROCESSING, MessageStatus.COMPLETED):
        message = await services.message_rows.save(with_status(message, step))
        if step is status:
            break
    return message


async def test_a_message_is_kept_as_the_specification_says(
    services: Services, store: Store
) -> None:
    await make_list(services)
    at = datetime(2031, 6, 2, 1, 30, tzinfo=timezone(timedelta(hours=9)))
    made = await services.messages.create(
        "contoso1", "  Grüße 🎉 ", NewBodies("<p>a</p>", "a\r\nb"), at
    )

    row = await store.table("message").get("2031-06-01", f"message{made.ref}")

    assert row is not None
    wanted = {
        "ScheduledDate": at.astimezone(UTC),
        "SubjectLine": "Grüße 🎉",
        "ListName": "contoso1",
        "Status": "Pending",
    }
    assert {name: row.properties[name] for name in wanted} == wanted
    assert len(made.ref) == 18
    assert await blob_names(store) == [f"{made.ref}.htm", f"{made.ref}.txt"]
    assert await store.container("mailbodies").read(f"{made.ref}.txt") == b"a\nb"
    assert await services.messages.get(made.ref) == made
    assert await services.messages.bodies(made) == NewBodies("<p>a</p>", "a\nb")
    assert await open_refs(services) == [made.ref]
    bell = await store.queue(SCHEDULE_QUEUE).info()
    assert bell.length == 1


async def test_an_invalid_message_is_refused_by_field_and_leaves_nothing(
    services: Services, store: Store
) -> None:
    await make_list(services)
    use = services.messages
    for field, subject, bodies, at in [
        ("scheduled_at", "News", BODIES, datetime(2031, 6, 2)),
        (
            "scheduled_at",
            "News",
            BODIES,
            datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))),
        ),
        ("scheduled_at", "News", BODIES, datetime.min.replace(tzinfo=UTC)),
        ("scheduled_at", "News", BODIES, datetime(1600, 1, 1, tzinfo=UTC)),
        ("html", "News", NewBodies(), MONDAY),
        ("html", "News", NewBodies("", ""), MONDAY),
        ("html", "News", NewBodies("x" * (LARGEST_BODY + 1)), MONDAY),
        ("text", "News", NewBodies("x", "ü" * (LARGEST_BODY // 2 + 1)), MONDAY),
        ("html", "News", NewBodies("{{ name }}"), MONDAY),
        ("text", "News", NewBodies("x", "{{ email"), MONDAY),
        ("text", "News", NewBodies("x", "a\x00b"), MONDAY),
        ("subject", "{{ unsubscribe_url }}", BODIES, MONDAY),
        ("subject", "", BODIES, MONDAY),
        ("subject", "x" * (LONGEST_SUBJECT + 1), BODIES, MONDAY),
        *(("subject", f"a{c}Bcc: x@y.example", BODIES, MONDAY) for c in "\r\n\x00\x85\u2028\u202e"),
    ]:
        with pytest.raises(Invalid) as refused:
            await use.create("contoso1", subject, bodies, at)
        assert refused.value.field == field
        assert "\n" not in str(refused.value)
    with pytest.raises(NoSuch, match="list 'nowhere'"):
        await use.create("nowhere", "News", BODIES, MONDAY)
    with pytest.raises(Invalid):
        await use.create("a/b", "News", BODIES, MONDAY)
    for bad in ("12345", "", "x" * 18, "6" * 18 + "\n"):
        with pytest.raises(Invalid):
            await use.get(bad)
    with pytest.raises(NoSuch, match="message"):
        await use.get("6" * 18)
    assert await blob_names(store) == []
    assert [e async for e in store.table(entities.INDEX).scan()] == []
    assert [e async for e in store.table(entities.MESSAGES).scan()] == []


async def test_a_message_of_yesterday_is_due_now(services: Services, store: Store) -> None:
    await make_list(services)
    old = await schedule(services, at=days(-1))
    assert old.day == days(-1).strftime("%Y-%m-%d")
    assert await store.queue(SCHEDULE_QUEUE).receive(lease=5)
    largest = NewBodies("x" * LARGEST_BODY, None)
    message = await services.messages.create("contoso1", "x" * LONGEST_SUBJECT, largest, MONDAY)
    assert (message.has_html, message.has_text) == (True, False)
    assert await services.messages.bodies(message) == largest


async def test_a_message_whose_creation_is_interrupted_anywhere_exists_or_does_not(
    services: Services, store: Store
) -> None:
    await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        before = await open_refs(services)
        work = schedule(Services(Fated(store, fate)), at=MONDAY + timedelta(minutes=writes))
        await dies(work)
        new = [ref for ref in await open_refs(services) if ref not in before]
        assert len(new) == (writes >= 5)
        for ref in new:
            assert await services.messages.bodies(await services.messages.get(ref)) == BODIES

    # Its reference, two bodies, the index, the message, the bell.
    assert await cut_after_each_write(attempt) == 6


async def test_each_part_of_a_message_can_be_edited(services: Services, store: Store) -> None:
    await make_list(services)
    await make_list(services, "contoso2")
    use = services.messages
    message = await schedule(services, at=MONDAY)

    assert (await use.edit(message.ref, subject=" Other ")).subject == "Other"
    assert (await use.edit(message.ref, list_name="contoso2")).list_name == "contoso2"
    later = await use.edit(message.ref, scheduled_at=MONDAY + timedelta(hours=1))
    assert later.scheduled_at == MONDAY + timedelta(hours=1)
    text = await use.edit(message.ref, bodies=NewBodies(text="New text"))
    assert await use.bodies(text) == NewBodies(BODIES.html, "New text")
    assert len(await blob_names(store)) == 2
    only = await use.edit(message.ref, bodies=NewBodies(html=""))
    assert (only.has_html, only.has_text) == (False, True)
    assert await use.bodies(only) == NewBodies(None, "New text")
    assert len(await blob_names(store)) == 1
    moved = await use.edit(message.ref, scheduled_at=TUESDAY, bodies=BODIES)
    assert await use.get(message.ref) == moved
    assert (moved.day, moved.subject, moved.list_name) == ("2031-06-03", "Other", "contoso2")
    assert await use.bodies(moved) == BODIES
    assert len(await blob_names(store)) == 2
    assert await rows_of(store, entities.MESSAGES, "2031-06-02") == []
    assert len(await rows_of(store, entities.MESSAGES, "2031-06-03")) == 1
    assert await open_refs(services) == [message.ref]
    assert len(await rows_of(store, entities.INDEX, entities.OPEN)) == 1
    back = await use.edit(message.ref, scheduled_at=MONDAY)
    assert back.etag == (await use.get(message.ref)).etag

    for bad in (
        use.edit(message.ref, subject="a\nb"),
        use.edit(message.ref, scheduled_at=datetime(2031, 1, 1)),
        use.edit(message.ref, bodies=NewBodies("", "")),
        use.edit(message.ref, bodies=NewBodies(html="{{ nobody }}")),
    ):
        with pytest.raises(Invalid):
            await bad
    with pytest.raises(NoSuch, match="list"):
        await use.edit(message.ref, list_name="nowhere", bodies=NewBodies("new"))
    assert await use.get(message.ref) == back
    assert len(await blob_names(store)) == 2


@pytest.mark.parametrize("to", [TUESDAY, MONDAY + timedelta(hours=2)], ids=["day", "hour"])
async def test_an_edit_that_is_interrupted_anywhere_counts_as_a_whole_or_not_at_all(
    services: Services, store: Store, engine: str, to: datetime
) -> None:
    await make_list(services)
    use = services.messages
    changed_from = None

    async def attempt(fate: Fate, writes: int) -> None:
        nonlocal changed_from
        message = await schedule(services, at=MONDAY)
        other = Services(Fated(store, fate)).messages
        await dies(
            other.edit(message.ref, subject="New", scheduled_at=to, bodies=NewBodies("<i>New</i>"))
        )
        reading = Services(Fated(store, Fate(writes=0))).messages  # looking writes nothing
        found = await reading.get(message.ref)
        is_new = found.subject == "New"
        assert found.scheduled_at == (to if is_new else MONDAY)
        html = (await use.bodies(found)).html
        assert html == ("<i>New</i>" if is_new else BODIES.html)
        assert found.status is MessageStatus.PENDING
        assert (await open_refs(services)).count(message.ref) == 1
        assert message.ref in [m.ref for m in (await use.slice()).messages]
        if is_new and changed_from is None:
            changed_from = writes
        assert is_new == (changed_from is not None), "once it counts, it counts"
        # It can be edited, back to where an interruption may have left a row, and be paused.
        again = await use.edit(message.ref, scheduled_at=MONDAY, subject="Again")
        assert await use.get(message.ref) == again
        forth = await use.edit(message.ref, scheduled_at=to, subject="And again")
        assert (await services.message_states.pause(message.ref)).subject == "And again"
        assert (
            (await services.message_states.resume(message.ref)).scheduled_at
            == forth.scheduled_at
            == to
        )
        assert (await open_refs(services)).count(message.ref) == 1
        await use.delete(message.ref)
        assert message.ref not in await open_refs(services)

    # On Azure every third interruption is enough to see that it is no different there.
    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)
    assert changed_from is not None
    assert await blob_names(store) == []


async def test_an_edit_that_loses_the_race_changes_nothing(
    services: Services, store: Store, engine: str
) -> None:
    await make_list(services)
    use = services.messages
    message = await schedule(services, at=MONDAY)
    winner = await use.edit(message.ref, subject="Ann's", bodies=NewBodies("<b>Ann</b>"))

    # Known to be too late before anything is written.
    with pytest.raises(Overtaken):
        await use.edit(message.ref, subject="Bob's", bodies=NewBodies("Bob"), etag=message.etag)
    with pytest.raises(Overtaken):
        await use.delete(message.ref, etag=message.etag)
    # Overtaken just before each of its writes, by an edit that itself changes the time or not.
    for at in (TUESDAY, FRIDAY, MONDAY + timedelta(hours=1)):
        for write in (4,) if engine == "azure" else (1, 2, 3, 4):
            before = await use.edit(message.ref, scheduled_at=MONDAY)

            async def ann(write: int = write, at: datetime = at) -> None:
                nonlocal winner
                to = at if write % 2 else TUESDAY
                winner = await use.edit(message.ref, scheduled_at=to, bodies=NewBodies(f"Ann {at}"))

            fate = Fate(before={write: ann})
            with pytest.raises(Overtaken):
                await Services(Fated(store, fate)).messages.edit(
                    message.ref,
                    subject="Bob's",
                    scheduled_at=at,
                    bodies=NewBodies("Bob", "Bob"),
                    etag=before.etag,
                )
            found = await use.get(message.ref)
            assert found == winner
            assert (await use.bodies(found)).html == f"Ann {at}"
            assert len(await blob_names(store)) == 2
            assert await open_refs(services) == [message.ref]
            assert len(await rows_of(store, entities.INDEX, entities.OPEN)) <= 2


async def test_a_message_rescheduled_to_its_old_time_is_still_found(
    services: Services, store: Store, engine: str
) -> None:
    await make_list(services)
    use = services.messages
    for to in (MONDAY + timedelta(hours=1), TUESDAY):
        for write in range(1, 9, 3 if engine == "azure" else 1):
            message = await schedule(services, at=MONDAY)
            fate = Fate(
                before={
                    write: lambda ref=message.ref: use.edit(  # type: ignore[misc]
                        ref, scheduled_at=MONDAY, subject="Back"
                    )
                }
            )
            try:
                await Services(Fated(store, fate)).messages.edit(message.ref, scheduled_at=to)
            except Overtaken:
                assert (await use.get(message.ref)).scheduled_at == MONDAY
            assert await open_refs(services) == [message.ref], f"lost at write {write}"
            await use.delete(message.ref)


async def test_an_edit_meets_pause_cancel_and_queuing_at_every_write(
    services: Services, store: Store, engine: str
) -> None:
    """Either the edit is refused, or what the other one did counts together with it."""
    await make_list(services)
    use = services.messages

    async def queue(ref: str) -> None:
        rows = services.message_rows
        message = await rows.get_for_change(ref)
        await rows.save(with_status(message, MessageStatus.QUEUING))

    others: dict[MessageStatus, Callable[[str], Awaitable[object]]] = {
        MessageStatus.PAUSED: services.message_states.pause,
        MessageStatus.CANCELLED: services.message_states.cancel,
        MessageStatus.QUEUING: queue,
    }
    for status, other in others.items():
        for write in range(1, 9, 3 if engine == "azure" else 1):
            message = await schedule(services, at=MONDAY)
            fate = Fate(before={write: lambda ref=message.ref, do=other: do(ref)})  # type: ignore[misc]
            overtaken = False
            try:
                await Services(Fated(store, fate)).messages.edit(
                    message.ref, scheduled_at=TUESDAY, bodies=NewBodies("New")
                )
            except Overtaken:
                overtaken = True
            found = await use.get(message.ref)
            assert found.scheduled_at == (MONDAY if overtaken else TUESDAY)
            assert (await use.bodies(found)).html == (BODIES.html if overtaken else "New")
            if fate.written >= write:
                assert found.status is status, f"forgotten at write {write}"


async def test_only_a_pending_message_is_edited_or_deleted(
    services: Services, store: Store
) -> None:
    await make_list(services)
    use = services.messages
    for status in set(MessageStatus) - {MessageStatus.PENDING, MessageStatus.DRAFT}:
        message = await in_status(services, status)
        with pytest.raises(NotNow, match=status):
            await use.delete(message.ref)
        if status is not MessageStatus.PAUSED:  # which can be edited until some of it was sent
            with pytest.raises(NotNow, match=status):
                await use.edit(message.ref, subject="x")
        assert await use.get(message.ref) == message
    before = len(await blob_names(store))
    message = await in_status(services, MessageStatus.PENDING)
    await use.delete(message.ref, etag=message.etag)
    for call in (
        use.get(message.ref),
        use.delete(message.ref),
        services.message_states.cancel(message.ref),
    ):
        with pytest.raises(NoSuch):
            await call
    assert len(await blob_names(store)) == before
    assert message.ref not in await open_refs(services)


async def test_pause_resume_and_cancel_obey_the_table_from_every_status(
    services: Services,
) -> None:
    await make_list(services)
    for status in MessageStatus:
        message = await in_status(services, status)
        for call, to in (
            (services.message_states.pause, MessageStatus.PAUSED),
            (services.message_states.cancel, MessageStatus.CANCELLED),
        ):
            if to in TRANSITIONS[status]:
                continue
            with pytest.raises(NotNow, match=status):
                await call(message.ref)
        if status is not MessageStatus.PAUSED:
            with pytest.raises(NotNow, match=status):
                await services.message_states.resume(message.ref)
        if MessageStatus.PAUSED in TRANSITIONS[status]:
            paused = await services.message_states.pause(message.ref, "the mail server refuses us")
            assert (paused.paused_from, paused.reason) == (status, "the mail server refuses us")
            resumed = await services.message_states.resume(message.ref)
            assert (resumed.status, resumed.paused_from, resumed.reason) == (status, None, "")
        if MessageStatus.CANCELLED in TRANSITIONS[status]:
            cancelled = await services.message_states.cancel(message.ref)
            assert cancelled.status is MessageStatus.CANCELLED
            assert cancelled.reason


async def test_of_pause_and_cancel_at_the_same_time_cancel_wins(services: Services) -> None:
    await make_list(services)
    use = services.messages
    for _ in range(5):
        message = await schedule(services, at=MONDAY)
        results = await asyncio.gather(
            services.message_states.pause(message.ref),
            services.message_states.cancel(message.ref),
            services.message_states.pause(message.ref),
            return_exceptions=True,
        )
        assert all(isinstance(r, Message | NotNow | Overtaken) for r in results), results
        assert (await use.get(message.ref)).status is MessageStatus.CANCELLED


async def test_resume_goes_where_the_last_pause_came_from(services: Services, store: Store) -> None:
    """Between the look and the change: resumed, queued and paused again by others."""
    await make_list(services)
    message = await schedule(services, at=MONDAY)
    await services.message_states.pause(message.ref)

    async def others() -> None:
        resumed = await services.message_states.resume(message.ref)
        await services.message_rows.save(with_status(resumed, MessageStatus.QUEUING))
        await services.message_states.pause(message.ref)

    resumed = await Services(Fated(store, Fate(before={1: others}))).message_states.resume(
        message.ref
    )
    assert resumed.status is MessageStatus.QUEUING


async def test_references_are_unique_however_many_are_made_at_once(
    services: Services,
) -> None:
    await make_list(services)
    made = await asyncio.gather(*(schedule(services, at=MONDAY) for _ in range(50)))
    refs = {message.ref for message in made}
    assert len(refs) == 50
    assert await open_refs(services) == sorted(refs)


async def test_a_message_is_always_found_while_it_goes_to_the_archive_or_another_day(
    services: Services,
) -> None:
    await make_list(services)
    use = services.messages
    for _ in range(3):
        message = await schedule(services, at=MONDAY)
        stopping = asyncio.Event()

        async def look(ref: str = message.ref, stopping: asyncio.Event = stopping) -> int:
            looks = 0
            while not stopping.is_set():
                assert (await use.get(ref)).ref == ref
                looks += 1
            return looks

        lookers = [asyncio.create_task(look()) for _ in range(3)]
        for at in (TUESDAY, MONDAY, FRIDAY, MONDAY, TUESDAY):
            await use.edit(message.ref, scheduled_at=at)
        await services.message_rows.archive(await services.message_states.cancel(message.ref))
        stopping.set()
        assert min(await asyncio.gather(*lookers)) > 0
        assert (await use.get(message.ref)).status is MessageStatus.CANCELLED


async def test_an_archiving_that_is_interrupted_anywhere_is_finished_by_repeating(
    services: Services, store: Store
) -> None:
    await make_list(services)
    use = services.messages

    async def attempt(fate: Fate, writes: int) -> None:
        message = await in_status(services, MessageStatus.COMPLETED)
        await dies(Services(Fated(store, fate)).message_rows.archive(message))
        assert (await use.get(message.ref)).status is MessageStatus.COMPLETED
        for _ in range(2):
            await services.message_rows.archive(await use.get(message.ref))
        assert message.ref not in await open_refs(services)
        assert [m.ref for m in (await use.slice(MessagePart.DONE)).messages].count(message.ref) == 1
        assert await rows_of(store, entities.MESSAGES, message.day) == []
        row = await store.table("messagearchive").get(message.day, f"message{message.ref}")
        assert row is not None
        assert row.properties["Status"] == "Completed"
        assert await use.bodies(await use.get(message.ref)) == BODIES

    assert await cut_after_each_write(attempt) == 4


async def test_open_and_done_messages_come_in_pages_in_the_order_of_their_times(
    services: Services,
) -> None:
    await make_list(services)
    use = services.messages
    made = [await schedule(services, at=MONDAY - timedelta(hours=n)) for n in range(12)]
    for message in made[::3]:
        await services.message_rows.archive(await services.message_states.cancel(message.ref))
    for part in (MessagePart.DONE, MessagePart.OPEN):
        done = part is MessagePart.DONE
        wanted = [m.ref for n, m in reversed(list(enumerate(made))) if (n % 3 == 0) == done]
        found, after = [], None
        for _ in range(10):
            some = await use.slice(part, limit=3, after=after)
            found += [message.ref for message in some.messages]
            after = some.next
            if after is None:
                break
        assert found == wanted
    assert now() < MONDAY


async def test_a_missing_text_is_generated_from_the_html_and_follows_it(
    services: Services,
) -> None:
    await make_list(services)
    use = services.messages
    made = await use.create("contoso1", "Hi", NewBodies("<h1>Hi</h1><p>you</p>"), MONDAY)
    assert made.has_text
    assert await use.bodies(made) == NewBodies("<h1>Hi</h1><p>you</p>", "Hi\n==\n\nyou\n")
    made = await use.edit(made.ref, bodies=NewBodies("<p>All new</p>"))
    assert await use.bodies(made) == NewBodies("<p>All new</p>", "All new\n")
    own = await use.edit(made.ref, bodies=NewBodies(text="My own"))
    own = await use.edit(own.ref, bodies=NewBodies("<p>Newer</p>"))
    assert await use.bodies(own) == NewBodies("<p>Newer</p>", "My own")


async def test_an_empty_text_counts_as_none(services: Services) -> None:
    await make_list(services)
    use = services.messages
    made = await use.create("contoso1", "Hi", NewBodies("<p>you</p>", ""), MONDAY)
    assert (made.has_html, made.has_text) == (True, False)
    made = await use.edit(made.ref, bodies=NewBodies("<p>them</p>"))
    assert await use.bodies(made) == NewBodies("<p>them</p>", None)
