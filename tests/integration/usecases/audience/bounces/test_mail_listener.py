"""The mail listener encrypts, and has limits."""

from __future__ import annotations

import asyncio
import os
import smtplib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import trustme

from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE
from postroom.inbound.listener_certificate import ListenerCertificate, ListenerError
from postroom.inbound.mail_listener import ListenerSettings, MailListener
from postroom.services.audience.bounces.intake import LARGEST
from postroom.wiring import Services
from tests.services.mail.dsn_mails import dsn
from tests.services.waiting import LOOPBACK, until, wait_until

FIXED = "bounces@contoso.example"
PLAIN = ListenerSettings(LOOPBACK, 0, "smtp", "", FIXED)
T = TypeVar("T")


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def write_certificate(authority: trustme.CA, path: Path) -> None:
    """Write a new certificate with its key, a second later than the one before."""
    before = path.stat().st_mtime if path.exists() else 0.0
    authority.issue_cert(LOOPBACK).private_key_and_cert_chain_pem.write_to_path(str(path))
    os.utime(path, (before + 1, before + 1))


@asynccontextmanager
async def listening(services: Services, settings: ListenerSettings) -> AsyncIterator[int]:
    listener = MailListener(services.bounce_intake, services.identification, settings)
    stopping = asyncio.Event()
    running = asyncio.create_task(listener.run(stopping))
    await until(lambda: listener.port != 0, "the listener does not open", seconds=30)
    try:
        yield listener.port
    finally:
        stopping.set()
        await running


async def talk(port: int, what: Callable[[smtplib.SMTP], T]) -> T:
    def connected() -> T:
        with smtplib.SMTP(LOOPBACK, port, timeout=60) as server:
            return what(server)

    return await asyncio.to_thread(connected)


def deliver(server: smtplib.SMTP, mail: bytes) -> int:
    server.ehlo_or_helo_if_needed()
    server.mail("")
    server.rcpt(FIXED)
    return server.data(mail)[0]


@pytest.mark.parametrize("protocol", ["smtp", "lmtp"])
async def test_connections_are_encrypted_and_a_renewed_certificate_is_used(
    services: Services, tmp_path: Path, authority: trustme.CA, protocol: str
) -> None:
    path = tmp_path / "server.pem"
    write_certificate(authority, path)
    settings = msgspec.structs.replace(PLAIN, certificate=str(path), protocol=protocol)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def encrypted(port: int) -> tuple[int, bytes]:
        kind = smtplib.LMTP if protocol == "lmtp" else smtplib.SMTP
        with kind(LOOPBACK, port) as server:
            assert server.starttls(context=client)[0] == 220
            assert isinstance(server.sock, ssl.SSLSocket)
            return deliver(server, dsn()), server.sock.getpeercert(binary_form=True) or b""

    async with listening(services, settings) as port:
        first, before = await asyncio.to_thread(encrypted, port)
        write_certificate(authority, path)
        second, after = await asyncio.to_thread(encrypted, port)
        path.write_text("half of a fi")  # being written
        third, still = await asyncio.to_thread(encrypted, port)
    assert (first, second, third) == (250, 250, 250)
    assert before != after == still
    assert (await services.store.queue(BOUNCE_QUEUE).info()).length == 3


async def test_starttls_is_not_offered_without_a_certificate(services: Services) -> None:
    async with listening(services, PLAIN) as port:
        offered = await talk(port, lambda server: server.ehlo()[1])
    assert b"STARTTLS" not in offered
    assert b"SIZE %d" % LARGEST in offered


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file"), ("x", "no certificate with a matching key")]
)
def test_a_certificate_that_cannot_be_used_is_named(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "server.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ListenerError, match=f"must name readable PEM files, not .*{why}"):
        ListenerCertificate(str(path))


async def test_too_many_connections_and_too_large_emails_are_refused_and_long_lines_are_not(
    services: Services,
) -> None:
    def refusal(port: int) -> int:
        with pytest.raises(smtplib.SMTPConnectError) as refused:
            smtplib.SMTP(LOOPBACK, port)
        return refused.value.smtp_code

    def is_accepted(port: int) -> bool:
        try:
            with smtplib.SMTP(LOOPBACK, port) as server:
                return server.noop()[0] == 250
        except smtplib.SMTPConnectError:
            return False

    def overloaded(port: int) -> int:
        with smtplib.SMTP(LOOPBACK, port), smtplib.SMTP(LOOPBACK, port):
            code = refusal(port)
        wait_until(lambda: is_accepted(port), seconds=10, what="a place is free again")
        return code

    def too_large(server: smtplib.SMTP) -> int:
        server.ehlo()
        return server.mail("", [f"SIZE={LARGEST + 1}"])[0]

    async with listening(services, msgspec.structs.replace(PLAIN, connections=2)) as port:
        assert await asyncio.to_thread(overloaded, port) == 421
        assert await talk(port, too_large) == 552
        mail = dsn(returned=f"Subject: {'x' * 50_000}")
        assert await talk(port, lambda server: deliver(server, mail)) == 250
