"""Drafts: incomplete, saved again and again, by two at once, interrupted anywhere, scheduled."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.errors import Incomplete, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services import entities
from postroom.services.messages.drafts import message_versions
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.drafts.message_versions import KEPT, version_name
from postroom.services.messages.message_contents import InboxLines
from postroom.services.messages.message_rows import MessagePart
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import blob_names, make_list, now, open_refs

ANN, BOB = "ann@contoso.com", "bob@contoso.com"
MONDAY = datetime(2031, 6, 2, 9, 0, tzinfo=UTC)
WHOLE = ContentChange(
    list_name="contoso1",
    subject="Winter",
    preheader="It is cold",
    from_name="Ann",
    reply_to="ann@contoso.com",
    body="<p>Hello</p>",
    text="",
    scheduled_at=MONDAY,
)


async def draft_refs(services: Services) -> list[str]:
    found = await services.messages.slice(MessagePart.DRAFTS)
    assert {each.ref for each in found.messages} == {
        each.ref for each in await services.times.drafts(limit=100)
    }
    return [each.ref for each in found.messages]


async def test_a_draft_may_lack_everything_and_no_scheduler_reads_it(
    services: Services, store: Store
) -> None:
    draft = await services.composing.create(ContentChange(), ANN)

    assert (draft.status, draft.list_name, draft.subject) == (MessageStatus.DRAFT, "", "")
    assert draft.scheduled_at is None
    assert await store.table("message").get("draft", f"message{draft.ref}") is not None
    assert await services.messages.get(draft.ref) == draft
    assert await draft_refs(services) == [draft.ref]
    assert await open_refs(services) == []
    assert (await store.queue("mail/schedule").info()).length == 0
    for change in (
        services.message_states.pause,
        services.message_states.resume,
        services.message_states.cancel,
    ):
        with pytest.raises(NotNow, match="Draft"):
            await change(draft.ref)
    with pytest.raises(Incomplete) as missing:
        await services.composing.schedule(draft.ref)
    assert list(missing.value.problems) == ["list", "subject", "body"]


async def test_a_draft_is_saved_scheduled_and_becomes_a_draft_again(
    services: Services, store: Store
) -> None:
    await make_list(services)
    use = services.composing
    draft = await use.create(ContentChange(subject="Win"), ANN)

    saved = await use.save(draft.ref, WHOLE, ANN, etag=draft.etag)
    with pytest.raises(Overtaken):
        await use.save(draft.ref, ContentChange(subject="Lost"), ANN, etag=draft.etag)
    part = await use.change(draft.ref, ContentChange(subject="Winter sale"), ANN, etag=saved.etag)

    content = await use.content(part)
    assert (content.subject, content.body, content.text) == ("Winter sale", "<p>Hello</p>", "")
    assert content.lines == InboxLines("It is cold", "Ann", "ann@contoso.com")
    scheduled = await use.schedule(draft.ref, etag=part.etag)
    assert (scheduled.status, scheduled.scheduled_at) == (MessageStatus.PENDING, MONDAY)
    assert scheduled.reply_to == "ann@contoso.com"
    bodies = await services.messages.bodies(scheduled)
    assert (bodies.html, bodies.text) == ("<p>Hello</p>", "Hello\n")
    assert await open_refs(services) == [draft.ref]
    assert await draft_refs(services) == []
    assert (await store.queue("mail/schedule").info()).length == 1
    with pytest.raises(NotNow, match="Pending"):
        await use.save(draft.ref, WHOLE, ANN)

    again = await use.unschedule(draft.ref)

    assert again.status is MessageStatus.DRAFT
    assert (await use.content(again)).text == "", "it was generated"
    assert await open_refs(services) == []
    assert await draft_refs(services) == [draft.ref]
    await services.messages.delete(draft.ref)
    assert await blob_names(store) == []
    assert [each async for each in store.table(entities.VERSIONS).scan()] == []
    with pytest.raises(NoSuch):
        await use.schedule(draft.ref)


async def test_what_is_missing_or_wrong_is_named_by_field(services: Services) -> None:
    await make_list(services)
    use = services.composing
    wrong = ContentChange(
        list_name="nowhere", subject="{{ nothing }}", reply_to="not an address", body="<p> </p>"
    )
    draft = await use.create(wrong, ANN)
    with pytest.raises(Incomplete) as refused:
        await use.schedule(draft.ref)
    assert list(refused.value.problems) == ["list", "subject", "reply_to", "body"]
    assert await services.messages.get(draft.ref) == draft


async def test_saving_interrupted_anywhere_leaves_the_draft_as_it_was_or_as_it_is(
    services: Services, store: Store
) -> None:
    await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        draft = await services.composing.create(WHOLE, ANN)
        fated = Services(Fated(store, fate))
        change = ContentChange(subject="New", body="<p>New</p>", text="")
        await dies(fated.composing.save(draft.ref, change, BOB, etag=draft.etag))
        found = await services.messages.get(draft.ref)
        content = await services.composing.content(found)
        assert (content.subject, content.body) in (
            ("Winter", "<p>Hello</p>"),
            ("New", "<p>New</p>"),
        )
        for version in await services.composing.versions.all(draft.ref):
            await services.composing.content(version)
        assert draft.ref in await draft_refs(services)
        if not fate.is_dead:
            [kept] = await services.composing.versions.all(draft.ref)
            assert (await services.composing.content(kept)).body == "<p>Hello</p>"

    await cut_after_each_write(attempt)


@pytest.mark.parametrize("call", ["schedule", "unschedule"])
async def test_scheduling_interrupted_anywhere_leaves_one_message_that_is_listed_once(
    call: str, services: Services, store: Store
) -> None:
    await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        message = await services.composing.create(WHOLE, ANN)
        if call == "unschedule":
            message = await services.composing.schedule(message.ref)
        fated = Services(Fated(store, fate))
        await dies(getattr(fated.composing, call)(message.ref))
        found = await services.messages.get(message.ref)
        assert (await services.composing.content(found)).body == "<p>Hello</p>"
        is_draft = found.status is MessageStatus.DRAFT
        assert (message.ref in await draft_refs(services)) is is_draft
        assert (message.ref in await open_refs(services)) is not is_draft
        # Whether the call was finished or not, the message can still be scheduled.
        if is_draft:
            assert (await services.composing.schedule(message.ref)).day == "2031-06-02"
        await services.messages.delete(message.ref)
        assert message.ref not in await draft_refs(services) + await open_refs(services)

    await cut_after_each_write(attempt)


async def test_the_last_versions_are_kept_and_can_be_restored(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = services.composing
    draft = await use.create(ContentChange(body="0", text=""), ANN)
    for number in range(1, 4):
        draft = await use.save(draft.ref, ContentChange(body=str(number), text=""), ANN)
    assert await use.versions.all(draft.ref) == [], "a few minutes of one person are one version"

    draft = await use.save(draft.ref, ContentChange(body="Bob's", text=""), BOB)
    [mine] = await use.versions.all(draft.ref)
    assert (mine.edited_by, (await use.content(mine)).body) == (ANN, "3")

    monkeypatch.setattr(message_versions, "SPAN", timedelta(0))
    for number in range(KEPT + 5):
        draft = await use.save(draft.ref, ContentChange(body=f"v{number}", text=""), BOB)
    versions = await use.versions.all(draft.ref)
    assert len(versions) == KEPT
    bodies = [(await use.content(each)).body for each in versions]
    assert bodies == [f"v{number}" for number in reversed(range(4, KEPT + 4))]
    assert len(await blob_names(store)) == KEPT + 1, "no version that nobody can restore"

    restored = await use.restore(draft.ref, version_name(versions[2]), ANN, etag=draft.etag)
    assert (await use.content(restored)).body == bodies[2]
    [newest, *_] = await use.versions.all(draft.ref)
    assert (await use.content(newest)).body == f"v{KEPT + 4}"
    for unknown in ("20200101T000000.000000Z", "../\x00", ""):
        with pytest.raises(NoSuch):
            await use.restore(draft.ref, unknown, ANN)


async def test_a_text_that_gives_way_to_another_is_kept_as_a_version(services: Services) -> None:
    use = services.composing
    draft = await use.create(ContentChange(body="theirs", text=""), BOB)
    await use.keep_as_version(draft.ref, ContentChange(body="mine", text=""), ANN)
    [aside] = await use.versions.all(draft.ref)
    assert (aside.edited_by, (await use.content(aside)).body) == (ANN, "mine")
    assert (await use.content(await services.messages.get(draft.ref))).body == "theirs"


async def test_two_people_who_save_at_random_lose_nothing_that_was_saved(
    services: Services,
) -> None:
    """Each writer adds lines to what they last saw, and reads again after losing a race."""
    use = services.composing
    draft = await use.create(ContentChange(body="", text=""), ANN)
    accepted: list[str] = []
    until = now() + timedelta(seconds=3)
    chance = random.Random(17)

    async def write(who: str) -> None:
        for number in range(60):
            if now() > until:
                break
            seen, content = await use.read(draft.ref)
            line = f"{who} {number}\n"
            await asyncio.sleep(chance.uniform(0, 0.01))
            change = ContentChange(body=content.body + line, text="")
            try:
                await use.save(draft.ref, change, who, etag=seen.etag)
            except Overtaken:
                continue
            accepted.append(line)

    await asyncio.gather(write(ANN), write(BOB), write(ANN + "2"))
    _, final = await use.read(draft.ref)
    assert len(accepted) > 5
    assert sorted(final.body.splitlines(keepends=True)) == sorted(accepted)
    for version in await use.versions.all(draft.ref):
        await use.content(version)  # each can be read


async def test_a_draft_is_duplicated_and_handed_over(services: Services) -> None:
    await make_list(services)
    use = services.composing
    draft = await use.create(WHOLE, ANN)
    sent: Message = await use.schedule(draft.ref)
    copy = await use.duplicate(sent.ref, BOB)
    assert copy.ref != draft.ref
    assert (copy.status, copy.scheduled_at, copy.edited_by) == (MessageStatus.DRAFT, None, BOB)
    assert (await use.content(copy)).body == "<p>Hello</p>"

    ready = await use.hand_over(copy.ref, ANN)
    assert ready.ready_by == ANN
    saved = await use.save(copy.ref, ContentChange(subject="Again"), BOB)
    assert saved.ready_by == ANN
    assert (await use.hand_over(copy.ref, BOB, is_ready=False)).ready_by == ""


async def test_creating_again_with_the_same_reference_finds_the_scheduled_message(
    services: Services,
) -> None:
    await make_list(services)
    draft = await services.composing.create(WHOLE, ANN)
    scheduled = await services.composing.schedule(draft.ref)
    again = await services.composing.create(WHOLE, ANN, ref=draft.ref)
    assert again == scheduled
    assert (await services.messages.get(draft.ref)).status is MessageStatus.PENDING
