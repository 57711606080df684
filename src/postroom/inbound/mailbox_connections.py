"""Connections to a mailbox, by IMAP or POP3. All of this blocks, and belongs in a thread."""

from __future__ import annotations

import imaplib
import ipaddress
import poplib
import re
import socket
import ssl
from abc import ABC, abstractmethod
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.errors import PostroomError
from postroom.services.audience.bounces.intake import LARGEST

_SECONDS: Final = 60.0  # that the server may be silent
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


_EXPECTED = "bounce_mailbox must look like imaps://user:password@mail.example.com/INBOX"


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


class Mailbox(ABC):
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


class ImapMailbox(Mailbox):
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
        if not url.is_encrypted and not _is_loopback(self._imap.sock):
            if "STARTTLS" not in self._imap.capabilities:
                raise _unencrypted(url, "STARTTLS")
            self._imap.starttls(ssl.create_default_context())
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
            raise imaplib.IMAP4.error(f"the server returned nothing for the email {name}")
        return content

    def mark_processed(self, name: str) -> None:
        to = _quoted(self.url.processed)
        if "MOVE" in self._offers:  # RFC 6851
            self._checked(self._imap.uid("MOVE", name, to))
            return
        self._checked(self._imap.uid("COPY", name, to))
        self._checked(self._imap.uid("STORE", name, "+FLAGS.SILENT", r"(\Deleted)"))
        if "UIDPLUS" in self._offers:  # otherwise this would also delete emails of others
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


class Pop3Mailbox(Mailbox):
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
        if not self.url.is_encrypted and not _is_loopback(self._pop3.sock):
            if "STLS" not in self._offered():
                raise _unencrypted(self.url, "STLS")
            self._pop3.stls(ssl.create_default_context())
        self._pop3.user(self.url.user)
        self._pop3.pass_(self.url.password)

    def _offered(self) -> set[str]:
        try:
            return set(self._pop3.capa())
        except poplib.error_proto:  # RFC 2449 is an extension, too
            return set()

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


def _is_loopback(connection: socket.socket) -> bool:
    """Return whether nobody else can listen in on a connection. Otherwise, a password needs TLS."""
    address = str(connection.getpeername()[0])
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _unencrypted(url: MailboxUrl, extension: str) -> MailboxError:
    return MailboxError(
        f"cannot log in to {url}: passwords are never sent without TLS, and the server does not"
        f" offer {extension}. Use {url.scheme}s://"
    )


def _quoted(name: str) -> str:
    return (
        name if _ATOM.fullmatch(name) else '"' + name.replace("\\", r"\\").replace('"', r"\"") + '"'
    )


def connect(url: MailboxUrl) -> Mailbox:
    """Connect to a mailbox, without logging in. `OSError` or a reply of the server."""
    return Pop3Mailbox(url) if url.scheme.startswith("pop3") else ImapMailbox(url)
