"""Bounces are stored, queued, identified by what we signed, and recorded once."""

from __future__ import annotations

import asyncio
import json
import smtplib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.delivery.bounces import (
    BOUNCE_QUEUE,
    BOUNCES,
    Bounce,
    BounceKind,
    BounceSource,
)
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.queues.queue_names import poison_queue
from postroom.inbound.bounce_worker import BounceWorker
from postroom.inbound.mail_listener import ListenerSettings, MailListener
from postroom.mail.bounces.envelope_tokens import EnvelopeTokens
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient
from postroom.services.audience.bounces.processing import BounceProcessing
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import BODIES, FROM, make_list, now, schedule
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.services.mail.dsn_mails import complaint, dsn
from tests.services.waiting import until

DOMAIN = "bounce.contoso.example"
FIXED = "bounces@contoso.example"


@pytest.fixture
def engine() -> str:
    return "sqlite"


class World:
    """A message to two subscribers, and what is recorded about its emails."""

    def __init__(
        self, services: Services, message: Message, ann: Subscriber, bob: Subscriber
    ) -> None:
        self.services, self.message, self.ann, self.bob = services, message, ann, bob
        self.recorded: list[Bounce] = []
        self.failures = 0
        self.processing = BounceProcessing(
            services.bounce_intake, services.identification, services.events, self._record
        )
        self.worker = BounceWorker(services.store, self.processing, lease=60)

    async def _record(self, bounce: Bounce) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a mistake of ours")
        self.recorded.append(bounce)

    @property
    def tokens(self) -> EnvelopeTokens:
        return self.services.identification.signer.of_message(self.message.ref)

    @property
    def mailing(self) -> Mailing:
        return self.mailing_for(self.message.list_name)

    def mailing_for(self, name: ListName) -> Mailing:
        return compile_mailing(
            ref=self.message.ref,
            subject="News",
            html=None,
            text="Hello",
            list_name=name,
            description="News",
            from_address=self.ann.address,
            base_url="https://lists.example.com",
            date=now(),
            envelope=self.tokens,
        )

    async def receive(self, mail: bytes, recipient: str = "") -> None:
        await self.services.bounce_intake.keep(mail, BounceSource.PIPE, recipient)

    async def work_with(self, processing: BounceProcessing) -> None:
        """The same with what it does to addresses."""
        self.worker = BounceWorker(self.services.store, processing, lease=60)
        await self.work()

    async def work(self, is_done: Callable[[], bool] | None = None) -> None:
        """Run the worker until nothing is queued."""
        stopping = asyncio.Event()
        running = asyncio.create_task(self.worker.run(stopping))
        queue = self.services.store.queue(BOUNCE_QUEUE)

        async def is_empty() -> bool:
            return (await queue.info()).length == 0 and (is_done is None or is_done())

        try:
            await until(is_empty, seconds=30, what="all bounces are recorded")
        finally:
            stopping.set()
            await running


@pytest.fixture
async def world(services: Services) -> World:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, "Ann.Smith@Example.com", verified=True)
    bob = await services.subscriptions.add(name, "bob@example.com", verified=True)
    return World(services, await schedule(services), ann, bob)


async def blobs(store: Store) -> list[str]:
    return [each.name for each in (await store.container(BOUNCES).list()).blobs]


async def test_a_bounce_is_identified_by_the_envelope_although_it_names_another_recipient(
    world: World,
) -> None:
    to = f"{world.tokens.token(world.ann.guid).upper()}@{DOMAIN}"
    await world.receive(dsn(recipient="forwarded@elsewhere.example"), to)
    await world.receive(dsn(recipient="forwarded@elsewhere.example"), to)  # delivered twice
    await world.work()
    first, second = world.recorded
    assert first.event_id == second.event_id
    assert first.kind is BounceKind.GONE
    assert first.by_code
    assert (first.list_name, first.subscriber) == (world.message.list_name, world.ann.guid)
    assert (first.address, first.ref) == (world.ann.address, world.message.ref)
    assert (first.status, first.provider) == ("5.1.1", "example.com")
    assert await blobs(world.services.store) == []


