"""Notices that the store has lost records of emails that this sender has sent (a failover).

A standby that is promoted may lack the last transactions of the primary. So a sender remembers its
recipients for a minute, in memory and in files that the next sender reads (`SentLog`). An email
that was sent and that the store shows as pending without a mark is in doubt: the sender that
sends it again must mark it as a possible duplicate.

When the server is not the one that the store or this sender knows, or the store's mark is behind
(`StoreHistory`), every sender compares what it remembers with the store. Before they take further
pages, all senders wait a while, so that none of them takes a page whose records another one
remembers. Pages that the store has lost altogether are created again: for a minute, the scheduler
claims new pages for a few seconds, so that senders can correct those that they remember.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import WorkItem
from postroom.sender.journal.journal import has_journal
from postroom.sender.journal.sent_log import KEPT_SECONDS, DeadSentLog, SentLog, dead_sent_logs
from postroom.sender.pages.claims import PageTaken
from postroom.sender.pages.page_edits import PageEdits
from postroom.sender.policy import Judge
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.services.events import Severity
from postroom.services.messages.sending.page_rows import FAN_OUT, Page
from postroom.services.operations.store_history import StoreHistory
from postroom.storage import Server

log = logging.getLogger(__name__)

LOST_RECORD = "sent; the store has lost the record of it"

REMEMBERED = timedelta(seconds=KEPT_SECONDS)
_WAIT_SECONDS = 10.0
"""How long senders wait for each other after history was lost: each finds it within 1-2 s."""
_RESTART_SECONDS = 3.0
"""The same after a server was only restarted: an older copy of its files may have been started."""
_AT_ONCE = 8
_UNSIGNED = "I"  # 32 bits


class _SentPage(msgspec.Struct, gc=False):
    """The recipients of one page that this sender has sent to, as 32 bits of a hash of each
    address: a minute may have millions. That another recipient of the page has the same 32 bits is
    unlikely, and would only add an unnecessary mark."""

    item: WorkItem
    sent_at: float = 0.0
    hashes: bytes = b""

    def add(self, addresses: Iterable[Address]) -> None:
        known = array(_UNSIGNED, self.hashes)
        self.hashes = array(_UNSIGNED, {*known, *map(_short_hash, addresses)}).tobytes()

    def __contains__(self, address: Address) -> bool:
        return _short_hash(address) in array(_UNSIGNED, self.hashes)


def _short_hash(address: Address) -> int:
    return hash(address) & 0xFFFFFFFF


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
        self._is_active = is_active
        self._edits = PageEdits(store, services.pages)
        self._owners = {owner, FAN_OUT}
        """This sender, and the scheduler, which sends none."""
        self._dead_owners: set[str] = set()
        """Dead senders of this machine, whose sent emails are known here."""
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
        return self._server is None or clock.monotonic() < self._wait_until

    def remember(self, item: WorkItem, addresses: set[Address]) -> None:
        """Remember that emails of a page were handed over, whether the mail server replied or
        not."""
        page = self._sent.setdefault(item.partition, _SentPage(item))
        page.sent_at = clock.monotonic()
        page.add(addresses)
        if addresses:
            self._log.add(self._server or self._store.server, item, addresses)

    def adopt(self) -> None:
        """Remember what dead senders of this machine have sent."""
        for dead in dead_sent_logs(self._settings.journals):
            self._dead_owners.add(dead.owner)
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
        """Compare a page that could not be recorded, because its claim is lost: if a failover has
        undone the claim, nothing in the store says that emails were sent."""
        if page := self._sent.get(item.partition):
            self._suspects[item.partition] = page

    def in_doubt_states(self, page: Page) -> dict[int, EmailState]:
        """Return the new states of a page's emails that were sent and are pending without a mark,
        by their places."""
        sent = self._sent.get(page.item().partition)
        return {} if sent is None else self._in_doubt_states(page, sent)

    async def free_at(self) -> datetime | None:
        """Return when pages may be taken again if the store has just lost history."""
        await self._check()
        left = self._wait_until - clock.monotonic()
        return clock.now() + timedelta(seconds=left) if left > 0 else None

    async def watch(self, *, is_behind: bool) -> None:
        """Compare what was sent with the store if that is due; to be called every second.
        `is_behind`: whether the store's mark is behind."""
        await self._check(is_behind=is_behind and not self._is_comparing)
        await self._settle_suspects()
        if self._is_comparing and not self._suspects and not self.is_waiting:
            await self._finish_comparing()
        if not self._is_comparing and not self._suspects and self._server == self._store.server:
            oldest = clock.monotonic() - REMEMBERED.total_seconds()
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
        self._wait_until = clock.monotonic() + seconds
        log.warning(
            "%s (%s before, %s now): comparing what was sent with the store for %.0f seconds",
            "the store may have lost its latest records" if is_lost else "the store was restarted",
            before.history or "unknown history",
            server.history or "unknown history",
            seconds,
        )

    async def _has_lost_history(self) -> bool:
        """Return whether records are missing; pause messages if senders do not remember all."""
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
        suspects = [key for key in self._suspects if not self._is_active(key)]
        owners = self._settled_owners() if suspects else set()
        for start in range(0, len(suspects), _AT_ONCE):
            some = suspects[start : start + _AT_ONCE]
            results = await asyncio.gather(
                *(self._compare(self._suspects[key], owners) for key in some)
            )
            for key, in_doubt in zip(some, results, strict=True):
                if in_doubt is not None:
                    self._suspects.pop(key, None)
                    found += in_doubt
                    pages += in_doubt > 0
        if found:
            text = (
                f"the store has lost the records of {found} emails that were sent ({pages} pages);"
                f" they are in doubt (server now: {self._store.server.history or 'unknown'})"
            )
            log.warning("%s", text)
            await self._events.record("store", text, severity=Severity.WARNING)

    def _settled_owners(self) -> set[str]:
        """Return the owners whose claims hide nothing: what they have sent is known here. As long
        as a dead sender's journal exists, its last page may have to be settled from it."""
        folder = self._settings.journals
        return self._owners | {each for each in self._dead_owners if not has_journal(folder, each)}

    async def _compare(self, sent: _SentPage, owners: set[str]) -> int | None:
        """Return how many emails of a page had no record; None if that is not known yet."""
        in_doubt = 0

        def mark(page: Page) -> dict[int, EmailState]:
            nonlocal in_doubt
            states = self._in_doubt_states(page, None if page.claim.doubtful else sent)
            in_doubt = len(states)
            return states

        try:
            # A claim of ours is from before the failover: its end is lost, too.
            page = await self._edits.change(sent.item, mark, owners)
        except PageTaken:
            return None
        if page is None:
            # The scheduler has to create it again, unless its message is lost, too.
            waited = clock.monotonic() - self._wait_until
            return 0 if waited > REMEMBERED.total_seconds() else None
        return in_doubt

    def _in_doubt_states(self, page: Page, sent: _SentPage | None) -> dict[int, EmailState]:
        """As `in_doubt_states`, for emails that were `sent`; None: all of them may have been."""
        judge = Judge(clock.now(), self._settings.retry, self._settings.in_doubt)
        emails = page.emails
        return {
            place: judge.unanswered(LOST_RECORD, emails.state(place))
            for place in emails.pending()
            if (sent is None or emails.addresses[place] in sent)
            and not emails.state(place).was_in_doubt
        }
