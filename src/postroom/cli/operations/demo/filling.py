"""Writes the demo's data into an empty store, as Postroom would have written it in 90 days.

The lists come last: if this is interrupted, it is done again, because there is no list yet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Final, TypeVar

import msgspec

from postroom import clock
from postroom.cli.operations.demo.memberships import DemoPerson, invent, movements, totals
from postroom.cli.operations.demo.plans import (
    DAYS,
    DRAFTS,
    NEWS,
    PLANS,
    SEGMENTS,
    SENT_NOW,
    TO_COME,
    Edition,
    ListPlan,
    html_of,
)
from postroom.cli.operations.demo.sample_results import (
    invent_bounces,
    refusal,
    write_results,
    write_suppressions,
)
from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.errors import NotNow
from postroom.domain.messages.delivery.bounces import Bounce
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message, MessageFormat, MessageStatus
from postroom.domain.messages.page_emails import EmailState, PageEmails
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.domain.messages.refs import new_ref
from postroom.domain.messages.tracking import Track
from postroom.sender.pages.page_sending import LEFT
from postroom.services import entities
from postroom.services.audience.growth.growth_history import (
    EVERY,
    GrowthHistory,
    list_partition,
    summed,
)
from postroom.services.audience.signup.unsubscribes import departed_row
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies, with_text
from postroom.services.messages.sending.page_rows import Page, page_entity
from postroom.settings import Settings
from postroom.storage import Entity, Operation, Table, Upsert
from postroom.transport.registry import sends_mail
from postroom.wiring import Services

RATE: Final = "60"
"""Emails per second, so that there is something to watch for a minute or two."""

_SEED: Final = 16
_AUTHOR: Final = "ben@example.com"
_BATCH: Final = 100  # the operations of one batch of the store
_AT_ONCE: Final = 8  # batches
_PER_SECOND: Final = 900.0  # of messages that were sent
_FULL: Final = 0.002  # of mailboxes refuse a message
_LEAVING: Final = 0.0004  # of recipients leave while a message is prepared
_ACCEPTED: Final = "250 2.0.0 Ok: queued"
_UNKNOWN: Final = "550 5.1.1 The email account that you tried to reach does not exist"
_NO_SPACE: Final = "552 5.2.2 The mailbox is over its quota"

T = TypeVar("T")


async def fill_with_examples(services: Services, settings: Settings) -> bool:
    """Create example data, for `--demo`; return False if there are lists already.

    `NotNow` with a transport that sends: the addresses are invented (RFC 2606).
    """
    if sends_mail(settings.transport.url):
        raise NotNow("--demo sends to invented addresses: use the transport outbox:")
    if (await services.lists.slice(limit=1)).lists:
        return False
    now = clock.now()
    days = [now.date() - timedelta(days=ago) for ago in range(DAYS, 0, -1)]
    history = GrowthHistory(services.store)
    together: dict[date, tuple[int, int]] = {}
    bounces: list[Bounce] = []
    for number, plan in enumerate(PLANS):
        dice = random.Random(_SEED + number)  # noqa: S311 - every demo looks the same
        sent = [_time_of(mailing, now) for mailing in plan.mailings]
        people = invent(plan, sent, dice, now)
        await _write_people(services, ListName(plan.name), people)
        messages = [
            _sent_message(plan, mailing, at, people, dice, now)
            for mailing, at in zip(plan.mailings, sent, strict=True)
        ]
        await asyncio.gather(*(_write_message(services, each) for each in messages))
        for each in messages:
            bounces += each.bounces
            base_url = settings.web.base_url
            await write_results(
                services, each.message, each.html, base_url, people, each.bounces, dice, now
            )
        grown = totals(people, days)
        await history.fill(list_partition(plan.name), grown)
        await services.movements.write(ListName(plan.name), movements(people, days))
        together = summed(together, grown)
    await history.fill(EVERY, together)
    await history.finish_building()
    for plan in PLANS:
        await _create_list(services, plan, now)
    await write_suppressions(services, bounces)
    for mailing in (SENT_NOW, TO_COME):
        at = now if mailing is SENT_NOW else _time_of(mailing, now)
        bodies = NewBodies(html_of(NEWS, mailing))
        await services.messages.create(NEWS.name, mailing.subject, bodies, at)
    for draft in DRAFTS:
        change = ContentChange(
            list_name=draft.list_name,
            subject=draft.subject,
            format=MessageFormat.BLOCKS,
            body=draft.source,
        )
        await services.composing.create(change, _AUTHOR)
    return True


def _time_of(mailing: Edition, now: datetime) -> datetime:
    day = now - timedelta(days=mailing.days)
    return day.replace(hour=mailing.hour, minute=0, second=0, microsecond=0)


# -- lists and subscribers ------------------------------------------------------------------------


async def _create_list(services: Services, plan: ListPlan, now: datetime) -> None:
    created = await services.lists.create(plan.name, plan.description, plan.sender)
    older = msgspec.structs.replace(
        created, created_at=now - timedelta(days=plan.age), track=Track.AGGREGATE.value
    )
    await services.store.table(entities.LISTS).replace(entities.list_entity(older), created.etag)
    await services.fields.declare(plan.name, [Field("city")])
    for name, rule in SEGMENTS.items():
        await services.segments.create(plan.name, name, rule)


async def _write_people(services: Services, name: ListName, people: Sequence[DemoPerson]) -> None:
    """Write those who are on the list, and the unsubscribes of the others."""
    present: list[Operation] = []
    departed: list[Operation] = []
    for each in people:
        if each.left_at is None:
            present += map(Upsert, _rows_of(name, each))
        else:
            row = departed_row(name, each.address)
            departed.append(Upsert(Entity(name, row, {"LeftAt": each.left_at})))
    store = services.store
    await _write(store.table(entities.LISTS), present)
    await _write(store.table(entities.DEPARTED), departed)


def _rows_of(name: ListName, person: DemoPerson) -> list[Entity]:
    subscriber = Subscriber(
        name,
        person.address,
        person.guid,
        person.verified_at is not None,
        person.joined,
        person.verified_at,
        attributes=person.attributes,
    )
    return [entities.subscriber_entity(subscriber), entities.lookup_entity(subscriber)]


async def _write(table: Table, operations: Sequence[Operation]) -> None:
    """Write operations of one partition in batches, some at a time."""
    for some in _batches(operations, _BATCH * _AT_ONCE):
        await asyncio.gather(*(table.apply(batch) for batch in _batches(some, _BATCH)))


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


# -- messages -------------------------------------------------------------------------------------


class _SentMessage(msgspec.Struct, frozen=True):
    """A message that was sent, with its pages, its HTML, and what came back."""

    message: Message
    pages: list[Page]
    html: str
    bounces: list[Bounce]


def _sent_message(
    plan: ListPlan,
    mailing: Edition,
    at: datetime,
    people: Sequence[DemoPerson],
    dice: random.Random,
    now: datetime,
) -> _SentMessage:
    recipients = sorted(
        (each for each in people if each.may_receive(at)),
        key=lambda each: address_key(each.address),
    )
    message = Message(
        ref=new_ref(int(at.timestamp() * 1000) - 7_200_000),
        list_name=ListName(plan.name),
        subject=mailing.subject,
        scheduled_at=at,
        status=MessageStatus.COMPLETED,
        created_at=at - timedelta(hours=2),
        has_html=True,
        has_text=True,
        from_address=Address(plan.sender),
        list_description=plan.description,
        track=Track.AGGREGATE,
        queued_at=at + timedelta(seconds=1),
        completed_at=at + timedelta(seconds=4 + len(recipients) / _PER_SECOND),
    )
    pages = [
        _page(message, number, some, dice)
        for number, some in enumerate(_batches(recipients, PAGE_SIZE))
    ]
    counts = sum((page.counts for page in pages), Counts())
    message = msgspec.structs.replace(message, queued_pages=len(pages), counts=counts)
    bounces = _bounces(message, pages, recipients, dice, now)
    return _SentMessage(message, pages, html_of(plan, mailing), bounces)


def _bounces(
    message: Message,
    pages: Sequence[Page],
    recipients: Sequence[DemoPerson],
    dice: random.Random,
    now: datetime,
) -> list[Bounce]:
    """Return what came back, and what the refusals of dead mailboxes said."""
    states = [state for page in pages for _, state in page.emails]
    refusals: list[Bounce] = []
    accepted: list[DemoPerson] = []
    for person, state in zip(recipients, states, strict=True):
        if state.outcome is EmailOutcome.ACCEPTED:
            accepted.append(person)
        elif state.reply == _UNKNOWN and state.at is not None:
            refusals.append(refusal(message, person, state.reply, state.at))
    return refusals + invent_bounces(message, accepted, dice, now)


async def _write_message(services: Services, sent: _SentMessage) -> None:
    """Write a message with its bodies, its pages and its event."""
    message, counts = sent.message, sent.message.counts or Counts()
    await services.message_rows.reserve_ref(message.day, message.ref)
    bodies = await with_text(NewBodies(sent.html))
    await services.message_bodies.write(message, bodies)
    await _write(services.pages.table, [Upsert(page_entity(page)) for page in sent.pages])
    await services.message_rows.archive(message)
    await services.events.record(
        "scheduler",
        f"message “{message.subject}” to {message.list_name} sent:"
        f" {counts.accepted:,} accepted, {counts.refused:,} refused",
        subject=f"message:{message.ref}",
        at=message.completed_at,
    )


def _page(message: Message, number: int, people: Sequence[DemoPerson], dice: random.Random) -> Page:
    at = message.due_at + timedelta(seconds=2 + PAGE_SIZE * number / _PER_SECOND)
    accepted = EmailState(EmailOutcome.ACCEPTED, _ACCEPTED, 1, at=at)
    states = dict.fromkeys(range(len(people)), accepted)
    for place, person in enumerate(people):
        chance = dice.random()
        if person.dead:
            states[place] = EmailState(EmailOutcome.REFUSED, _UNKNOWN, 1, at=at)
        elif chance < _FULL:
            states[place] = EmailState(EmailOutcome.REFUSED, _NO_SPACE, 1, at=at)
        elif chance > 1 - _LEAVING:
            states[place] = EmailState(EmailOutcome.SUPPRESSED, LEFT, at=at)
    emails = PageEmails.planned({person.address: person.guid for person in people})
    return Page(message.day, message.ref, number, emails.settled(states))
