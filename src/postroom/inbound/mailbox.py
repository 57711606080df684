"""Fetches bounces from a mailbox, by IMAP or POP3.

An email is stored and queued first; then it is moved to another folder (IMAP) or deleted (POP3,
which has no folders). An interruption in between fetches it again, and the same bounce counts once.
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import poplib
import re
import ssl
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.bounces import BounceSource
from postroom.errors import PostroomError
from postroom.services.audience.bounces.intake import LARGEST, BounceIntake
from postroom.services.concurrency import run_periodically
from postroom.services.events import EventService, Severity
from postroom.storage import Store, StoreError

log = logging.getLogger(__name__)

PART: Final = "bounces"
_SECONDS: Final = 60.0  # that the server may be silent
_AT_ONCE: Final = 500
_LEASE: Final = 15.0  # seconds; the least that Azure allows
_MOST_CONNECTIONS: Final = 10  # for one round
_REPLIES: Final = (imaplib.IMAP4.error, poplib.error_proto)
_FAILURES: Final = (OSError, *_REPLIES)
_PORTS: Final = {"imap": 143, "imaps": 993, "pop3": 110, "pop3s": 995}
# By default `poplib` gives up at a line of 2 KB, and so on all emails after such a line.
poplib._MAXLINE = LARGEST  # type: ignore[attr-defined]
_ATOM = re.compile(r"[A-Za-z0-9._/-]+")


class MailboxError(PostroomError):
    """The mailbox cannot be used; the text says why."""


class MailboxUrl(msgspec.Struct, frozen=True):
    """`imaps://user:password@host:993/INBOX?processed=Postroom`."""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    folder: str
    processed: str

    @property
    def is_encrypted(self) -> bool:
        return self.scheme.endswith("s")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.user}@{self.host}:{self.port}/{self.folder}"


_EXPECTED = "bounce_mailbox must be like imaps://user:password@mail.example.com/INBOX"


def parse_mailbox_url(url: str) -> MailboxUrl:
    """Parse the URL of a mailbox. `MailboxError`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise MailboxError(_EXPECTED) from None  # the error's own text repeats the password
    if parts.scheme not in _PORTS or not host or not parts.username:
        raise MailboxError(_EXPECTED)
    return MailboxUrl(
        parts.scheme,
        host,
        port or _PORTS[parts.scheme],
        unquote(parts.username),
        unquote(parts.password or ""),
        unquote(parts.path.strip("/")) or "INBOX",
        parse_qs(parts.query).get("processed", ["Postroom"])[0],
    )


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

        A mail that the server cannot hand over is left there, and keeps none of the others from
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
                if len(left) == known:  # it is not because of an email
                    raise MailboxError(f"cannot fetch bounces from {self._url}: {exc}") from exc
        if left:
            mails = "1 mail" if len(left) == 1 else f"{len(left):,} mails"
            problem = next(iter(left.values()))
            raise MailboxError(f"{mails} in {self._url} cannot be fetched: {problem}")
        return fetched

    async def _empty(self, left: dict[str, str]) -> int:
        """Store what is in the mailbox, in one connection, and return how many emails there were.
        Those that cannot be fetched are added to `left`, with the reason, and not tried again."""
        mailbox = await asyncio.to_thread(_connect, self._url)
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

    async def _take(self, mailbox: _Mailbox, name: str, left: dict[str, str]) -> bool:
        try:
            content = await asyncio.to_thread(mailbox.read, name)
            await self._keep(content, mailbox.source)
            await asyncio.to_thread(mailbox.mark_processed, name)
        except StoreError:
            raise
        except _FAILURES as exc:
            left[name] = str(exc)
            if not isinstance(exc, _REPLIES) or isinstance(exc, imaplib.IMAP4.abort):
                raise  # the connection cannot be used any more
            return False
        return True

    async def _keep(self, content: bytes, source: BounceSource) -> None:
        try:
            await self._intake.keep(content[:LARGEST], source)
        except Invalid as exc:
            log.warning("an email in the mailbox is not a bounce: %s", exc)