async def test_a_bounce_is_identified_by_our_header_in_the_returned_email(world: World) -> None:
    mail = world.mailing.mail(Recipient(world.bob.address, world.bob.guid)).decode()
    headers = mail.partition("\r\n\r\n")[0].replace("\r\n", "\n")
    await world.receive(dsn(returned=headers, reply="552 5.2.2 Mailbox full"))
    await world.work()
    [bounce] = world.recorded
    assert (bounce.subscriber, bounce.kind) == (world.bob.guid, BounceKind.FULL)


async def test_a_bounce_is_identified_by_the_message_id_and_the_address_together(
    world: World,
) -> None:
    message_id = world.mailing.message_id(Recipient(world.ann.address, world.ann.guid))
    returned = f"Message-ID: {message_id}"
    await world.receive(dsn(recipient="bob@example.com", returned=returned, identity="2"))
    await world.receive(dsn(recipient="ann.smith@example.COM", returned=returned))
    await world.work()
    [bounce] = world.recorded
    assert (bounce.subscriber, bounce.address) == (world.ann.guid, world.ann.address)


@pytest.mark.parametrize("names_recipient", [True, False])
async def test_a_spam_report_about_someone_who_has_left_suppresses_them_on_their_other_lists(
    services: Services, names_recipient: bool
) -> None:
    names = await make_list(services, "one"), await make_list(services, "two")
    ann = await services.subscriptions.add(names[0], "Ann@example.com", verified=True)
    for address in ("ann@example.com", "bob@example.com"):
        await services.subscriptions.add(names[1], address, verified=True)
    message = await fan_out_whole(services.store, (await schedule(services, "one")).ref)
    await services.subscriptions.unsubscribe(names[0], ann.guid)
    world = World(services, message, ann, ann)
    to = f"{world.tokens.token(ann.guid)}@{DOMAIN}"
    returned = "To: ANN@example.com" if names_recipient else "To: redacted"
    await services.bounce_intake.keep(complaint(to=to, returned=returned), BounceSource.SMTP, to)
    await world.work_with(services.bounces)
    [blocked] = [each async for each in services.suppressions.all()]
    assert (blocked.address, blocked.reason) == (ann.address, "complaint")
    assert (await services.subscriptions.get(names[1], "ann@example.com")).is_suppressed
    assert not (await services.subscriptions.get(names[1], "bob@example.com")).is_suppressed
    recorded = await services.suppressions.bounces.of_email(message.ref, ann.address)
    assert [each.kind for each in recorded] == [BounceKind.COMPLAINT]
    assert (await services.delivery_figures.count(message)).total.complained == 1
    assert await blobs(services.store) == []


async def test_a_bounce_by_message_id_about_someone_who_has_left_is_identified(
    services: Services,
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, "Ann@example.com", verified=True)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    world = World(services, message, ann, ann)
    message_id = world.mailing.message_id(Recipient(ann.address, ann.guid))
    await services.subscriptions.unsubscribe(name, ann.guid)
    await world.receive(dsn(recipient="ann@example.com", returned=f"Message-ID: {message_id}"))
    await world.work()
    [bounce] = world.recorded
    assert (bounce.subscriber, bounce.address) == (ann.guid, ann.address)


async def test_a_bounce_of_an_email_to_a_former_address_is_not_about_the_new_one(
    services: Services,
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, "ann@example.com", verified=True)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    await services.subscriptions.change_address(name, ann.address, "ann@new.example")
    world = World(services, message, ann, ann)
    await world.receive(dsn(), f"{world.tokens.token(ann.guid)}@{DOMAIN}")
    await world.work()
    [bounce] = world.recorded
    assert bounce.address == "ann@example.com"


async def test_a_bounce_about_someone_who_was_erased_is_an_event_and_no_longer_kept(
    services: Services,
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, "ann@example.com", verified=True)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED])
    await services.personal_data.erase(ann.address)
    world = World(services, message, ann, ann)
    to = f"{world.tokens.token(ann.guid)}@{DOMAIN}"
    await services.bounce_intake.keep(dsn(), BounceSource.SMTP, to)
    await world.work_with(services.bounces)
    assert [each async for each in services.suppressions.all()] == []
    assert await blobs(services.store) == []

    async def is_reported() -> bool:
        events = (await services.events.slice()).events
        return any("an address that was erased" in each.text for each in events)

    await until(is_reported, seconds=60, what="it is in the activity")


