"""300 bounces of 10,000 emails arrive by LMTP, IMAP and webhooks, while processes are killed:
exactly the dead mailboxes are suppressed, and nothing gets lost."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import random
import signal
import smtplib
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE, BounceKind
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message
from postroom.services.audience.suppression.bounce_history import RecordedBounce
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, address_of, fill, schedule
from tests.acceptance.hosting import SECRET_KEY, children_of
from tests.contract.conftest import StoreAddress
from tests.services.clock import make_settable_clock
from tests.services.mail.dsn_mails import complaint, dsn, out_of_office
from tests.services.mail.mailbox_server import PASSWORD, USER, Mailbox, serving
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.waiting import BUSY, LOOPBACK, free_ports, until

EMAILS, TWICE, LATE = 10_000, 20, 24
EVERY = 0.1  # seconds between two bounces
KILLED = ("inbound", "worker", "inbound", "worker", "up") * 4
OTHER = "other"
DOMAIN = "bounce.contoso.example"
SECRET = "a-secret-of-the-tests"
THREE_WEEKS = 21 * 86_400
PATIENCE = 60.0 * BUSY

# What a mail system says, how many of each there are, and what follows from it.
GONE = "550 5.1.1 <{address}>: Recipient address rejected: User unknown"
REPLIES = (
    (GONE, BounceKind.GONE, 90),
    ("550 5.1.2 Bad destination host", BounceKind.GONE, 21),
    ("550 No such user here", BounceKind.GONE, 24),  # by its text alone: once is not enough
    ("552 5.2.2 Mailbox full", BounceKind.FULL, 45),
    ("451 4.4.1 Connection timed out", BounceKind.TEMPORARY, 36),
    ("550 5.7.1 Blocked: listed at Spamhaus", BounceKind.POLICY, 36),
    ("554 5.7.1 Spam message rejected", BounceKind.CONTENT, 18),
    ("complaint", BounceKind.COMPLAINT, 6),
    ("out of office", BounceKind.AUTO_REPLY, 24),
)


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp(keep_content=False) as running:
        yield running


@dataclass(frozen=True)
class Report:
    """A bounce of the email to `address`, whose envelope sender has the token."""

    number: int
    address: Address
    token: str
    reply: str
    kind: BounceKind
    named: str
    """The address that the bounce names: that of somebody else in half of them."""

    @property
    def suppresses(self) -> bool:
        return self.reply.startswith("550 5.1.") or self.kind is BounceKind.COMPLAINT

    @property
    def sender(self) -> str:
        return f"{self.token}@{DOMAIN}"

    @property
    def mail(self) -> bytes:
        identity, returned = str(self.number), f"Subject: News\nX-Postroom: {self.token}"
        if self.kind is BounceKind.COMPLAINT:
            return complaint(to=self.sender, returned=returned, identity=identity)
        if self.kind is BounceKind.AUTO_REPLY:
            return out_of_office(to=self.sender, sender=self.named, identity=identity)
        return dsn(
            to=self.sender,
            recipient=self.named,
            reply=self.reply,
            identity=identity,
            returned=returned if self.number % 4 else "Subject: News",
        )

    @property
    def event(self) -> dict[str, Any]:
        """An event of Postmark."""
        names = {BounceKind.COMPLAINT: "SpamComplaint", BounceKind.AUTO_REPLY: "AutoResponder"}
        return {
            "RecordType": "Bounce",
            "Type": names.get(self.kind, "Unknown"),
            "ID": self.number,
            "Email": self.named,
            "Details": f"smtp;{self.reply}",
            "Metadata": {"postroom": self.token},
        }


def all_reports(emails: Sequence[tuple[str, str]]) -> list[Report]:
    """Return a report for each of some emails (envelope sender, recipient)."""
    said = [(reply, kind) for reply, kind, count in REPLIES for _ in range(count)]
    random.Random(1).shuffle(said)
    found = []
    by_recipient = sorted(emails, key=lambda each: each[1])
    for number, (reply, kind) in enumerate(said):
        sender, recipient = by_recipient[number * 30]
        named = address_of(9_000 + number) if number % 2 else Address(recipient)
        text = reply.replace("{address}", named)
        token = sender.partition("@")[0]
        found.append(Report(number, Address(recipient), token, text, kind, named))
    return found


def forged(report: Report) -> Report:
    """Return the same with a token that somebody has made up."""
    letter = "a" if report.token[-3] != "a" else "b"
    token = f"{report.token[:-3]}{letter}{report.token[-2:]}"
    return replace(report, number=1000 + report.number, token=token, named=report.address)


@dataclass
class World:
    """Postroom behind a mail server, a mailbox and webhooks, which repeat what is not accepted.
    `postroom` is all of it except for the part that receives mail, which runs as `inbound`."""

    postroom: Postroom
    inbound: Postroom
    mailbox: Mailbox
    lmtp: int
    web: int
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    by_lmtp: int = 0

    # -- what arrives ------------------------------------------------------------------------

    async def deliver(self, report: Report) -> None:
        """Deliver by LMTP, as often as a mail server would."""
        await self._repeat(lambda: asyncio.to_thread(self._lmtp, report))
        self.by_lmtp += 1

    def _lmtp(self, report: Report) -> bool:
        try:
            with smtplib.LMTP(LOOPBACK, self.lmtp, timeout=30) as client:
                client.ehlo_or_helo_if_needed()
                client.mail("")
                code, text = client.rcpt(report.sender)
                if code == 550:
                    self.refused.append(text.decode())
                    return True
                return code == 250 and client.data(report.mail)[0] == 250
        except (OSError, smtplib.SMTPException):
            return False

    async def report(self, report: Report, secret: str = SECRET) -> None:
        """Report by the webhook of Postmark, as often as a provider would."""
        await self._repeat(lambda: self.post("postmark", report.event, secret))

    async def post(self, provider: str, event: dict[str, Any], secret: str = SECRET) -> bool:
        url = f"http://{LOOPBACK}:{self.web}/hooks/{provider}?secret={secret}"
        try:
            async with httpx2.AsyncClient(timeout=30) as http:
                answered = await http.post(url, json=event)
        except httpx2.HTTPError:
            return False
        if answered.status_code in (401, 403, 406):
            self.refused.append(answered.text)
            return True
        return answered.status_code == 200

    async def _repeat(self, attempt: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await attempt():
            assert time.monotonic() < deadline, self.logs()
            await asyncio.sleep(0.1)

    async def arrive(self, reports: Sequence[Report], every: float = 0.0) -> None:
        """Let reports arrive, one after the other, a third of them each way."""

        async def one(place: int, report: Report) -> None:
            await asyncio.sleep(place * every)
            match report.number % 3:
                case 0:
                    self.mailbox.add(report.mail)
                case 1:
                    await self.deliver(report)
                case _:
                    await self.report(report)

        await asyncio.gather(*(one(place, each) for place, each in enumerate(reports)))

    async def forge(self, victims: Sequence[Report]) -> None:
        """Deliver what nobody but we could have signed, in every way."""
        for victim in victims[:5]:
            await self.deliver(forged(victim))  # refused: not one of our addresses
            await self.report(victim, secret="guessed-by-somebody")  # refused
            await self.report(forged(victim))  # by the provider, but about no email of ours
            self.mailbox.add(forged(victim).mail)
        await self._replay(victims[5])

    async def _replay(self, victim: Report) -> None:
        """Use the signature of one event of Mailgun for another, which it does not cover."""
        stamp, token = str(int(time.time())), "token-of-mailgun"
        digest = hmac.new(SECRET.encode(), f"{stamp}{token}".encode(), hashlib.sha256).hexdigest()
        signature = {"timestamp": stamp, "token": token, "signature": digest}
        bounced = {
            "event": "failed",
            "id": "replayed",
            "reason": "suppress-bounce",
            "user-variables": {"postroom": victim.token},
            "delivery-status": {"code": 550, "message": "5.1.1 User unknown"},
        }
        for data in ({"event": "delivered"}, bounced):
            event = {"signature": signature, "event-data": data}
            await self._repeat(partial(self.post, "mailgun", event))

    @property
    def by_mail(self) -> int:
        """How many mails were received by LMTP, or fetched."""
        return self.by_lmtp + len(self.mailbox.folders.get("Postroom", ()))

    # -- processes ---------------------------------------------------------------------------

    def start(self, part: str) -> None:
        postroom = self.inbound if part == "inbound" else self.postroom
        self.running[part] = postroom.start(part)

    def kill(self, part: str) -> None:
        """Kill a part and start it again; `worker` is the process that records bounces, which its
        host starts again."""
        if part == "worker":
            for zygote in children_of(self.running["up"].pid):
                for worker in children_of(zygote):
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
            return
        self.running[part].kill()
        self.running[part].wait()
        self.start(part)

    def fetch_now(self) -> None:
        """Start what receives mail again: the mailbox is read at once, not within a minute."""
        self.inbound.stop(self.running["inbound"])
        self.start("inbound")

    def kill_all(self) -> None:
        self.postroom.kill_all()
        self.inbound.kill_all()

    def logs(self) -> str:
        return self.postroom.logs()[-20_000:]


async def recorded(services: Services, message: Message) -> list[RecordedBounce]:
    return [each async for each in services.suppressions.bounces.of_message(message.ref)]


async def arrive_and_kill(
    services: Services, world: World, message: Message, reports: Sequence[Report]
) -> None:
    """Let bounces arrive in as many parts as there are kills, and one more. Kill a process while
    each part arrives, after it has begun to work on it; the last part arrives after all kills."""
    size = len(reports) // (len(KILLED) + 1)
    arriving: list[asyncio.Task[None]] = []
    try:
        for number, part in enumerate(KILLED):
            by_mail, known = world.by_mail, len(await recorded(services, message))
            some = reports[number * size : (number + 1) * size]
            arriving.append(asyncio.create_task(world.arrive(some, EVERY)))

            async def has_begun(
                part: str = part, by_mail: int = by_mail, known: int = known
            ) -> bool:
                if part == "inbound":
                    return world.by_mail >= by_mail + 3
                return len(await recorded(services, message)) >= known + 3

            await until(has_begun, world.logs, seconds=30)
            world.kill(part)
        arriving.append(asyncio.create_task(world.arrive(reports[len(KILLED) * size :], EVERY)))
        await asyncio.wait_for(asyncio.gather(*arriving), PATIENCE)
    finally:
        for each in arriving:
            each.cancel()


def with_repeated(reports: Sequence[Report]) -> list[Report]:
    """Return the reports in their order, with the first ones a second time among the others."""
    pause = len(reports) // TWICE
    found: list[Report] = []
    for place, each in enumerate(reports):
        found.append(each)
        if place % pause == pause - 1 and place // pause < TWICE:
            found.append(reports[place // pause])
    return found


async def settled(services: Services, world: World, message: Message, expected: int) -> None:
    """Wait until everything that came in is recorded."""
    queue = services.store.queue(BOUNCE_QUEUE)

    async def is_so() -> bool:
        if world.mailbox.folders["INBOX"] or (await queue.info()).length:
            return False
        return len(await recorded(services, message)) >= expected

    await until(is_so, world.logs, seconds=60)


async def suppressed_on(services: Services, name: str) -> set[Address]:
    rows = services.subscriptions.rows.suppressed()
    return {each.address async for each in rows if each.list_name == name}


@pytest.mark.timeout(100 * BUSY)
async def test_exactly_the_dead_mailboxes_are_suppressed_although_processes_are_killed(
    address: StoreAddress, services: Services, server: RecordingSmtp, tmp_path: Path
) -> None:
    await fill(services, EMAILS)
    await services.lists.create(OTHER, "Other news", "news@contoso.example")
    clock, mailbox = make_settable_clock(tmp_path), Mailbox(pause=0.01)
    address = replace(address, environment={**address.environment, **clock.environment})
    async with serving(mailbox, "imap") as imap:
        world = _world(address, server, tmp_path, mailbox, imap)
        try:
            message = await _sent(services, world.postroom)
            reports = all_reports([(each.sender, each.recipients[0]) for each in server.accepted()])
            for each in (*(each.address for each in reports), address_of(1), address_of(9_001)):
                await services.subscriptions.add(OTHER, each, verified=True)
            await _bounce(services, world, message, reports)
            clock.set(THREE_WEEKS)  # for all processes
            await world.arrive(reports[-LATE:], every=0.0)
            world.fetch_now()
            await settled(services, world, message, len(reports))
        finally:
            world.kill_all()
    await _check(services, world, message, reports)


def _world(
    address: StoreAddress, server: RecordingSmtp, folder: Path, mailbox: Mailbox, imap: int
) -> World:
    lmtp, web = free_ports(2)
    login = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
    settings = {
        "secret_key": SECRET_KEY,
        "bounce_domain": DOMAIN,
        "port": str(web),
        "postmark_webhook_secret": SECRET,
        "mailgun_webhook_key": SECRET,
        "sender_lease": "5s",
        "host_lease": "4s",
    }
    receiving = {
        "inbound_port": str(lmtp),
        "bounce_mailbox": f"imap://{login}@{LOOPBACK}:{imap}/INBOX",
    }
    return World(
        Postroom(address, server.url, folder, settings),
        Postroom(address, server.url, folder, {**settings, **receiving}),
        mailbox,
        lmtp,
        web,
    )


async def _sent(services: Services, postroom: Postroom) -> Message:
    """Send the message to everybody."""
    message = await schedule(services)
    sending = [postroom.start("scheduler"), postroom.start("sender")]
    await SumChecker(services, message).until_done(60)
    for each in sending:
        each.kill()
        each.wait()
    return await services.messages.get(message.ref)


async def _bounce(
    services: Services, world: World, message: Message, reports: Sequence[Report]
) -> None:
    """Let all but the late ones arrive, 20 of them twice, and then forged ones."""
    punctual = list(reports[:-LATE])
    world.start("up")
    world.start("inbound")
    await arrive_and_kill(services, world, message, with_repeated(punctual))
    await settled(services, world, message, len(punctual))
    await world.forge([each for each in punctual if not each.suppresses])
    world.fetch_now()
    await settled(services, world, message, len(punctual))


async def _check(
    services: Services, world: World, message: Message, reports: Sequence[Report]
) -> None:
    dead = {each.address for each in reports if each.suppresses}
    assert {each.address async for each in services.suppressions.all()} == dead
    assert await suppressed_on(services, LIST) == dead
    assert await suppressed_on(services, OTHER) == dead
    counts = await services.outcomes.counts(message)
    assert counts == Counts(planned=EMAILS, accepted=EMAILS), "a bounce changes no outcome"
    known = await recorded(services, message)
    assert sorted((each.address, each.kind) for each in known) == sorted(
        (each.address, each.kind) for each in reports
    ), "each bounce counts once, for the one whose email it was"
    assert len(world.refused) == 11, world.refused  # five by LMTP, five guesses, one replay
    by_mail = sum(each.number % 3 == 0 for each in (*reports, *reports[:TWICE]))
    assert len(world.mailbox.folders["Postroom"]) == by_mail + 5, "all mails are still there"
    assert not {"STORE", "EXPUNGE"} & set(world.mailbox.commands)
