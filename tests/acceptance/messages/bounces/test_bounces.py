"""With a real Postfix: an email goes out, its bounce comes back to our listener, and the next
message skips the dead mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.domain.messages.messages import FINAL, Message
from postroom.services.messages.message_contents import NewBodies
from postroom.wiring import Services
from tests.acceptance.harness import Postroom
from tests.acceptance.hosting import SECRET_KEY
from tests.contract.conftest import StoreAddress
from tests.services.mail.postfix import running_postfix
from tests.services.waiting import BUSY, LOOPBACK, free_ports, until
from tests.web.site import Site, running_site

DOMAIN = "bounce.contoso.example"
ANN, BOB = Address("Ann@dead.example"), Address("bob@alive.example")


@pytest.fixture
def engine() -> str:
    return "sqlite"


class _DeadMailboxes:
    """A mailbox provider at which nobody has a mailbox."""

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        return f"550 5.1.1 <{address}>: User unknown"


@contextmanager
def dead_provider() -> Iterator[int]:
    (port,) = free_ports(1)
    running = Controller(_DeadMailboxes(), hostname=LOOPBACK, port=port)
    running.start()
    try:
        yield port
    finally:
        running.stop()


async def _schedule(services: Services) -> Message:
    bodies = NewBodies(None, "Hello {{ email }}")
    return await services.messages.create("news", "News", bodies, datetime.now(UTC))


async def _sent(services: Services, message: Message) -> Message:
    async def is_sent() -> bool:
        return (await services.messages.get(message.ref)).status in FINAL

    await until(is_sent, seconds=60 * BUSY, what="the message is sent")
    return await services.messages.get(message.ref)


@pytest.mark.timeout(240)
async def test_a_bounce_of_postfix_is_recorded_and_the_next_message_skips_the_mailbox(
    services: Services, address: StoreAddress, tmp_path: Path
) -> None:
    await services.lists.create("news", "News", "news@contoso.example")
    for each in (ANN, BOB):
        await services.subscriptions.add("news", each, verified=True)
    (port,) = free_ports(1)
    with dead_provider() as dead:
        routes = {
            "dead.example": f"smtp:[{LOOPBACK}]:{dead}",
            "alive.example": "discard:",
            DOMAIN: f"lmtp:inet:{LOOPBACK}:{port}",
        }
        with running_postfix(routes=routes) as postfix:
            postroom = Postroom(
                address,
                postfix.url,
                tmp_path,
                {
                    "bounce_domain": DOMAIN,
                    "inbound_port": str(port),
                    "secret_key": SECRET_KEY,
                },
            )
            try:
                postroom.start("up")
                first = await _sent(services, await _schedule(services))

                async def is_recorded() -> bool:
                    return bool(await services.suppressions.bounces.of_email(first.ref, ANN))

                await until(is_recorded, seconds=60 * BUSY, what="the bounce is recorded")
                second = await _sent(services, await _schedule(services))

                async def is_counted() -> bool:
                    figures = await services.delivery_figures.of_message(first)
                    return figures.total.bounced == 1

                await until(is_counted, seconds=30 * BUSY, what="the bounce is counted")
            finally:
                postroom.kill_all()
                await asyncio.sleep(0)
    [bounce] = await services.suppressions.bounces.of_email(first.ref, ANN)
    assert (bounce.kind, bounce.status, bounce.by_code) == (BounceKind.GONE, "5.1.1", True)
    assert "User unknown" in bounce.diagnostic
    assert await services.suppressions.bounces.of_email(first.ref, BOB) == []
    before = (await services.progress.of(first)).counts
    after = (await services.progress.of(second)).counts
    assert (before.planned, before.accepted) == (2, 2), "a bounce does not change the outcome"
    assert (after.accepted, after.accepted + after.suppressed) == (1, after.planned)
    async with running_site(tmp_path, {"store": address.url}) as site:
        await _check_pages(site, first)
        await _check_api(site, first)


async def _check_pages(site: Site, message: Message) -> None:
    """The bounce and the suppression are shown wherever somebody would look."""
    pages = {
        f"/messages/{message.ref}": "gone",
        f"/messages/{message.ref}/bounces": "User unknown",
        f"/trace?email={ANN}": "User unknown",
        f"/lists/news/subscribers/{ANN}": "Suppressed on every list: hard bounce",
        "/suppressions?q=dead.example": "hard bounce",
    }
    visitor = await site.user()
    for path, words in pages.items():
        shown = (await visitor.get(path)).text
        assert words in shown, (path, shown)


async def _check_api(site: Site, message: Message) -> None:
    key = (await site.services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=f"{site.url}/api/v1", headers=headers) as api:
        suppression = (await api.get(f"/suppressions/{ANN}")).json()
        subscriber = (await api.get(f"/lists/news/subscribers/{ANN}")).json()
        results = (await api.get(f"/messages/{message.ref}/results")).json()
    assert (suppression["reason"], suppression["source"]) == ("hard bounce", "lmtp")
    assert "User unknown" in suppression["diagnostic"]
    assert subscriber["blocked"] == "suppressed: hard bounce"
    assert (results["accepted"], results["bounced"]) == (2, 1)
    assert [(each["kind"], each["count"]) for each in results["kinds"]] == [("gone", 1)]
