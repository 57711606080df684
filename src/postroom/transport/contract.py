"""What a transport does for the sender.

┌────────┐  send(mailing, recipients, watcher)   ┌───────────┐
│ sender │ ────────────────────────────────────▶ │ transport │ ──▶ mail server, HTTP API, folder
└────────┘ ◀──────────────────────────────────── └───────────┘
             one Result per recipient
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from postroom.errors import PostroomError
from postroom.mail.mailing import Mailing, Recipient


class TransportError(PostroomError):
    """A transport does not work as configured; the text says what to change."""


class ResultKind(StrEnum):
    ACCEPTED = "accepted"
    """The server accepted it and is responsible for it from now on (RFC 5321 4.2.5)."""

    REFUSED = "refused"
    """The server will never accept it for this recipient: 5xx, an invalid address."""

    DEFERRED = "deferred"
    """Certainly not delivered, but worth another attempt: 4xx, no connection."""

    HELD = "held"
    """Not delivered, and not this recipient's fault: every email within `Result.scope` would get
    the same reply. It waits, and this does not count as an attempt."""

    IN_DOUBT = "in_doubt"
    """Handed over completely, but never answered: it may or may not have been delivered."""


class FaultScope(StrEnum):
    """Whose fault a reply is, and so which emails would get the same one."""

    RECIPIENT = "recipient"
    """Only this recipient: unknown, full, greylisted."""

    PROVIDER = "provider"
    """All recipients at this recipient's provider, which throttles or blocks us."""

    ACCOUNT = "account"
    """All emails: the mail server is unreachable, or refuses our account, address or IP."""

    MESSAGE = "message"
    """All recipients of this message: it is too large, or its content is rejected."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """The outcome of sending one email.

    `reply` quotes the server on one line. `scope` matters for `HELD` only. `reason` explains the
    reply as an English sentence without its full stop; it is empty if the email was accepted or if
    no rule knows the reply.
    """

    kind: ResultKind
    reply: str = ""
    scope: FaultScope = FaultScope.RECIPIENT
    reason: str = ""

    @property
    def is_unknown_refusal(self) -> bool:
        """Whether the recipient was refused by a reply that no rule knows. If most recipients get
        the same one (`same_reply_key`), it is not about them."""
        return self.kind is ResultKind.REFUSED and not self.reason

    @property
    def is_throttling(self) -> bool:
        """Whether the recipient's provider wants fewer emails from us at a time."""
        return self.kind is ResultKind.HELD and self.reason == THROTTLED

    @property
    def may_have_arrived(self) -> bool:
        """Whether the recipient may have the email."""
        return self.kind is ResultKind.ACCEPTED or self.kind is ResultKind.IN_DOUBT


LONGEST_REPLY = 500
"""Characters of a reply that are kept: RFC 5321 4.5.3.1.5 allows a line 512 octets."""

INVALID_ADDRESS = "Mail cannot be sent to this address"
INVALID_MESSAGE = "The message cannot be composed"
THROTTLED = "The recipient's provider is limiting how much we can send"


class Watcher(Protocol):
    """Learns immediately what happens to each email, by its position in the batch.

    Both methods are called in the event loop's thread, must be quick and must not raise.
    `handing_over` is called before the byte that completes the email can leave this process: an
    email that was not handed over was certainly not sent.
    """

    def handing_over(self, position: int) -> None: ...

    def settled(self, position: int, result: Result) -> None: ...


class Unwatched:
    """A watcher for emails that are not recorded."""

    def handing_over(self, position: int) -> None:
        return

    def settled(self, position: int, result: Result) -> None:
        return


class PartWatcher:
    """Watches some neighbours among the emails that another watcher watches; the first of them is
    at `start` there."""

    def __init__(self, watcher: Watcher, start: int) -> None:
        self._watcher = watcher
        self._start = start

    def handing_over(self, position: int) -> None:
        self._watcher.handing_over(self._start + position)

    def settled(self, position: int, result: Result) -> None:
        self._watcher.settled(self._start + position, result)


class ConnectionQuota(msgspec.Struct, frozen=True):
    """A connection that has carried this many `emails` to a provider carries no more to it."""

    provider: str
    emails: int


class Transport(ABC):
    """A way to send emails. One object serves the whole process; calls may overlap."""

    @abstractmethod
    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        """Send to each recipient, and return their results in order. Never raises for a single
        recipient.

        With a `quota`, all recipients are at its provider. A transport without connections ignores
        it.

        If cancelled, stop as soon as every email that was handed over is settled or `IN_DOUBT`;
        the others were not sent.
        """

    @property
    def keeps_bytes(self) -> bool:
        """Whether recipients get the bytes of `Mailing.mail`, so that our signature is valid. An
        email provider that builds the email from its parts signs it itself."""
        return True

    @property
    def concurrency(self) -> int:
        """How many emails can be in progress at the same time."""
        return 1

    def limit_connections(self, most: int) -> None:
        """Keep at most this many connections to a server from now on; excess ones finish their
        email first. Does nothing for a transport without connections."""
        return

    @abstractmethod
    async def check(self) -> str:
        """Test the transport without sending; return one line about what was found. Raise
        `TransportError` if it does not work."""

    @abstractmethod
    async def close(self) -> None:
        """Settle what is in progress and close all connections politely (QUIT)."""


_CODES = re.compile(r"([245][0-9]{2}(?: [245]\.[0-9]{1,3}\.[0-9]{1,3})?)(?= |$)")
_VARIABLE_WORD = re.compile(
    r"""\S*[0-9@]\S*      # numbers, email and IP addresses, queue IDs, dates
    | \S*\w\.[a-z]{2}\S*  # host names and URLs
    """,
    re.IGNORECASE | re.VERBOSE,
)


def same_reply_key(text: str) -> str:
    """Return what two replies have in common that differ only in numbers and addresses.

    The reply code and the enhanced status code in front are kept, because they say what the reply
    is about. Every other word with a digit, an `@` or a host name in it becomes `*`.
    """
    found = _CODES.match(text)
    codes = found[1] if found else ""
    words = ("*" if _VARIABLE_WORD.fullmatch(each) else each for each in text[len(codes) :].split())
    return " ".join([codes, *words]).strip().casefold()
