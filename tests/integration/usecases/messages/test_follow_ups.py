"""Follow-ups: the same content with another subject, to those who have not received a message."""

from datetime import UTC, datetime

import pytest

from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.hits import PersonHits
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.tracking import Track
from postroom.scheduler.completion import Completion
from postroom.services.audience.targeting.follow_ups import FollowUp
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import check_pages, fan_out_whole, settle

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED
WHO = "ann@example.com"


async def sent(services: Services, ref: str, outcomes: list[EmailOutcome]) -> Message:
    message = await fan_out_whole(services.store, ref)
    await settle(services, message, 0, outcomes)
    assert await Completion(services).check(message)
    return await services.messages.get(ref)


async def test_new_subscribers_get_the_same_content_and_recipients_do_not_get_it_twice(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    people = await fill(store, name, 6)
    first = (await schedule(services, name)).ref
    with pytest.raises(NotNow, match="wait until it is sent"):
        await services.follow_ups.create(first, FollowUp.NEW, "Again", WHO)
    message = await sent(services, first, [ACCEPTED] * 4 + [REFUSED] * 2)
    retry = await services.retries.retry_refused(first)
    with pytest.raises(NotNow, match=f"{retry.ref} is Pending: wait until it is sent"):
        await services.follow_ups.create(first, FollowUp.NEW, "Again", WHO)
    await sent(services, retry.ref, [ACCEPTED, REFUSED])
    await services.subscriptions.add(name, "new@example.com", verified=True)

    draft = await services.follow_ups.create(first, FollowUp.NEW, "In case you missed it", WHO)
    assert (draft.status, draft.subject) == (MessageStatus.DRAFT, "In case you missed it")
    again = await services.follow_ups.create(first, FollowUp.NEW, "Once more", WHO)
    assert again.exclude_segments == draft.exclude_segments, "the segment is used again"
    scheduled = await services.composing.schedule(draft.ref)
    assert await services.messages.bodies(scheduled) == await services.messages.bodies(message)
    queued = await fan_out_whole(store, draft.ref)
    assert await check_pages(store, queued) == ["new@example.com", people[5].address]


async def test_the_first_audience_still_holds(services: Services, store: Store) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    await services.segments.create(name, "examples", 'email ends with "@example.com"')
    draft = await services.composing.duplicate((await schedule(services, name)).ref, WHO)
    await services.composing.change(draft.ref, ContentChange(segment="examples"), WHO)
    await services.composing.schedule(draft.ref)
    await sent(services, draft.ref, [ACCEPTED] * 3)
    await services.subscriptions.add(name, "in@example.com", verified=True)
    await services.subscriptions.add(name, "out@example.org", verified=True)
    made = await services.follow_ups.create(draft.ref, FollowUp.NEW, "Again", WHO)
    await services.composing.schedule(made.ref)
    assert await check_pages(store, await fan_out_whole(store, made.ref)) == ["in@example.com"]


async def test_those_who_clicked_do_not_get_it_again(services: Services, store: Store) -> None:
    name = await make_list(services)
    people = await fill(store, name, 3)
    who = await services.subscriptions.get(name, people[0].address)
    await services.preferences.save(who, {}, "", tracking=True)
    made = await services.messages.create(
        name,
        "Hello",
        NewBodies('<a href="https://www.example.com/">Read</a>'),
        datetime.now(UTC),
        options=SendingOptions(track=Track.PERSONAL),
    )
    message = await sent(services, made.ref, [ACCEPTED] * 3)
    at = datetime.now(UTC)
    await services.personal_hits.record(message, {who.guid: PersonHits(at, at, frozenset({1}))})
    await services.subscriptions.add(name, "new@example.com", verified=True)

    draft = await services.follow_ups.create(message.ref, FollowUp.UNCLICKED, "Again", WHO)
    await services.composing.schedule(draft.ref)
    queued = await fan_out_whole(store, draft.ref)
    assert await check_pages(store, queued) == [people[1].address, people[2].address]


async def test_it_needs_a_subject_and_clicks_must_be_known(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 1)
    message = await sent(services, (await schedule(services, name)).ref, [ACCEPTED])
    with pytest.raises(Invalid, match="subject"):
        await services.follow_ups.create(message.ref, FollowUp.NEW, "  ", WHO)
    with pytest.raises(NotNow, match="it is not known who clicked"):
        await services.follow_ups.create(message.ref, FollowUp.UNCLICKED, "Again", WHO)
    assert (await services.segments.slice(name)).segments == []
