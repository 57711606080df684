"""What must hold at every step of a run, and at its end."""

from __future__ import annotations

import traceback
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.pages import CONFIRM_QUEUE, SEND_QUEUE
from postroom.sender.policy import MOST_COPIES
from postroom.services import entities
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.sending.outcomes import EmailRecord, OutcomeService
from postroom.services.messages.sending.page_rows import Page, PageRows, page_from
from postroom.storage import Entity
from tests.simulation.host import MOST_ATTEMPTS, QUEUES
from tests.simulation.loop import Process, current_process
from tests.simulation.store import DirectStore

if TYPE_CHECKING:
    from tests.simulation.scenario import Simulation


class Violation(AssertionError):
    """The product broke a promise."""


class Judge:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        store = DirectStore(simulation.data)
        self._messages, self._outcomes = MessageRows(store), OutcomeService(PageRows(store))
        self._planned: dict[str, int] = {}
        self._owners: dict[int, str] = {}
        self._final: dict[Address, EmailOutcome] = {}
        self._marked: set[Address] = set()
        self._claimed_at: dict[tuple[Process, Address], float] = {}
        """When a process claimed the page of an address last."""
        self.left_at: dict[Address, float] = {}
        self._failures: list[str] = []
        self.message: Message | None = None
        self.had_faults = bool(
            simulation.server.lost_rate
            or simulation.data.lost_reply_rate
            or simulation.data.repeat_rate
            or simulation.data.stall_rate
        )
        """Whether something happened after which a confirmation may be sent twice."""
        self.may_be_cancelled = False
        self.leaving: set[Address] = set()
        self.decisions: Counter[Address] = Counter()
        """How often an administrator had an email sent again."""
        self.marked_as_sent: set[Address] = set()
        self.asked: set[str] = set()
        self.sign_up_attempts: Counter[str] = Counter()

    def fail(self, text: str) -> NoReturn:
        self._simulation.tell(f"WRONG: {text}")
        raise Violation(f"seed {self._simulation.seed}: {text}")

    def unexpected(self, text: str, error: BaseException | None) -> None:
        where = "".join(traceback.format_exception(error)) if error is not None else ""
        self._simulation.tell(where)
        self._failures.append(f"{text} ({error!r})")

    def decided(self, address: Address, was_sent: bool) -> None:
        if was_sent:
            self.marked_as_sent.add(address)
        else:
            self.decisions[address] += 1

    # -- at every step -----------------------------------------------------------------------

    def page_written(self, entity: Entity) -> None:
        """Check after each write of a page that the sum holds, and that nothing is taken back."""
        page = page_from(entity)
        counts = page.counts
        done = counts.accepted + counts.refused + counts.suppressed + counts.in_doubt
        told = sum(
            int(str(entity.properties.get(name, 0)))
            for name in ("Accepted", "Refused", "Suppressed", "InDoubt")
        )
        planned = self._planned.setdefault(f"{page.ref} {page.number}", counts.planned)
        if self._owners.get(page.number) != page.claim.owner:
            self._owners[page.number] = page.claim.owner
            for address in page.emails.addresses:
                now = self._simulation.loop.time()
                self._claimed_at[current_process(), address] = now
        if self._simulation.is_traced:
            self._tell_page(page)
        if counts.planned != planned or counts.pending != planned - done or told != done:
            self.fail(f"page {page.number}: the sum is wrong: {counts}")
        self._check_nothing_is_taken_back(page)

    def _check_nothing_is_taken_back(self, page: Page) -> None:
        """Check that an email that is done stays as it is, and that a mark of doubt stays."""
        for address, state in page.emails:
            before = self._final.get(address)
            if before is not None and state.outcome is not before:
                self.fail(f"{address} was {before}, and becomes {state.outcome}")
            if state.outcome in (EmailOutcome.ACCEPTED, EmailOutcome.SUPPRESSED):
                self._final[address] = state.outcome
            if state.was_in_doubt:
                self._marked.add(address)
            elif address in self._marked:
                self.fail(f"{address} may have got a copy, and its mark is removed")

    def handed_over(self, address: Address) -> None:
        """Check that nobody is written to who had left before their page was claimed."""
        left = self.left_at.get(address)
        if left is not None and left < self._claimed_at.get((current_process(), address), 0.0):
            self.unexpected(f"{address} left, and is written to", None)

    def _tell_page(self, page: Page) -> None:
        states = ", ".join(f"{address} {state.outcome}" for address, state in page.emails)
        owner = f", claimed by {page.claim.owner[-8:]}" if page.claim.owner else ""
        self._simulation.tell(f"{current_process()}: page {page.number}: {states}{owner}")

    # -- at the end --------------------------------------------------------------------------

    def is_idle(self) -> bool:
        """Return whether nothing is left to do."""
        return not self.remaining()

    def remaining(self) -> str:
        """Return what is left to do, for people."""
        data = self._simulation.data
        is_open = data.tables[entities.INDEX].get(entities.OPEN)
        if is_open is None or is_open.keys:
            return "the message is open"
        for name in (SEND_QUEUE, CONFIRM_QUEUE, *QUEUES[:2]):
            if data.queues.get(name):
                return f"queue {name} is not empty"
        if len(self.asked) < len(self._simulation.orders) + len(self._simulation.sign_ups):
            return "a sign-up or an order has not been put yet"
        return ""

    def check_errors(self) -> None:
        errors = [*self._failures, *self._simulation.loop.errors]
        if errors:
            self.fail(f"unexpected: {errors[0]}")

    async def current_message(self) -> Message:
        """Return the message as it is in the store, without any wait."""
        assert self.message is not None
        return await self._messages.get(self.message.ref)

    async def check_end(self) -> None:
        message = await self.current_message()
        emails = [each async for each in self._outcomes.emails(message)]
        counts = await self._outcomes.counts(message)
        self._check_everybody(message, emails)
        for email in emails:
            self._check_email(message, email)
        self._check_content(message, emails)
        tally = Counter(each.outcome for each in emails)
        if counts.planned != len(emails) or counts.accepted != tally[EmailOutcome.ACCEPTED]:
            self.fail(f"the message counts {counts}, its emails are {tally}")
        marked = sum(each.was_in_doubt for each in emails)
        if counts.possible_duplicates != marked:
            self.fail(f"{counts.possible_duplicates} possible duplicates, {marked} are marked")

        for address in self._simulation.sign_ups:
            self._check_confirmation(Address(address))
        for order in self._simulation.orders:
            self._check_order(order)
        for identity, calls in self._simulation.handler.calls.items():
            if calls > MOST_ATTEMPTS:
                self.fail(f"order {identity} was attempted {calls} times")

    def _check_content(self, message: Message, emails: list[EmailRecord]) -> None:
        """Check that all who got the message got the same, as it was edited last."""
        subjects = set[str]()
        for email in emails:
            subjects |= self._simulation.server.email(email.address).subjects
        if subjects - {message.subject}:
            self.fail(f"{message.subject!r} was sent as {sorted(subjects)}")

    def _check_confirmation(self, address: Address) -> None:
        known = self._simulation.server.email(address)
        # Who asks more than twice within five minutes gets no further email (`SignupLimits`).
        if not known.copies and not known.refusals and self.sign_up_attempts[address] <= 2:
            self.fail(f"{address} was never asked to confirm")
        if known.copies > 1 and not self.had_faults:
            self.fail(f"{address} was asked to confirm {known.copies} times")

    def _check_order(self, order: str) -> None:
        handler, data = self._simulation.handler, self._simulation.data
        poisoned = [each.body for each in data.queues.get(QUEUES[2], {}).values()]
        if not handler.handled[order] and order not in poisoned:
            self.fail(f"{order} is lost")

    def _check_everybody(self, message: Message, emails: list[EmailRecord]) -> None:
        twice = [a for a, n in Counter(each.address for each in emails).items() if n > 1]
        if twice:
            self.fail(f"planned twice: {twice}")
        if message.status is MessageStatus.CANCELLED:
            if not self.may_be_cancelled:
                self.fail("it was cancelled by nobody")
            return
        planned = {each.address for each in emails}
        subscribers = self._simulation.subscribers
        lost = subscribers - self.leaving - planned
        if lost or planned - subscribers:
            self.fail(f"lost: {sorted(lost)}, unknown: {sorted(planned - subscribers)}")

    def _check_email(self, message: Message, email: EmailRecord) -> None:
        known = self._simulation.server.email(email.address)
        may_be_in_doubt = message.status is MessageStatus.CANCELLED
        if email.outcome is EmailOutcome.PENDING or (
            email.outcome is EmailOutcome.IN_DOUBT and not may_be_in_doubt
        ):
            self.fail(f"{email.address} is {email.outcome} at the end")
        if known.copies > 1 and not email.was_in_doubt:
            self.fail(f"{email.address} got {known.copies} copies, and no mark says so")
        if known.copies > MOST_COPIES + self.decisions[email.address]:
            self.fail(f"{email.address} got {known.copies} copies")
        match email.outcome:
            case EmailOutcome.ACCEPTED:
                if not known.copies and email.address not in self.marked_as_sent:
                    self.fail(f"{email.address} is accepted and got nothing")
            case EmailOutcome.REFUSED:
                if not known.refusals:
                    self.fail(f"{email.address} is refused, and the server has not done so")
                if known.copies and not email.was_in_doubt:
                    self.fail(f"{email.address} is refused and got {known.copies} copies")
            case EmailOutcome.SUPPRESSED:
                if known.copies and not email.was_in_doubt:
                    self.fail(f"{email.address} is suppressed and got {known.copies} copies")
                if email.address not in self.leaving and not self.may_be_cancelled:
                    self.fail(f"{email.address} is suppressed without a reason")
