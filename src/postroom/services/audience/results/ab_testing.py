"""A/B tests: prepared by people, and advanced by the process of the scheduler.

A person's request only changes the row of the test. `advance` does everything else, step by step:
each step can be repeated, and is recorded only when all of it is done. It is called by one process
at a time, so that what cancels a test comes after what it cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from postroom import clock
from postroom.domain.errors import DomainError, Invalid, NotNow, Overtaken
from postroom.domain.messages.messages import FINAL, Message, MessageStatus, check_transition
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.domain.messages.waves.ab_tests import (
    ENDED,
    LETTERS,
    MOST_VARIANTS,
    SHARE,
    WAIT_MINUTES,
    AbState,
    AbTest,
    check_state,
    is_planned,
    parse_share,
    parse_wait,
    ranges,
)
from postroom.domain.messages.waves.buckets import Part
from postroom.services.audience.results.ab_views import AbViews, decided, is_live
from postroom.services.audience.results.message_results import ResultService
from postroom.services.concurrency import retry_on_conflict
from postroom.services.events import EventService
from postroom.services.messages.ab_test_rows import AbTestRows, known_test
from postroom.services.messages.drafts.composing import ComposingService
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_contents import InboxLines, NewBodies, checked_time
from postroom.services.messages.message_states import MessageStates
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending_options import SendingOptions


class AbTestService(AbViews):
    """A/B tests as people and the scheduler's process deal with them."""

    def __init__(
        self,
        rows: AbTestRows,
        messages: MessageService,
        states: MessageStates,
        composing: ComposingService,
        outcomes: OutcomeService,
        results: ResultService,
        events: EventService,
    ) -> None:
        super().__init__(messages, outcomes, results)
        self.rows = rows
        self._states = states
        self._composing = composing
        self._events = events

    async def get(self, ref: str) -> AbTest:
        """Return the test that a message is in. `NoSuch`."""
        return known_test(await self.rows.of(ref), ref)

    async def is_rest_open(self, message: Message) -> bool:
        """Return whether a message is a variant whose test may still add recipients to its rest."""
        if message.part is None:
            return False
        test = await self.rows.of(message.ref)
        if test is None or message.ref not in test.variants:
            return False
        if test.state is not AbState.DONE:
            return test.state not in ENDED
        rest = await self.find(test.rest)
        return rest is not None and not is_planned(rest)

    # -- preparing ---------------------------------------------------------------------------

    async def create(self, ref: str, who: str) -> AbTest:
        """Make a draft the first variant of a new test. `NotNow`, `Exists`, `NoSuch`."""
        message = await self._messages.get(ref)
        if message.status is not MessageStatus.DRAFT:
            raise NotNow(f"the message {ref} is {message.status}: an A/B test begins with a draft")
        return await self.rows.insert(AbTest(message.ref, (message.ref,), clock.now(), who))

    async def add(self, ref: str, change: ContentChange, who: str) -> Message:
        """Add a variant: a duplicate of the first one with this change. `NotNow`, `Invalid`.

        Its reference is recorded first; one that an interruption left without a message counts as
        deleted.
        """

        async def record() -> AbTest:
            test = await self.get(ref)
            check_state(test, AbState.DRAFT)
            existing = [each for each in test.variants if await self.find(each) is not None]
            if test.key not in existing:
                raise NotNow(f"the first variant of the A/B test, {test.key}, was deleted")
            if len(existing) == MOST_VARIANTS:
                raise NotNow(f"an A/B test has at most {MOST_VARIANTS} variants")
            # Another one may be recorded, and its message about to be created.
            kept = test.variants if len(test.variants) < MOST_VARIANTS else existing
            return await self.rows.save(msgspec.structs.replace(test, variants=(*kept, new_ref())))

        test = await retry_on_conflict(record, "A/B test", ref)
        change = msgspec.structs.replace(change, published=False)
        return await self._composing.duplicate(
            test.key, who, change, new_ref=MessageRef(test.variants[-1])
        )

    async def start(
        self,
        ref: str,
        *,
        share: int = SHARE,
        wait_minutes: int = WAIT_MINUTES,
        at: datetime | None = None,
    ) -> AbTest:
        """Start a test at this time, at that of its first variant, or now. The variants are
        scheduled within seconds. `NotNow`, `Invalid`, `Incomplete`."""
        parse_share(share)
        parse_wait(wait_minutes)

        async def save() -> AbTest:
            test = await self.get(ref)
            check_state(test, AbState.DRAFT)
            found = [await self.find(each) for each in test.variants]
            variants = [each for each in found if each is not None]
            await self._check_variants(test, variants)
            return await self.rows.save(
                msgspec.structs.replace(
                    test,
                    variants=tuple(each.ref for each in variants),
                    state=AbState.STARTING,
                    share=share,
                    wait_minutes=wait_minutes,
                    scheduled_at=checked_time(at or variants[0].scheduled_at or clock.now()),
                    rest=new_ref(),
                )
            )

        return await retry_on_conflict(save, "A/B test", ref)

    async def choose(self, ref: str, winner: str, who: str) -> AbTest:
        """End the test now with the variant that a person has chosen. `NotNow`, `Invalid`."""

        async def save() -> AbTest:
            test = await self.get(ref)
            check_state(test, AbState.RUNNING)
            view = await self.view(test)
            chosen = next((each for each in view.variants if each.ref == winner), None)
            if chosen is None or chosen.message is None:
                raise Invalid("winner", f"{winner[:20]} is not a variant of this A/B test")
            if not all(each.message is None or is_planned(each.message) for each in view.variants):
                raise NotNow("the variants are not being sent yet: wait until they are")
            return await self.rows.save(decided(view, MessageRef(winner), chosen_by=who))

        return await retry_on_conflict(save, "A/B test", ref)

    async def cancel(self, ref: str) -> AbTest:
        """End a test: nothing is sent to the rest, and variants whose sending has not started are
        cancelled, within seconds. One that has not been started is removed, and its variants become
        ordinary drafts. `NotNow`."""

        async def save() -> AbTest:
            test = await self.get(ref)
            if test.state is AbState.DRAFT:
                await self.rows.remove(test)
                return msgspec.structs.replace(test, state=AbState.CANCELLED)
            check_state(test, AbState.STARTING, AbState.RUNNING, AbState.DECIDED)
            return await self.rows.save(msgspec.structs.replace(test, state=AbState.CANCELLING))

        return await retry_on_conflict(save, "A/B test", ref)

    # -- advancing ---------------------------------------------------------------------------

    async def advance(self, key: MessageRef) -> AbTest:
        """Do what the state of a test requires now; return the test. Can be repeated after an
        interruption. `NoSuch`, `Overtaken` if a person has changed it in the meantime."""
        test = known_test(await self.rows.get(key), key)
        steps = {
            AbState.STARTING: self._start_variants,
            AbState.RUNNING: self._decide,
            AbState.DECIDED: self._send_rest,
            AbState.CANCELLING: self._cancel_messages,
        }
        while (step := steps.get(test.state)) is not None:
            before = test
            try:
                test = await step(test)
            except Overtaken:
                raise
            except DomainError as exc:
                return await self._note_problem(before, str(exc))
            if test.state is before.state:
                break
        return test

    async def _start_variants(self, test: AbTest) -> AbTest:
        shares = ranges(test.share, len(test.variants))
        for ref, buckets in zip(test.variants, shares, strict=True):
            message = await self.find(ref)
            if message is None:
                continue
            if message.status is MessageStatus.DRAFT:
                part = Part(test.key, buckets)
                await self._composing.schedule(ref, test.scheduled_at, part=part)
            elif message.part is None:  # at the very moment at which the test was started
                raise NotNow(f"the message {ref} was scheduled without the test: cancel the test")
        return await self._save(test, state=AbState.RUNNING, problem="")

    async def _decide(self, test: AbTest) -> AbTest:
        """Decide if it is time. Nobody may be added to a variant afterwards: the rest goes to those
        who are recipients of none."""
        view = await self.view(test)
        live = [each.message for each in view.variants if each.message and is_live(each.message)]
        if not live:
            await self._record(test, "ended: all variants were cancelled")
            return await self._save(test, state=AbState.CANCELLED, problem="no variant was sent")
        if view.decides_at is None and await self._are_sent(live):
            test = await self._save(test, sent_at=clock.now())
            view = await self.view(test)
        if view.decides_at is None or clock.now() < view.decides_at:
            return test
        saved = await self.rows.save(decided(view))
        words = f"variant {saved.letter(saved.winner)} won" if saved.winner else "no clear winner"
        await self._record(saved, f"decided: {words} ({saved.confidence:.0%} confidence)")
        return saved

    async def _send_rest(self, test: AbTest) -> AbTest:
        """Create the message to the rest of the audience, with the content of a variant."""
        source = await self._messages.get(test.source)
        existing = [each for each in test.variants if await self.find(each) is not None]
        bodies = await self._messages.bodies(source)
        files = await self._messages.files(source)
        await self._messages.create(
            source.list_name,
            source.subject,
            NewBodies(bodies.html, bodies.text or ""),  # the same email: no text is generated
            clock.now(),
            audience=source.audience,
            lines=InboxLines(source.preheader, source.from_name, source.reply_to),
            options=SendingOptions(source.track, canary=source.canary),
            attachments=source.attachments,
            files={
                attachment.hash: file.content
                for attachment, file in zip(source.attachments, files, strict=True)
            },
            ref=test.rest,
            part=Part(test.key, without=tuple(existing)),
        )
        return await self._save(test, state=AbState.DONE, problem="")

    async def _cancel_messages(self, test: AbTest) -> AbTest:
        for ref in (*test.variants, test.rest):
            message = await self.find(ref)
            if message is None or message.status in FINAL or message.part is None:
                continue
            if ref == test.rest or message.queued_at is None:
                await self._states.cancel(ref)
        return await self._save(test, state=AbState.CANCELLED)

    async def _are_sent(self, variants: Sequence[Message]) -> bool:
        """Return whether all emails of these variants were tried, some of which wait for another
        attempt."""
        for each in variants:
            is_over = each.status is MessageStatus.COMPLETED
            is_sending = each.status is MessageStatus.PROCESSING
            if not is_over and (not is_sending or await self._outcomes.tried(each) is None):
                return False
        return True

    # -- parts -------------------------------------------------------------------------------

    async def _check_variants(self, test: AbTest, variants: Sequence[Message]) -> None:
        """Raise `NotNow`, `Incomplete` or `Invalid` unless the variants can be sent."""
        if not variants or variants[0].ref != test.key:
            raise NotNow(f"the first variant of the A/B test, {test.key}, was deleted")
        if len(variants) < 2:
            raise NotNow("an A/B test needs at least two variants: add one")
        first = variants[0]
        for letter, each in zip(LETTERS, variants, strict=False):
            check_transition(each.status, MessageStatus.PENDING)
            if (each.lists, each.audience) != (first.lists, first.audience):
                raise Invalid("variants", f"variant {letter} goes to a different audience than A")
            if each.track is not first.track:
                raise Invalid("variants", f"variant {letter} has different tracking than A")
            if each.local_time:
                problem = f"variant {letter} is sent by local time, which A/B tests cannot do"
                raise Invalid("variants", f"{problem}: turn it off")
            try:
                await self._composing.checked(each)
            except Invalid as exc:
                raise Invalid("variants", f"variant {letter} cannot be sent: {exc}") from exc

    async def _save(self, test: AbTest, **changes: object) -> AbTest:
        return await self.rows.save(msgspec.structs.replace(test, **changes))

    async def _note_problem(self, test: AbTest, problem: str) -> AbTest:
        if test.problem == problem:
            return test
        await self._record(test, f"waits: {problem}")
        return await self._save(test, problem=problem)

    async def _record(self, test: AbTest, what: str) -> None:
        message = await self.find(test.key)
        name = f"“{message.subject}”" if message else f"the message {test.key}"
        await self._events.record(
            "scheduler", f"A/B test of {name} {what}", subject=f"message:{test.key}"
        )