@pytest.mark.parametrize("has_copy_in_text", [False, True])
async def test_a_bounce_that_names_another_recipient_is_identified_by_what_it_returns(
    world: World, has_copy_in_text: bool
) -> None:
    message_id = world.mailing.message_id(Recipient(world.ann.address, world.ann.guid))
    returned = f"To: Ann <ann.smith@example.com>\nMessage-ID: {message_id}"
    mail = dsn(recipient="forwarded@elsewhere.example", returned=returned)
    if has_copy_in_text:
        mail = (
            "From: MAILER-DAEMON@mx.example\nSubject: Undelivered mail\n\nYour message could not be"
            " delivered to:\n\n  forwarded@elsewhere.example\n    550 5.1.1 User unknown\n\n"
            f"--- Below this line is a copy of the message.\n\nReceived: from x\n{returned}\n"
        ).encode()
    await world.receive(mail)
    await world.receive(mail.replace(b"ann.smith@", b"bob@"))  # it is not Bob's Message-ID
    await world.work()
    [bounce] = world.recorded
    assert (bounce.subscriber, bounce.kind) == (world.ann.guid, BounceKind.GONE)


async def test_an_event_of_azure_is_identified_by_the_message_id_that_it_repeats(
    world: World,
) -> None:
    message_id = world.mailing.message_id(Recipient(world.ann.address, world.ann.guid))
    # learn.microsoft.com: AcsEmailDeliveryReportReceivedEventData
    event: dict[str, Any] = {
        "id": "0e0df3cb-ff8f-4f0a-9830-cfe76145d517",
        "eventType": "Microsoft.Communication.EmailDeliveryReportReceived",
        "data": {
            "sender": "news@contoso.example",
            "recipient": "ann.smith@example.com",
            "internetMessageId": message_id,
            "messageId": "fb9e3380-428f-4e59-95a1-fc82e99a5219",
            "status": "Bounced",
            "deliveryStatusDetails": {"statusMessage": "550 5.1.1 User unknown"},
        },
    }
    other = {**event, "data": {**event["data"], "internetMessageId": "<1@azurecomm.net>"}}
    for each in (event, other):
        content = json.dumps([each]).encode()
        await world.services.bounce_intake.keep(content, BounceSource.AZURE)
    await world.work()
    [bounce] = world.recorded
    assert (bounce.subscriber, bounce.kind) == (world.ann.guid, BounceKind.GONE)


async def test_a_message_id_of_an_email_to_the_second_list_of_a_message_is_identified(
    services: Services,
) -> None:
    names = await make_list(services, "one"), await make_list(services, "two")
    eve = await services.subscriptions.add(names[1], "eve@example.com", verified=True)
    message = await services.messages.create(
        names[0], "News", BODIES, now(), audience=Audience(more_lists=(names[1],))
    )
    world = World(services, message, eve, eve)
    message_id = world.mailing_for(names[1]).message_id(Recipient(eve.address, eve.guid))
    await world.receive(dsn(recipient="eve@example.com", returned=f"Message-ID: {message_id}"))
    await world.work()
    [bounce] = world.recorded
    assert (bounce.list_name, bounce.subscriber) == (names[1], eve.guid)


async def test_a_token_of_a_provider_belongs_to_the_first_event_that_comes_with_it(
    services: Services, store: Store
) -> None:
    intake, source = services.bounce_intake, BounceSource.MAILGUN
    used = await asyncio.gather(
        *(intake.keep_once(f"event {n}".encode(), source, "token") for n in range(8))
    )
    assert used.count(True) == 1
    assert len(await blobs(store)) == 1

    async def attempt(fate: Fate, writes: int) -> None:
        fated = Services(Fated(store, fate)).bounce_intake
        token, event = f"token {writes}", f"interrupted {writes}".encode()
        before = len(await blobs(store))
        await dies(fated.keep_once(event, source, token))
        await intake.keep_once(event, source, token)  # the provider sends it again
        assert len(await blobs(store)) > before
        assert not await intake.keep_once(b"forged", source, token)

    await cut_after_each_write(attempt)