class _Mailbox(ABC):
    """A mailbox. Its methods block, and are called one after the other in a thread."""

    source: BounceSource

    @abstractmethod
    def open(self) -> None:
        """Log in and open the folder."""

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def read(self, name: str) -> bytes: ...

    @abstractmethod
    def mark_processed(self, name: str) -> None:
        """Move or delete an email that is stored, so that it is not fetched again."""

    @abstractmethod
    def close(self) -> None:
        """End the session, which makes `mark_processed` final."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection, whatever state it is in. Can be repeated."""


class _Imap(_Mailbox):
    source = BounceSource.IMAP

    def __init__(self, url: MailboxUrl) -> None:
        self.url = url
        self._offers = set[str]()
        self._imap: imaplib.IMAP4
        if url.is_encrypted:
            context = ssl.create_default_context()
            self._imap = imaplib.IMAP4_SSL(
                url.host, url.port, ssl_context=context, timeout=_SECONDS
            )
        else:
            self._imap = imaplib.IMAP4(url.host, url.port, timeout=_SECONDS)

    def open(self) -> None:
        url = self.url
        self._imap.login(url.user, url.password)
        # What it offers depends on the user (RFC 3501 6.2.3); `imaplib` asked before the login.
        offered = self._checked(self._imap.capability())  # several if the login named them, too
        self._offers = set(b" ".join(filter(None, offered)).decode("ascii", "replace").split())
        self._imap.create(_quoted(url.processed))  # 'NO' if it exists
        self._checked(self._imap.select(_quoted(url.folder)))

    def names(self) -> list[str]:
        [found] = self._checked(self._imap.uid("SEARCH", "UNDELETED"))
        return [each.decode() for each in (found or b"").split()]

    def read(self, name: str) -> bytes:
        found = self._checked(self._imap.uid("FETCH", name, "(BODY.PEEK[])"))
        content = next((each[1] for each in found if isinstance(each, tuple)), b"")
        if not content:
            raise imaplib.IMAP4.error(f"the server returned nothing for the mail {name}")
        return content

    def mark_processed(self, name: str) -> None:
        to = _quoted(self.url.processed)
        if "MOVE" in self._offers:  # RFC 6851
            self._checked(self._imap.uid("MOVE", name, to))
            return
        self._checked(self._imap.uid("COPY", name, to))
        self._checked(self._imap.uid("STORE", name, "+FLAGS.SILENT", r"(\Deleted)"))
        if (
            "UIDPLUS" in self._imap.capabilities
        ):  # otherwise this would also delete emails of others
            self._checked(self._imap.uid("EXPUNGE", name))

    def close(self) -> None:
        self._imap.logout()

    def disconnect(self) -> None:
        self._imap.shutdown()

    def _checked(self, reply: tuple[str, list[Any]]) -> list[Any]:
        status, found = reply
        if status != "OK":
            raise imaplib.IMAP4.error(f"the server replied {status} {found!r:.200}")
        return found


class _Pop3(_Mailbox):
    source = BounceSource.POP3

    def __init__(self, url: MailboxUrl) -> None:
        self.url = url
        self._pop3: poplib.POP3
        if url.is_encrypted:
            context = ssl.create_default_context()
            self._pop3 = poplib.POP3_SSL(url.host, url.port, context=context, timeout=_SECONDS)
        else:
            self._pop3 = poplib.POP3(url.host, url.port, timeout=_SECONDS)

    def open(self) -> None:
        self._pop3.user(self.url.user)
        self._pop3.pass_(self.url.password)

    def names(self) -> list[str]:
        return [each.decode().split(" ")[0] for each in self._pop3.list()[1]]

    def read(self, name: str) -> bytes:
        return b"\r\n".join(self._pop3.retr(int(name))[1]) + b"\r\n"

    def mark_processed(self, name: str) -> None:
        self._pop3.dele(int(name))

    def close(self) -> None:
        self._pop3.quit()  # deletes what was marked

    def disconnect(self) -> None:
        self._pop3.close()


def _quoted(name: str) -> str:
    return (
        name if _ATOM.fullmatch(name) else '"' + name.replace("\\", r"\\").replace('"', r"\"") + '"'
    )


def _connect(url: MailboxUrl) -> _Mailbox:
    return _Pop3(url) if url.scheme.startswith("pop3") else _Imap(url)
