"""A/B tests with everything that is known about them: messages, numbers, the verdict so far."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.ab_tests import (
    AbState,
    AbTest,
    AbVerdict,
    VariantFigures,
    judged,
)
from postroom.services.audience.results.message_results import ResultService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.sending.outcomes import OutcomeService


class AbVariant(msgspec.Struct, frozen=True):
    """A variant of a test with its numbers; `message` is None if it was deleted."""

    ref: MessageRef
    letter: str
    message: Message | None
    figures: VariantFigures = VariantFigures()


class AbView(msgspec.Struct, frozen=True):
    """A test with everything that is known about it. `verdict` is what the numbers say so far about
    the variants in `judged`, by their positions there."""

    test: AbTest
    variants: tuple[AbVariant, ...]
    rest: Message | None = None
    verdict: AbVerdict | None = None
    judged: tuple[AbVariant, ...] = ()
    decides_at: datetime | None = None

    @property
    def messages(self) -> list[Message]:
        """Return its messages: working with a test requires a right on the lists of each."""
        found = [each.message for each in self.variants]
        return [each for each in (*found, self.rest) if each is not None]

    @property
    def best(self) -> AbVariant | None:
        return None if self.verdict is None else self.judged[self.verdict.best]


class AbViews:
    """Reads the messages of tests and their numbers."""

    def __init__(
        self, messages: MessageService, outcomes: OutcomeService, results: ResultService
    ) -> None:
        self._messages = messages
        self._outcomes = outcomes
        self._results = results

    async def view(self, test: AbTest) -> AbView:
        """Return a test with its messages and numbers."""
        variants = tuple([await self._variant(test, ref) for ref in test.variants])
        rest = await self.find(test.rest) if test.rest else None
        live = tuple(each for each in variants if is_live(each.message) and each.figures.accepted)
        if len(live) < 2:
            return AbView(test, variants, rest, decides_at=decides_at(test, variants))
        verdict = judged([each.figures for each in live])
        return AbView(test, variants, rest, verdict, live, decides_at(test, variants))

    async def find(self, ref: str) -> Message | None:
        """Return a message; None if it was deleted, or never created."""
        try:
            return await self._messages.get(ref)
        except NoSuch:
            return None

    async def _variant(self, test: AbTest, ref: MessageRef) -> AbVariant:
        message = await self.find(ref)
        if message is None or message.queued_at is None:
            return AbVariant(ref, test.letter(ref), message)
        results = await self._results.of_message(message)
        accepted = (await self._outcomes.counts(message)).accepted
        figures = VariantFigures(accepted, results.clicked, results.unsubscribed)
        return AbVariant(ref, test.letter(ref), message, figures)


def is_live(message: Message | None) -> bool:
    """Return whether a variant takes part: it was neither deleted nor cancelled."""
    return message is not None and message.status is not MessageStatus.CANCELLED


def decides_at(test: AbTest, variants: Sequence[AbVariant]) -> datetime | None:
    """Return when the waiting time is over; None if it has not begun, because a variant is paused
    or still being sent: those whose emails are sent last need as long to respond."""
    if test.state is not AbState.RUNNING:
        return None
    live = [each.message for each in variants if each.message and is_live(each.message)]
    if not live or any(each.status is MessageStatus.PAUSED for each in live):
        return None
    sent_at = test.sent_at
    if sent_at is None or any(each.resumed_at and each.resumed_at > sent_at for each in live):
        done = [each.completed_at for each in live if each.completed_at is not None]
        if len(done) < len(live):
            return None
        sent_at = max(done)
    return sent_at + timedelta(minutes=test.wait_minutes)


def decided(view: AbView, winner: MessageRef | None = None, chosen_by: str = "") -> AbTest:
    """Return the test with its decision: what a person chose, or what the numbers say. Without a
    winner, the first variant that takes part is sent to the rest."""
    verdict = view.verdict
    if winner is None:
        place = None if verdict is None else verdict.winner
        winner = MessageRef("") if place is None else view.judged[place].ref
    live = (each.ref for each in view.variants if is_live(each.message))
    return msgspec.structs.replace(
        view.test,
        state=AbState.DECIDED,
        winner=winner,
        source=winner or next(live),
        chosen_by=chosen_by,
        criterion=None if verdict is None else verdict.criterion,
        confidence=0.0 if verdict is None else verdict.confidence,
        decided_at=clock.now(),
        problem="",
    )
