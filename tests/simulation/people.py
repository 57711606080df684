"""What people do in a run: administrators and subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from postroom import clock
from postroom.domain.errors import DomainError
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import StoreError, StoreOutage
from postroom.wiring import Services
from tests.simulation.host import QUEUE
from tests.simulation.template import LIST, address_of

if TYPE_CHECKING:
    from tests.simulation.scenario import Simulation

SUBJECT = "The news"
_LONGEST = 90.0  # seconds of virtual time, by far more than a run needs


class People:
    def __init__(self, simulation: Simulation, services: Services) -> None:
        self._simulation = simulation
        self._services = services
        self._loop, self._choices = simulation.loop, simulation.choices
        self._judge = simulation.judge
        self._message: Message | None = None
        self._doing: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Schedule the message, sign up, and put orders; return when the message is scheduled."""
        for address in self._simulation.sign_ups:
            self._do(self._sign_up(address))
        for order in self._simulation.orders:
            self._do(self._order(order))
        ref = MessageRef(f"{638_000_000_000_000_000 + self._simulation.seed:018}")
        due = clock.now() + timedelta(seconds=self._choices.choice((0, 0, 0.5)))
        bodies = NewBodies("<p>Hello</p>", "Hello")
        create = self._services.messages.create
        options = SendingOptions(canary=self._simulation.canary)
        while self._message is None:
            with suppress(StoreOutage):
                self._message = await create(LIST, SUBJECT, bodies, due, ref=ref, options=options)
        self._judge.message = self._message

    async def finish(self) -> None:
        """Do what is left to people until everything has come to its end."""
        while not self._judge.is_idle():
            self._judge.check_errors()
            if self._loop.time() > _LONGEST:
                self._judge.fail(f"it does not come to an end: {self._judge.remaining()}")
            message = await self._current()
            if message.status is MessageStatus.PAUSED:
                await self._attempt(self.resume)
            elif message.status not in FINAL:
                await self._decide(message)
            await self._loop.delay(0.5)

    def may(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Try something, whether it is possible now or not."""
        if self._message is not None:
            self._do(self._attempt(action))

    # -- actions -----------------------------------------------------------------------------

    async def pause(self) -> None:
        await self._services.message_states.pause((await self._current()).ref)

    async def resume(self) -> None:
        await self._services.message_states.resume((await self._current()).ref)

    async def cancel(self) -> None:
        self._judge.may_be_cancelled = True
        await self._services.message_states.cancel((await self._current()).ref)

    async def edit(self) -> None:
        message = await self._current()
        with suppress(DomainError, StoreOutage):
            await self._services.message_states.pause(message.ref)
        await self._services.messages.edit(message.ref, subject="Other news")

    async def unsubscribe(self) -> None:
        address = address_of(self._choices.randrange(self._simulation.recipients))
        self._judge.leaving.add(address)
        subscriber = await self._services.subscriptions.get(LIST, address)
        await self._services.subscriptions.unsubscribe(LIST, subscriber.guid)
        self._judge.left_at.setdefault(address, self._loop.time())

    async def retry_now(self) -> None:
        await self._services.retries.retry_deferred(await self._current())

    # -- parts -------------------------------------------------------------------------------

    async def _current(self) -> Message:
        assert self._message is not None
        return await self._services.messages.get(self._message.ref)

    def _do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._doing.append(asyncio.create_task(coroutine))

    async def _attempt(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        name = action.__name__.replace("_", " ")
        try:
            await action()
            self._simulation.tell(f"administrator: {name}: done")
        except (DomainError, StoreOutage) as exc:
            self._simulation.tell(f"administrator: {name}: {exc}")

    async def _sign_up(self, address: str) -> None:
        async def subscribe() -> None:
            self._judge.sign_up_attempts[address] += 1
            await self._services.subscriptions.subscribe(LIST, address)

        await self._until_done(subscribe)
        self._judge.asked.add(address)

    async def _order(self, order: str) -> None:
        await self._until_done(lambda: self._services.queues.put(QUEUE, order))
        self._judge.asked.add(order)

    async def _until_done(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask for something at some moment, and again while the store cannot be used."""
        await self._loop.delay(self._choices.random())
        while True:
            with suppress(StoreOutage):
                await ask()
                return
            await self._loop.delay(0.2)

    async def _decide(self, message: Message) -> None:
        """Decide about emails in doubt once nothing else is pending."""
        counts = await self._services.outcomes.counts(message)
        if counts.pending or not counts.in_doubt:
            return
        async for email in self._services.outcomes.emails(message, EmailOutcome.IN_DOUBT):
            was_sent = self._choices.random() < 0.5
            decision = "mark as sent" if was_sent else "send again"
            self._simulation.tell(f"administrator: {email.address}: {decision}")
            with suppress(DomainError, StoreError):
                await self._services.in_doubt.decide(message, email.address, was_sent=was_sent)
                self._judge.decided(email.address, was_sent)
