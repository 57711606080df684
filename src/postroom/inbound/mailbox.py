"""Fetches bounces from a mailbox, by IMAP or POP3.

An email is stored and queued first; then it is moved to another folder (IMAP) or deleted (POP3,
which has no folders). An interruption in between fetches it again, and the same bounce counts once.
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import poplib
from contextlib import suppress
from typing import Final

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.inbound.mailbox_connections import Mailbox, MailboxError, MailboxUrl, connect
from postroom.services.audience.bounces.intake import LARGEST, BounceIntake
from postroom.services.concurrency import run_periodically
from postroom.services.events import EventService, Severity
from postroom.storage import Store, StoreError

log = logging.getLogger(__name__)

PART: Final = "bounces"
_AT_ONCE: Final = 500
_LEASE: Final = 15.0  # seconds; the least that Azure allows
_MOST_CONNECTIONS: Final = 10  # for one round
_REPLIES: Final = (imaplib.IMAP4.error, poplib.error_proto)
_FAILURES: Final = (OSError, *_REPLIES)


class MailboxReader:
    """Fetches all emails every minute, in one of the processes."""

    def __init__(
        self,
        store: Store,
        intake: BounceIntake,
        events: EventService,
        url: MailboxUrl,
        every: float = 60.0,
    ) -> None:
        self._store = store
        self._intake = intake
        self._events = events
        self._url = url
        self._every = every
        self._last_problem = ""

    async def run(self, stopping: asyncio.Event) -> None:
        """Fetch until `stopping`."""
        await run_periodically(
            self._store,
            "mailbox",
            lambda _: self._fetch(),
            every=self._every,
            stopping=stopping,
            lease=_LEASE,
        )

    async def _fetch(self) -> None:
        try:
            await self.fetch()
            self._last_problem = ""
        except MailboxError as exc:
            if str(exc) != self._last_problem:  # once, not every minute
                self._last_problem = str(exc)
                self._events.note(PART, f"{exc}", severity=Severity.WARNING)

    async def fetch(self) -> int:
        """Fetch what is in the mailbox; return how many emails there were. `MailboxError`.

        An email that the server cannot hand over is left there and does not keep the others from
        being fetched, although some servers hang up when they are asked for it.
        """
        fetched, left = 0, dict[str, str]()
        for _ in range(_MOST_CONNECTIONS):
            known = len(left)
            try:
                fetched += await self._empty(left)
                break
            except StoreError:  # some are OSErrors, too
                raise
            except _FAILURES as exc:
                if len(left) == known:  # the cause is not an email
                    raise MailboxError(f"cannot fetch bounces from {self._url}: {exc}") from exc
        if left:
            emails = "1 email" if len(left) == 1 else f"{len(left):,} emails"
            problem = next(iter(left.values()))
            raise MailboxError(f"{emails} in {self._url} cannot be fetched: {problem}")
        return fetched

    async def _empty(self, left: dict[str, str]) -> int:
        """Store what is in the mailbox, in one connection, and return how many emails there were.
        Those that cannot be fetched are added to `left`, with the reason, and not tried again."""
        mailbox = await asyncio.to_thread(connect, self._url)
        fetched = 0
        try:
            await asyncio.to_thread(mailbox.open)
            for name in await asyncio.to_thread(mailbox.names):
                if fetched == _AT_ONCE:
                    break
                if name not in left:
                    fetched += await self._take(mailbox, name, left)
            await asyncio.to_thread(mailbox.close)
        finally:
            with suppress(OSError):
                await asyncio.to_thread(mailbox.disconnect)
        return fetched

    async def _take(self, mailbox: Mailbox, name: str, left: dict[str, str]) -> bool:
        try:
            content = await asyncio.to_thread(mailbox.read, name)
            await self._keep(content, mailbox.source)
            await asyncio.to_thread(mailbox.mark_processed, name)
        except StoreError:
            raise
        except _FAILURES as exc:
            left[name] = str(exc)
            if not isinstance(exc, _REPLIES) or isinstance(exc, imaplib.IMAP4.abort):
                raise  # the connection can no longer be used
            return False
        return True

    async def _keep(self, content: bytes, source: BounceSource) -> None:
        try:
            await self._intake.keep(content[:LARGEST], source)
        except Invalid as exc:
            log.warning("an email in the mailbox is not a bounce: %s", exc)
