"""Compares bounce and complaint rates with what providers tolerate: warns, and holds emails back.

| table            | partition | row             | holds                                          |
|------------------|-----------|-----------------|------------------------------------------------|
| `deliverylimits` | REF       | what, provider  | how many reports there were when it was noticed|
|                  | `period`  | what, list or   | the same for all messages of 30 days, and when |
|                  |           | provider        | that was                                       |

Rates of single messages say little if messages are small: therefore those of each list and each
provider within 30 days are compared, too.

A hold waits for hours before its first probe, because the next emails would be accepted just like
those that bounced later; *Try now* lifts it earlier. It opens again only if the number of reports
has doubled.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.suppression.delivery_figures import (
    NOTICED_RATES,
    PERIOD,
    DeliveryFigures,
    DeliveryFigureService,
    MessageFigures,
    PeriodFigures,
)
from postroom.services.entities import read
from postroom.services.events import EventService, Severity
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.holds import Fault, HoldKey, message_key
from postroom.storage import Entity, Store, Value
from postroom.transport.contract import FaultScope

GMAIL_COMPLAINTS: Final = 0.1
"""Percent. Gmail recommends less, and Gmail and Yahoo require less than 0.3."""
MOST_COMPLAINTS: Final = 0.3
MANY_BOUNCES: Final = 5.0
"""Percent of a message: Amazon SES, for example, reviews accounts above that."""

_PERIOD: Final = "period"
_LEAST_REPORTS: Final = 3
"""Fewer may be chance."""
_LEAST_BOUNCES: Final = 20
_COMPLAINT_REST: Final = timedelta(hours=24)
_REJECTION_REST: Final = timedelta(hours=1)


class HoldRates(msgspec.Struct, frozen=True):
    """Percent of accepted emails above which emails are held back; None: never."""

    complaints: float | None = MOST_COMPLAINTS
    rejections: float | None = 1.0
    bounces: float | None = 10.0


class RateKind(StrEnum):
    COMPLAINTS = "complaints"
    REJECTIONS = "rejections"
    BOUNCES = "bounces"


class RateFinding(msgspec.Struct, frozen=True):
    """A rate that is too high, of a message or of its emails to one provider; or, of all messages
    of 30 days (`is_of_period`), to one provider or on one list."""

    kind: RateKind
    provider: Provider | None
    count: int
    accepted: int
    holds: bool
    list_name: ListName | None = None
    is_of_period: bool = False

    @property
    def percent(self) -> float:
        return percent(self.count, self.accepted)

    @property
    def key(self) -> str:
        held = "held" if self.holds else "noticed"
        where = f"list {self.list_name}" if self.list_name else self.provider or ""
        return f"{self.kind},{where},{held}"


def percent(count: int, accepted: int) -> float:
    return 100.0 * count / accepted if accepted else 0.0


def find_high_rates(figures: MessageFigures, rates: HoldRates) -> list[RateFinding]:
    """Return the rates of a message that are too high."""
    found = list(_of_complaints(None, figures.total, rates))
    found += _of_bounces(None, figures.total, rates)
    for provider, each in figures.providers.items():
        found += _of_complaints(provider, each, rates)
        found += _of_rejections(provider, each, rates)
    return found


def find_high_rates_of_period(figures: PeriodFigures, rates: HoldRates) -> list[RateFinding]:
    """Return the rates of 30 days that are too high. Lists are never held: their next message may
    be better."""
    found = list[RateFinding]()
    for provider, each in figures.providers.items():
        found += _of_complaints(provider, each, rates)
        found += _of_rejections(provider, each, rates)
        found += _of_bounces(provider, each, HoldRates(bounces=None))
    never = HoldRates(None, None, None)
    found = [msgspec.structs.replace(each, is_of_period=True) for each in found]
    for name, each in figures.lists.items():
        of_list = (*_of_complaints(None, each, never), *_of_bounces(None, each, never))
        found += [
            msgspec.structs.replace(one, list_name=name, is_of_period=True) for one in of_list
        ]
    return found


def _of_bounces(
    provider: Provider | None, figures: DeliveryFigures, rates: HoldRates
) -> Iterator[RateFinding]:
    rate = percent(figures.bounced, figures.accepted)
    holds = rates.bounces is not None and rate >= rates.bounces
    if figures.bounced >= _LEAST_BOUNCES and (holds or rate > MANY_BOUNCES):
        yield RateFinding(
            RateKind.BOUNCES, provider, figures.bounced, figures.accepted, holds=holds
        )


def _of_rejections(
    provider: Provider, figures: DeliveryFigures, rates: HoldRates
) -> Iterator[RateFinding]:
    limit = rates.rejections
    if limit is None or figures.rejected < _LEAST_REPORTS:
        return
    if percent(figures.rejected, figures.accepted) > limit:
        yield RateFinding(
            RateKind.REJECTIONS, provider, figures.rejected, figures.accepted, holds=True
        )


def _of_complaints(
    provider: Provider | None, figures: DeliveryFigures, rates: HoldRates
) -> Iterator[RateFinding]:
    rate = percent(figures.complained, figures.accepted)
    if figures.complained < _LEAST_REPORTS or rate < GMAIL_COMPLAINTS:
        return
    holds = rates.complaints is not None and rate >= rates.complaints
    yield RateFinding(
        RateKind.COMPLAINTS, provider, figures.complained, figures.accepted, holds=holds
    )


class DeliveryLimits:
    def __init__(
        self,
        store: Store,
        messages: MessageService,
        figures: DeliveryFigureService,
        holds: HoldService,
        events: EventService,
        rates: HoldRates,
    ) -> None:
        self._table = store.table(NOTICED_RATES)
        self._messages = messages
        self._figures = figures
        self._holds = holds
        self._events = events
        self._rates = rates

    async def check(self, ref: MessageRef) -> list[RateFinding]:
        """Count the bounces of a message; report rates that are too high, and open holds. Can be
        repeated: the record that it was done comes last. `NoSuch`."""
        message = await self._messages.get(ref)
        figures = await self._figures.count(message)
        new: list[RateFinding] = []
        for finding in find_high_rates(figures, self._rates):
            before = await self._table.get(ref, finding.key)
            if before is not None and finding.count < 2 * read(before, "Count", int):
                continue
            await self._act(message, finding)
            await self._table.upsert(Entity(ref, finding.key, {"Count": finding.count}))
            new.append(finding)
        return new

    async def check_period(self) -> list[RateFinding]:
        """Report rates of the last 30 days that are too high, once, and again when the reports have
        doubled or 30 days later; open holds. Can be repeated like `check`."""
        new, now = list[RateFinding](), clock.now()
        for finding in find_high_rates_of_period(await self._figures.of_period(), self._rates):
            before = await self._table.get(_PERIOD, finding.key)
            is_known = before is not None and read(before, "At", datetime) > now - PERIOD
            if is_known and before and finding.count < 2 * read(before, "Count", int):
                continue
            if finding.holds:
                await self._holds.open(_fault(None, finding))
            else:
                await self._events.record(
                    "bounces", describe_finding(finding), severity=Severity.WARNING
                )
            noticed: dict[str, Value] = {"Count": finding.count, "At": now}
            await self._table.upsert(Entity(_PERIOD, finding.key, noticed))
            new.append(finding)
        return new

    async def _act(self, message: Message, finding: RateFinding) -> None:
        if finding.holds and (finding.provider or message.status not in FINAL):
            await self._holds.open(_fault(message, finding))
            return  # which has its own event
        await self._events.record(
            "bounces",
            f"message “{message.subject}”: {describe_finding(finding)}",
            severity=Severity.WARNING,
            subject=f"message:{message.ref}",
        )


def _fault(message: Message | None, finding: RateFinding) -> Fault:
    rest = _REJECTION_REST if finding.kind is RateKind.REJECTIONS else _COMPLAINT_REST
    text = describe_finding(finding)
    if finding.provider is None and message is not None:
        return Fault(FaultScope.MESSAGE, message_key(message.ref), text, "", rest=rest)
    key = HoldKey(f"provider:{finding.provider}")
    return Fault(FaultScope.PROVIDER, key, text, "", rest=rest)


def describe_finding(finding: RateFinding) -> str:
    """Return a finding as a sentence without its full stop."""
    where = f" at {finding.provider}" if finding.provider else ""
    where += f" of list {finding.list_name}" if finding.list_name else ""
    where += " within 30 days" if finding.is_of_period else ""
    share = f"{finding.count:,} of {finding.accepted:,} emails{where} ({finding.percent:.2f}%)"
    if finding.kind is RateKind.COMPLAINTS:
        return (
            f"{share} were marked as spam; Gmail recommends less than 0.1%, and Gmail and Yahoo"
            " require less than 0.3%"
        )
    if finding.kind is RateKind.REJECTIONS:
        return f"{share} were rejected because of our reputation or the content"
    return f"{share} bounced"
