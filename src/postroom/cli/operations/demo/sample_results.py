"""The results of the demo's messages: bounces, with the suppressions that follow from them,
unsubscribes, opens and clicks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.cli.operations.demo.memberships import DemoPerson
from postroom.cli.operations.demo.plans import LINKS
from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.suppressions import (
    Suppression,
    SuppressionReason,
    address_digest,
)
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.messages import Message
from postroom.services.audience.results.engagement import Engagement, HourFigure
from postroom.services.audience.results.message_unsubscribes import TABLE, unsubscribe_row
from postroom.storage import Upsert
from postroom.wiring import Services

_BATCH: Final = 100  # the operations of one batch of the store
_LEAVE_WITHIN: Final = timedelta(days=2)
_OPEN: Final = 0.31  # of delivered emails, by people
_CLICK: Final = 0.17  # of those
_BY_PROXIES: Final = 0.38
_BY_PROGRAMS: Final = 0.03
_SECOND_PEAK: Final = 0.25  # open in the evening or on another day
_BOUNCES: Final = (
    (0.0024, BounceKind.GONE, "550 5.1.1 The mailbox no longer exists"),
    (0.0011, BounceKind.FULL, "552 5.2.2 The mailbox is full"),
    (0.0006, BounceKind.TEMPORARY, "451 4.4.2 The connection timed out too often"),
    (0.0004, BounceKind.COMPLAINT, "Marked as spam"),
)
_SUPPRESSING: Final = {
    BounceKind.GONE: SuppressionReason.GONE,
    BounceKind.COMPLAINT: SuppressionReason.COMPLAINT,
}


def invent_bounces(
    message: Message, accepted: Iterable[DemoPerson], dice: random.Random, now: datetime
) -> list[Bounce]:
    """Return the bounces and complaints that would have arrived by now. Those who are suppressed by
    them get no later message."""
    bounces = []
    for person in accepted:
        chance, at = dice.random(), message.due_at + timedelta(minutes=dice.expovariate(1 / 30))
        for share, kind, text in _BOUNCES if at <= now else ():
            if chance < share:
                bounces.append(_bounce(message, person.address, kind, text, at))
                if kind in _SUPPRESSING:
                    person.suppressed_at = at
                break
            chance -= share
    return bounces


def refusal(message: Message, person: DemoPerson, reply: str, at: datetime) -> Bounce:
    """Return that a dead mailbox was refused, which suppresses the person."""
    person.suppressed_at = at
    found = _bounce(message, person.address, BounceKind.GONE, reply, at)
    return msgspec.structs.replace(found, source=BounceSource.SENDING)


def _bounce(
    message: Message, address: Address, kind: BounceKind, text: str, at: datetime
) -> Bounce:
    return Bounce(
        kind=kind,
        event_id=f"{message.ref},{address}",
        source=BounceSource.SMTP,
        received_at=at,
        list_name=message.list_name,
        address=address,
        ref=message.ref,
        diagnostic=text,
        status=text[4:9] if kind is not BounceKind.COMPLAINT else "",
        by_code=kind is BounceKind.GONE,
    )


async def write_suppressions(services: Services, bounces: Iterable[Bounce]) -> None:
    """Suppress the addresses of dead mailboxes and complaints. Can be repeated."""
    new: dict[Address, Suppression] = {}
    for each in sorted(bounces, key=lambda bounce: bounce.received_at):
        if each.kind not in _SUPPRESSING or each.address is None or each.address in new:
            continue
        new[each.address] = Suppression(
            digest=address_digest(each.address),
            address=each.address,
            reason=_SUPPRESSING[each.kind].value,
            source=each.source.value,
            created_at=each.received_at,
            ref=each.ref,
            diagnostic=each.diagnostic,
        )
    await services.many_suppressions.suppress(list(new.values()))


async def write_results(
    services: Services,
    message: Message,
    html: str,
    base_url: str,
    people: Sequence[DemoPerson],
    bounces: Iterable[Bounce],
    dice: random.Random,
    now: datetime,
) -> None:
    """Write the results that would have arrived by now."""
    bounced = 0
    for each in bounces:
        if each.address is not None and each.source is not BounceSource.SENDING:
            await services.suppressions.bounces.record(each, each.address)
            bounced += each.kind is not BounceKind.COMPLAINT
    await services.delivery_figures.count(message)
    await _write_unsubscribes(services, message, people)
    table = await services.link_tables.prepare(message, html, base_url)
    accepted = message.counts.accepted if message.counts else 0
    sums = _opens_and_clicks(message.due_at, accepted - bounced, len(table) - 1, dice, now)
    await services.engagement.add(message.ref, "demo", sums)
    await services.engagement.forget_batches(message.ref, clock.now())


async def _write_unsubscribes(
    services: Services, message: Message, people: Sequence[DemoPerson]
) -> None:
    """Write the unsubscribes of those who left soon after a message: they used its link."""
    rows = [
        Upsert(unsubscribe_row(message.ref, each.guid, each.left_at))
        for each in sorted(people, key=lambda each: address_key(each.address))
        if each.left_at is not None
        and message.due_at < each.left_at < message.due_at + _LEAVE_WITHIN
        and each.may_receive(message.due_at)
    ]
    table = services.store.table(TABLE)
    for start in range(0, len(rows), _BATCH):
        await table.apply(rows[start : start + _BATCH])


def _opens_and_clicks(
    sent_at: datetime, delivered: int, links: int, dice: random.Random, now: datetime
) -> Engagement:
    liked = dice.uniform(0.8, 1.25)
    opened: Counter[str] = Counter()
    clicked: Counter[str] = Counter()
    targets: Counter[int] = Counter()
    weights = [weight for _, _, weight in LINKS[:links]]
    for _ in range(round(_OPEN * liked * delivered)):
        at = sent_at + timedelta(hours=_hours_later(dice))
        if at > now:
            continue
        opened[_hour(at)] += 1
        if weights and dice.random() < _CLICK * liked:
            clicked[_hour(at)] += 1
            [number] = dice.choices(range(1, len(weights) + 1), weights)
            targets[number] += 1
            if dice.random() < 0.2:
                targets[1] += number != 1
    shown = sum(opened.values()) / max(1.0, _OPEN * liked * delivered)
    return Engagement(
        opened.total(),
        round(_BY_PROXIES * delivered * shown),
        round(_BY_PROGRAMS * delivered * shown),
        clicked.total(),
        round(_BY_PROGRAMS * delivered * shown) * len(weights),
        dict(sorted(targets.items())),
        {hour: HourFigure(opened[hour], clicked[hour]) for hour in sorted(opened)},
    )


def _hours_later(dice: random.Random) -> float:
    """Return a delay: most open immediately, others in the evening or the next day."""
    if dice.random() < _SECOND_PEAK:
        return max(0.1, dice.gauss(10, 2) + 24 * dice.choice((0, 0, 1, 2)))
    return dice.expovariate(1 / 2.2)


def _hour(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H")
