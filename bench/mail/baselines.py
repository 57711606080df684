"""Other clients of the same mail server: the limit without a store, and clients that people use."""

from __future__ import annotations

import asyncio
import shutil
import smtplib
import subprocess
import threading
import time
from collections.abc import Iterator

import aiosmtplib
import uvloop

from bench.mail import content
from postroom.mail.mailing import Recipient
from postroom.transport.contract import Result
from postroom.transport.smtp.servers import parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.waiting import LOOPBACK

_PAGE = 100
_PAGES_AT_ONCE = 16
_SMTP_SOURCE = shutil.which("smtp-source") or "/usr/sbin/smtp-source"


class _IgnoringWatcher:
    """A watcher that ignores everything."""

    def handing_over(self, position: int) -> None:
        return

    def settled(self, position: int, result: Result) -> None:
        return


def pipelined(port: int, mails: int, kilobytes: int) -> float:
    """Return the limit in emails per second: our own client, without a store."""

    async def run() -> float:
        transport = SmtpTransport(parse_servers(f"smtp://{LOOPBACK}:{port}"))
        mailing = content.mailing(kilobytes)
        pages: Iterator[int] = iter(range(0, mails, _PAGE))

        async def send() -> None:
            for first in pages:
                recipients = [content.recipient(first + n) for n in range(_PAGE)]
                await transport.send(mailing, recipients, _IgnoringWatcher())

        started = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(_PAGES_AT_ONCE)))
        taken = time.perf_counter() - started
        await transport.close()
        return mails / taken

    return uvloop.run(run())


def with_aiosmtplib(port: int, mails: int, kilobytes: int, connections: int) -> float:
    """Send with a popular asynchronous client: one command at a time, over connections that are
    kept."""

    async def run() -> float:
        mailing = content.mailing(kilobytes)
        numbers = iter(range(mails))

        async def send() -> None:
            client = aiosmtplib.SMTP(hostname=LOOPBACK, port=port, start_tls=False)
            await client.connect()
            for number in numbers:
                to = content.recipient(number)
                await client.sendmail(content.FROM, [to.address], mailing.mail(to))
            await client.quit()

        started = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(connections)))
        return mails / (time.perf_counter() - started)

    return uvloop.run(run())


def with_smtplib(port: int, mails: int, kilobytes: int, threads: int) -> float:
    """Send with Python's own client, as many services do."""
    mailing = content.mailing(kilobytes)
    numbers = iter(range(mails))
    lock = threading.Lock()

    def send() -> None:
        with smtplib.SMTP(LOOPBACK, port) as client:
            while (to := _next(numbers, lock)) is not None:
                client.sendmail(content.FROM, [to.address], mailing.mail(to))

    started = time.perf_counter()
    workers = [threading.Thread(target=send) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return mails / (time.perf_counter() - started)


def with_smtp_source(port: int, mails: int, kilobytes: int, sessions: int) -> float:
    """Send with Postfix's load generator, written in C, over connections that are kept."""
    command = [_SMTP_SOURCE, "-d", "-s", str(sessions), "-m", str(mails)]
    command += ["-l", str(kilobytes * 1024), "-f", content.FROM, "-t", "user@example.com"]
    started = time.perf_counter()
    subprocess.run([*command, f"{LOOPBACK}:{port}"], check=True, timeout=300)
    return mails / (time.perf_counter() - started)


def _next(numbers: Iterator[int], lock: threading.Lock) -> Recipient | None:
    with lock:
        number = next(numbers, None)
    return None if number is None else content.recipient(number)
