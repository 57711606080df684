"""Notices that the store has lost records of emails that this sender has sent (a failover).

A standby that is promoted may lack the last transactions of the primary. So a sender remembers for
a minute whom it has sent to, in memory and in files that the next sender reads (`SentLog`). An
email that was sent and that the store shows as pending without a mark is in doubt: the sender that
sends it again must mark it as a possible duplicate.

When the server is not the one that the store or this sender knows, or the store's mark is behind
(`StoreHistory`), every sender compares what it remembers with the store. Before they take further
pages, all senders wait a while, so that none of them takes a page whose records another one
remembers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.sender.journal.sent_log import KEPT_SECONDS, DeadSentLog, SentLog, dead_sent_logs
from postroom.sender.pages.claims import Claim, Claims, PageLost, PageTaken
from postroom.sender.pages.page import LoadedPage, PageStore
from postroom.sender.policy import EmailVerdict, Judge
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.services.events import Severity
from postroom.services.operations.store_history import StoreHistory
from postroom.storage import Server

log = logging.getLogger(__name__)

LOST_RECORD = "sent; the store has lost the record of it"

REMEMBERED = timedelta(seconds=KEPT_SECONDS)
_WAIT_SECONDS = 10.0
"""How long senders wait for each other after history was lost: each finds the store within 1-2."""
_RESTART_SECONDS = 3.0
"""The same after a server was only restarted: an older copy of its files may have been started."""
_AT_ONCE = 8


class _SentPage(msgspec.Struct):
    """Whom this sender has sent to, of one page."""

    item: WorkItem
    sent_at: float
    addresses: set[Address] = msgspec.field(default_factory=set)
    claim: Claim | None = None
    """Held while the store does not know the page: the scheduler has to create it again."""


class LostHistory:
    """What one sender remembers, compared with the store."""

    def __init__(
        self,
        services: SenderServices,
        owner: str,
        settings: SenderSettings,
        history: StoreHistory | None,
        is_active: Callable[[str], bool],
    ) -> None:
        self._store = store = services.store
        self._events = services.events
        self._settings = settings
        self._history = history
        self._is_in_hand = is_active
        self._queue = store.queue(SEND_QUEUE)
        self._pages = PageStore(store)
        self._claims = Claims(store, owner)
        self._owner = owner
        self._owners = {owner}
        """This sender, and dead ones of this machine: all that they have sent is known here."""
        self._log = SentLog(settings.journals, owner)
        self._adopted: list[DeadSentLog] = []
        """Files of dead senders, kept until their emails have been compared."""
        self._server: Server | None = None
        """The server whose records were compared last; None before the first look."""
        self._restores: int | None = None
        self._checking = asyncio.Lock()
        self._sent: dict[str, _SentPage] = {}
        self._suspects: dict[str, _SentPage] = {}
        self._wait_until = 0.0
        self._is_comparing = False

    @property
    def is_waiting(self) -> bool:
        """Whether no page may be taken, because other senders may remember more than the store."""
        return self._server is None or time.monotonic() < self._wait_until

    def remember(self, item: WorkItem, addresses: set[Address]) -> None:
        """Remember that emails of a page were handed over, whether the mail server replied or
        not."""
        page = self._sent.setdefault(item.partition, _SentPage(item, 0.0))
        page.sent_at = time.monotonic()
        page.addresses |= addresses
        if addresses:
            self._log.add(self._server or self._store.server, item, addresses)

    def adopt(self) -> None:
        """Remember what dead senders of this machine have sent."""
        for dead in dead_sent_logs(self._settings.journals):
            self._owners.add(dead.owner)
            for item, addresses in dead.pages():
                self.remember(item, addresses)
                if dead.server != self._store.server:
                    self.suspect(item)
            if dead.server == self._store.server:
                dead.remove()
            else:
                self._is_comparing = True
                self._adopted.append(dead)

    def close(self) -> None:
        """Leave the files to the next sender on this machine."""
        for dead in self._adopted:
            dead.leave()
        self._log.close()

    def suspect(self, item: WorkItem) -> None:
        """Compare a page that could not be recorded, because its claim is lost."""
        if page := self._sent.get(item.partition):
            self._suspects[item.partition] = page

    def without_record(self, item: WorkItem, loaded: LoadedPage) -> list[Address]:
        """Return the emails of a page that were sent and are pending without a mark."""
        page = self._sent.get(item.partition)
        return [] if page is None else _without_record(page, loaded)

    async def free_at(self) -> datetime | None:
        """Return when pages may be taken again if the store has just lost history."""
        await self._check()
        left = self._wait_until - time.monotonic()
        return datetime.now(UTC) + timedelta(seconds=left) if left > 0 else None

    async def watch(self, *, is_behind: bool) -> None:
        """Compare what was sent with the store if that is due; to be called every second.
        `is_behind`: the store's mark is."""
        await self._check(is_behind=is_behind and not self._is_comparing)
        await self._settle_suspects()
        if self._is_comparing and not self._suspects and not self.is_waiting:
            await self._finish_comparing()
        if not self._is_comparing and not self._suspects and self._server == self._store.server:
            oldest = time.monotonic() - REMEMBERED.total_seconds()
            self._sent = {key: page for key, page in self._sent.items() if page.sent_at > oldest}
            self._log.prune()

    async def _finish_comparing(self) -> None:
        if self._history is not None:
            await self._history.accept_loss()
            self._restores = await self._history.restores()
            if self._server is not None:
                await self._history.record_server(self._server)
        while self._adopted:
            self._adopted.pop().remove()
        self._is_comparing = False

    # -- noticing ----------------------------------------------------------------------------

    async def _check(self, *, is_behind: bool = False) -> None:
        if self._store.server == self._server and not is_behind and self._restores is not None:
            return
        async with self._checking:
            server = self._store.server
            if server == self._server and not is_behind and self._restores is not None:
                return
            before = self._server or await self._server_before(server)
            is_lost = await self._has_lost_history() or server.history != before.history
            if server != before or is_lost:
                self._compare_all(before, server, is_lost=is_lost)
            self._server = server

    async def _server_before(self, server: Server) -> Server:
        """Return the server that senders worked with before this one started."""
        if self._history is None:
            return server
        known = await self._history.server()
        if known is None:
            await self._history.record_server(server)
        return known or server

    def _compare_all(self, before: Server, server: Server, *, is_lost: bool) -> None:
        seconds = _WAIT_SECONDS if is_lost else _RESTART_SECONDS
        self._suspects |= self._sent
        self._is_comparing = True
        self._wait_until = time.monotonic() + seconds
        log.warning(
            "%s (%s before, %s now): comparing what was sent with the store for %.0f seconds",
            "the store may have lost its latest records" if is_lost else "the store was restarted",
            before.history or "unknown history",
            server.history or "unknown history",
            seconds,
        )

    async def _has_lost_history(self) -> bool:
        """Return whether records are missing; pause messages if more than senders remember is."""
        if self._history is None:
            self._restores = 0
            return False
        missing = await self._history.missing()
        if missing is not None and missing > REMEMBERED:
            await self._history.pause_if_lost()
        restores, known = await self._history.restores(), self._restores
        self._restores = restores
        return missing is not None or (known is not None and restores != known)

    # -- comparing ---------------------------------------------------------------------------

    async def _settle_suspects(self) -> None:
        found = pages = 0
        suspects = [key for key in self._suspects if not self._is_in_hand(key)]
        for start in range(0, len(suspects), _AT_ONCE):
            some = suspects[start : start + _AT_ONCE]
            results = await asyncio.gather(*(self._compare(self._suspects[key]) for key in some))
            for key, doubted in zip(some, results, strict=True):
                if doubted is not None:
                    self._suspects.pop(key, None)
                    found += doubted
                    pages += doubted > 0
        if found:
            text = (
                f"the store has lost the records of {found} emails that were sent ({pages} pages);"
                f" they are in doubt (server now: {self._store.server.history or 'unknown'})"
            )
            log.warning("%s", text)
            await self._events.record("store", text, severity=Severity.WARNING)

    async def _compare(self, page: _SentPage) -> int | None:
        """Return how many emails of a page had no record; None if that is not known yet."""
        item = page.item
        counts = await self._pages.counts(item)
        if counts is not None and counts.pending == 0 and page.claim is None:
            return 0
        try:
            claim = page.claim or await self._claim(item)
            # Loaded with the archive: the page may be half settled.
            loaded = await self._pages.load(msgspec.structs.replace(claim, taken_over=True))
            if loaded is None:
                return await self._keep(page, claim)
            page.claim = None
            return await self._doubt(page, claim, loaded)
        except (PageTaken, PageLost):
            page.claim = None
            return None

    async def _claim(self, item: WorkItem) -> Claim:
        found, lease = await self._claims.find(item), self._settings.lease
        if found is None or found.owner not in self._owners:
            return await self._claims.take(item, self._owner, lease)
        # From before the failover: its end is lost, too.
        etag, doubtful = found.etag, found.doubtful
        return await self._claims.take_over(item, self._owner, lease, etag, doubtful=doubtful)

    async def _keep(self, page: _SentPage, claim: Claim) -> int | None:
        """Keep the claim on a page that the store has lost, until it is there again."""
        if time.monotonic() - self._wait_until > REMEMBERED.total_seconds():
            await self._claims.give_up(claim)  # its message is lost, too
            return 0
        page.claim = await self._claims.renew(claim, self._owner, self._settings.lease)
        return None

    async def _doubt(self, page: _SentPage, claim: Claim, loaded: LoadedPage) -> int:
        # A doubtful page was another sender's: whatever has no record is in doubt.
        doubted = list(loaded.emails) if claim.doubtful else _without_record(page, loaded)
        if not doubted:
            await self._claims.give_up(claim)
            return 0
        await self._queue.put(str(msgspec.structs.replace(page.item, restarted=True)), delay=1.0)
        parked = loaded.page.properties.get("Parked") is True
        await self._pages.settle(claim, loaded, self.doubts(doubted, loaded), parked=parked)
        return len(doubted)

    def doubts(
        self, addresses: Iterable[Address], loaded: LoadedPage
    ) -> dict[Address, EmailVerdict]:
        """Return the verdicts on emails whose records are lost."""
        judge = Judge(datetime.now(UTC), self._settings.retry, self._settings.in_doubt)
        return {a: judge.doubted(LOST_RECORD, loaded.before(a)) for a in addresses}


def _without_record(page: _SentPage, loaded: LoadedPage) -> list[Address]:
    return [
        address
        for address, email in loaded.emails.items()
        if address in page.addresses and not email.WasInDoubt
    ]