async def test_a_forged_bounce_records_nothing_and_is_kept_for_people(world: World) -> None:
    token = world.tokens.token(world.ann.guid)
    forged = token[:20] + ("a" if token[20] != "a" else "b") + token[21:]
    await world.receive(dsn(recipient=world.ann.address), f"{forged}@{DOMAIN}")
    await world.receive(dsn(recipient=world.ann.address, returned="Message-ID: <1@x.example>"))
    await world.work()
    assert world.recorded == []
    assert len(await blobs(world.services.store)) == 2

    async def are_reported() -> bool:
        events = (await world.services.events.slice()).events
        return sum("matches no email that Postroom sent" in each.text for each in events) == 2

    await until(are_reported, seconds=60, what="both are in the activity")


async def test_ordinary_email_records_nothing(world: World) -> None:
    token = world.tokens.token(world.ann.guid)
    mail = b"From: ann@example.com\nSubject: Re: News\n\nThank you, could not be better."
    await world.receive(mail, f"{token}@{DOMAIN}")
    await world.work()
    assert world.recorded == []


async def test_a_bounce_that_cannot_be_recorded_is_tried_again_and_nonsense_becomes_poison(
    world: World,
) -> None:
    world.failures = 1
    await world.receive(dsn(), f"{world.tokens.token(world.ann.guid)}@{DOMAIN}")
    await world.services.store.queue(BOUNCE_QUEUE).put("x", properties={"source": "nowhere"})
    await world.work(lambda: bool(world.recorded))
    assert len(world.recorded) == 1
    [poison] = await world.services.store.queue(poison_queue(BOUNCE_QUEUE)).peek(5)
    assert "must be one of" in poison.properties["error"]


@asynccontextmanager
async def listening(world: World, protocol: str) -> AsyncIterator[int]:
    settings = ListenerSettings("127.0.0.1", 0, protocol, DOMAIN, FIXED)
    listener = MailListener(world.services.bounce_intake, world.services.identification, settings)
    stopping = asyncio.Event()
    running = asyncio.create_task(listener.run(stopping))
    await until(lambda: _is_open(listener), seconds=30, what="the listener is open")
    try:
        yield listener.port
    finally:
        stopping.set()
        await running


async def _is_open(listener: MailListener) -> bool:
    return listener.port != 0


@pytest.mark.parametrize("protocol", ["lmtp", "smtp"])
async def test_the_listener_accepts_only_our_addresses_and_replies_after_storing(
    world: World, protocol: str
) -> None:
    token = world.tokens.token(world.ann.guid)
    forged = token[:20] + ("a" if token[20] != "a" else "b") + token[21:]

    def talk(port: int) -> list[int]:
        client = smtplib.LMTP if protocol == "lmtp" else smtplib.SMTP
        with client("127.0.0.1", port) as server:
            server.ehlo_or_helo_if_needed()
            codes = []
            for recipient in (f"{forged}@{DOMAIN}", f"{token}@elsewhere.example", FROM):
                server.mail("")
                codes.append(server.rcpt(recipient)[0])
                server.rset()
            for recipient in (f"prvs=0123={token.upper()}@{DOMAIN}", FIXED):
                server.mail("")
                codes.append(server.rcpt(recipient)[0])
                codes.append(server.data(dsn(identity=recipient[:5]))[0])
            return codes

    async with listening(world, protocol) as port:
        codes = await asyncio.to_thread(talk, port)
        assert codes == [550, 550, 550, 250, 250, 250, 250]
        assert (await world.services.store.queue(BOUNCE_QUEUE).info()).length == 2
    await world.work()
    [bounce] = world.recorded  # what came to the fixed address names no email
    assert (bounce.subscriber, bounce.source.value) == (world.ann.guid, protocol)


async def test_the_listener_leaves_the_mail_to_the_server_if_the_store_cannot_be_used(
    world: World,
) -> None:
    def talk(port: int) -> int:
        with smtplib.LMTP("127.0.0.1", port) as server:
            server.ehlo_or_helo_if_needed()
            server.mail("")
            server.rcpt(FIXED)
            return server.data(dsn())[0]

    async with listening(world, "lmtp") as port:
        await world.services.store.close()
        assert await asyncio.to_thread(talk, port) == 451
