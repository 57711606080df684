"""Sends confirmation emails to people who signed up, and welcome emails to those who confirmed.

Work items (`GUID,LISTNAME`, with the language as a property) come from the queue `mail/confirm`.
One with a new address asks its owner to confirm a change of address, one with changes asks about
the details of a later sign-up; one that is marked so is a welcome, if the list has one. An item is
deleted when its email was accepted or refused, or when it is no longer needed; until then it comes
back. A duplicate does no harm and has the same Message-ID: so there is no journal, and emails in
doubt are sent again.

Order of a shutdown (SIGTERM): it takes no more items; the transport finishes the emails in
progress; unfinished items are released: immediately if their email was not sent.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final, Protocol, assert_never

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, masked
from postroom.domain.audience.lists.lists import (
    ListName,
    Subscriber,
    SubscriberGuid,
    parse_guid,
    parse_list_name,
)
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.system_mail import compile_address_change
from postroom.sender.faults.faults import Faults
from postroom.sender.faults.store_outages import StoreOutages
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.list_mailings import changes_mailing, confirmation_mailing, welcome_mailing
from postroom.sender.policy import RetryPlan
from postroom.sender.queue_loop import WAIT_SECONDS, QueueLoop
from postroom.sender.sender_settings import SenderServices
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.changed_details import CHANGES, awaits
from postroom.services.audience.signup.preferences import ADDRESS_CHANGE, NEW_ADDRESS
from postroom.services.audience.signup.welcomes import WELCOME
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.audience.targeting.audiences import AudienceService
from postroom.services.messages.sending.holds import ACCOUNT
from postroom.services.queues.poison import move_to_poison
from postroom.storage import LeaseLost, QueueMessage, StoreOutage
from postroom.transport.contract import FaultScope, Result, ResultKind, Transport
from postroom.watchdog import Doing

log = logging.getLogger(__name__)

IN_DOUBT_PAUSE: Final = timedelta(seconds=30)
"""The longest pause before an unanswered email is sent again."""

_HELD_SECONDS = 0.5
_LONGEST_WAIT = 60.0  # for a hold, which may be lifted at any time
_NO_MESSAGE = MessageRef("confirmation")
_UNKNOWN_REFUSALS = 3
"""Attempts before a refusal by an unknown reply counts: it may be about us."""
_STORE_SECONDS = 1.0
_WELCOME_WAITS = timedelta(hours=1)
_WELCOME_DELAY = 2.0


class ConfirmationServices(SenderServices, Protocol):
    """The services that confirmations use; `wiring.Services` has all of them."""

    lists: ListService
    subscriber_rows: SubscriberRows
    audiences: AudienceService


class ConfirmationSettings(msgspec.Struct, frozen=True):
    """How confirmations are sent. Times are in seconds."""

    base_url: str
    retry: RetryPlan = RetryPlan()
    lease: float = 60.0
    most_items: int = 4


class _Watcher:
    """The result of the one email."""

    def __init__(self) -> None:
        self.result: Result | None = None

    def handing_over(self, position: int) -> None:
        self.result = Result(ResultKind.IN_DOUBT, "no reply before the end")

    def settled(self, position: int, result: Result) -> None:
        self.result = result


class Confirmations:
    takes_held = False

    def __init__(
        self,
        services: ConfirmationServices,
        transport: Transport,
        settings: ConfirmationSettings,
        limits: DomainLimits | None = None,
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._limits = limits
        self._faults = Faults(services, "confirmations", stop=lambda _: None)
        self._queue = services.store.queue(CONFIRM_QUEUE)
        self._lists = services.lists
        self._subscribers = services.subscriber_rows
        self._audiences = services.audiences
        self._active: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[list[Result]]] = set()
        self._stopping = False
        self._loop = QueueLoop(
            self._queue, self, StoreOutages(), lease=settings.lease, concurrency=settings.most_items
        )

    @property
    def is_busy(self) -> bool:
        """Whether confirmations are being sent."""
        return bool(self._active)

    def doing(self) -> dict[str, Doing]:
        """Return what must make progress now (see `watchdog.py`). Mail servers may be slow."""
        return {"looking for work": Doing(self._loop.iterations, patience=15.0, rest=WAIT_SECONDS)}

    async def run(self, stopping: asyncio.Event) -> None:
        """Take and send confirmations until `stopping`."""
        await self._loop.run(stopping)

    # -- for the loop --------------------------------------------------------------------------

    def room(self) -> int:
        return self._settings.most_items - len(self._active)

    async def is_held(self) -> bool:
        await self._faults.conclude({}, {})  # a hold that could not be written
        hold = (await self._faults.holds()).by_key.get(ACCOUNT)
        return hold is not None and not hold.is_due(clock.now())

    async def begin(self, items: list[QueueMessage]) -> None:
        for item in items:
            task = asyncio.create_task(self._work(item))
            self._active.add(task)
            task.add_done_callback(self._end)

    def stop(self) -> set[asyncio.Task[None]]:
        self._stopping = True
        for sending in self._sending:
            sending.cancel()
        return self._active.copy()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._active.discard(task)
        self._loop.signal_room()
        if not task.cancelled() and task.exception() is not None:
            log.error("a confirmation failed and will be retried", exc_info=task.exception())

    # -- one item ----------------------------------------------------------------------------

    async def _work(self, message: QueueMessage) -> None:
        try:
            await self._work_on(message)
        except LeaseLost:
            log.warning("a confirmation was taken over by another sender")
        except StoreOutage as exc:
            log.warning("a confirmation will be retried later: %s", exc)

    async def _work_on(self, message: QueueMessage) -> None:
        try:
            guid, name = parse_item(message.body)
        except Invalid as exc:
            await move_to_poison(self._queue, message, exc)
            return
        new_address = message.properties.get(NEW_ADDRESS, "")
        is_welcome = bool(message.properties.get(WELCOME))
        changes = message.properties.get(CHANGES, "")
        subscriber = await self._recipient_of(
            name, guid, new_address, changes, is_welcome=is_welcome
        )
        if subscriber is None:
            await self._drop(message, is_welcome=is_welcome)
            return
        try:
            mailing, values = await self._mailing(name, message, subscriber)
        except NoSuch:
            await self._queue.delete(message)  # the list has just been deleted
            return
        except Invalid as exc:
            cannot = Result(ResultKind.DEFERRED, f"it cannot be composed: {exc}")
            await self._settle(message, subscriber, cannot)
            return
        recipient = Recipient(subscriber.address, subscriber.guid, values)
        if self._limits is not None:
            _, later = await self._limits.admit([recipient])
            if recipient.address in later:
                wait = (later[recipient.address] - clock.now()).total_seconds()
                await self._queue.release(message, delay=max(0.0, wait), count_attempt=False)
                return
        admission = await self._faults.admit(_NO_MESSAGE, [recipient])
        if not admission.recipients:
            delay = await self._until_probe(recipient)
            await self._queue.release(message, delay=delay, count_attempt=False)
            return
        message, result = await self._send(message, mailing, recipient)
        if result is not None and result.kind is ResultKind.HELD:
            if result.scope is FaultScope.MESSAGE:  # the text of this list's confirmation
                result = Result(ResultKind.DEFERRED, result.reply, reason=result.reason)
            else:
                self._faults.met(_NO_MESSAGE, recipient.address, result)
        await self._faults.conclude(admission.probes, {recipient.address: result})
        if result is not None and result.is_unknown_refusal and _is_suspect(message):
            result = Result(ResultKind.DEFERRED, result.reply)
        await self._settle(message, subscriber, result)

    async def _until_probe(self, recipient: Recipient) -> float:
        """Return in how many seconds to try a held email again."""
        hold = (await self._faults.holds()).covering(_NO_MESSAGE, recipient.address)
        if hold is None:
            return 0.0
        wait = (hold.next_probe - clock.now()).total_seconds()
        return min(max(wait, _HELD_SECONDS), _LONGEST_WAIT)

    async def _recipient_of(
        self,
        name: ListName,
        guid: SubscriberGuid,
        new_address: str,
        changes: str,
        *,
        is_welcome: bool,
    ) -> Subscriber | None:
        """Return the subscriber, or the one that they become with a new address; None if they have
        been removed, blocked or verified. Only verified subscribers are welcomed, or asked about
        `changes`, as long as these wait. A new address may be that of another subscriber."""
        subscriber, _ = await self._subscribers.owner(name, guid)
        if subscriber is None or subscriber.blocked:
            return None
        if new_address:
            there = await self._subscribers.find(name, Address(new_address))
            if there is not None and there.blocked:
                return None
            return msgspec.structs.replace(subscriber, address=Address(new_address))
        if changes:
            return subscriber if awaits(subscriber, changes) else None
        return subscriber if subscriber.verified is is_welcome else None

    async def _drop(self, message: QueueMessage, *, is_welcome: bool) -> None:
        """Delete an item that is not needed. A welcome is put before its subscriber is verified, so
        it waits for a while."""
        if is_welcome and clock.now() - message.enqueued_at < _WELCOME_WAITS:
            await self._queue.release(message, delay=_WELCOME_DELAY, count_attempt=False)
        else:
            await self._queue.delete(message)

    async def _mailing(
        self, name: ListName, message: QueueMessage, subscriber: Subscriber
    ) -> tuple[Mailing, tuple[str, ...]]:
        """Return the email, and the values of its recipient. `NoSuch` list, `Invalid`."""
        mailing_list = await self._lists.get(name)
        base_url, language = self._settings.base_url, message.properties.get("language", "")
        if message.properties.get(WELCOME):
            date = subscriber.verified_at or message.enqueued_at
            mailing, columns = welcome_mailing(mailing_list, base_url, date, language)
            personal = await self._audiences.personal(name, subscriber)
            return mailing, personal.of(columns, clock.now().date())
        if changes := message.properties.get(CHANGES, ""):
            date = message.enqueued_at
            return changes_mailing(mailing_list, base_url, date, changes, language), ()
        token = message.properties.get(ADDRESS_CHANGE, "")
        if not token:
            return confirmation_mailing(mailing_list, base_url, message.enqueued_at, language), ()
        mailing = compile_address_change(
            list_name=name,
            description=mailing_list.description,
            from_address=mailing_list.from_address,
            base_url=base_url,
            date=message.enqueued_at,
            token=token,
            language=language,
            list_language=mailing_list.language,
            brand=mailing_list.brand,
        )
        return mailing, ()

    async def _send(
        self, message: QueueMessage, mailing: Mailing, recipient: Recipient
    ) -> tuple[QueueMessage, Result | None]:
        """Return the message with its last receipt, and the result; None if not handed over."""
        if self._stopping:
            return message, None
        watcher = _Watcher()
        sending = asyncio.create_task(self._transport.send(mailing, [recipient], watcher))
        self._sending.add(sending)
        try:
            while not sending.done():
                await asyncio.wait([sending], timeout=self._settings.lease / 3)
                if not sending.done():
                    message = await self._queue.renew(message, lease=self._settings.lease)
        finally:
            self._sending.discard(sending)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if not sending.cancelled():
            sending.result()
        return message, watcher.result

    async def _settle(
        self, message: QueueMessage, subscriber: Subscriber, result: Result | None
    ) -> None:
        if result is None:
            await self._queue.release(message, count_attempt=False)
            return
        if result.kind is ResultKind.HELD:
            wait = await self._until_probe(Recipient(subscriber.address, subscriber.guid))
            await self._queue.release(message, delay=wait, count_attempt=False)
            return
        delay = pause_after(result, message, self._settings.retry, clock.now())
        if result.kind is not ResultKind.ACCEPTED:
            log.warning(
                "the confirmation of %s to %s is %s%s: %s",
                subscriber.list_name,
                masked(subscriber.address),
                result.kind,
                "" if delay is None else f" and tried again in {delay:.0f} s",
                result.reply,
            )
        while True:
            try:
                if delay is None:
                    await self._queue.delete(message)
                else:
                    await self._queue.release(message, delay=delay)
            except StoreOutage as exc:
                if self._stopping:
                    raise
                log.warning("a confirmation waits to be recorded: %s", exc)
                await asyncio.sleep(_STORE_SECONDS)
            else:
                return


def _is_suspect(message: QueueMessage) -> bool:
    return message.dequeue_count < _UNKNOWN_REFUSALS


def parse_item(body: str) -> tuple[SubscriberGuid, ListName]:
    """Parse `GUID,LISTNAME`; raise `Invalid`."""
    guid, _, name = body.partition(",")
    try:
        return parse_guid(guid), parse_list_name(name)
    except Invalid as exc:
        raise Invalid("work item", f"{body[:60]!r} is not 'GUID,LISTNAME': {exc}") from exc


def pause_after(
    result: Result, message: QueueMessage, plan: RetryPlan, now: datetime
) -> float | None:
    """Return in how many seconds to try the email again; None for never."""
    pause = plan.pause(message.dequeue_count)
    match result.kind:
        case ResultKind.ACCEPTED | ResultKind.REFUSED:
            return None
        case ResultKind.DEFERRED | ResultKind.HELD:
            pass
        case ResultKind.IN_DOUBT:
            pause = min(plan.first, IN_DOUBT_PAUSE)
        case _:
            assert_never(result.kind)
    if now + pause > message.enqueued_at + plan.give_up_after:
        return None
    return pause.total_seconds()
