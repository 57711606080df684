"""What a sender asks of a transport, and what it is told.

┌────────┐  send(mailing, recipients, watcher)   ┌───────────┐
│ sender │ ────────────────────────────────────▶ │ transport │ ──▶ mail server, HTTP API, folder
└────────┘ ◀──────────────────────────────────── └───────────┘
             one Result for each recipient
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from postroom.errors import PostroomError
from postroom.mail.mailing import Mailing, Recipient


class TransportError(PostroomError):
    """A transport that cannot work as it is set up; the text says what to change."""


class ResultKind(StrEnum):
    ACCEPTED = "accepted"
    """The server took it: from now on it is the server's duty (RFC 5321 4.2.5)."""

    REFUSED = "refused"
    """It will never take it for this recipient: 5xx, a bad address."""

    DEFERRED = "deferred"
    """Not now: 4xx, no connection. Certainly not delivered. To be tried again."""

    HELD = "held"
    """Not delivered, and not this recipient's fault: everything within `Result.scope` would get the
    same reply. It waits, and this does not count as an attempt."""

    IN_DOUBT = "in_doubt"
    """All of it was handed over, and no answer came: nobody can know."""


class Scope(StrEnum):
    """Whose fault a reply is, and so which emails get the same reply."""

    RECIPIENT = "recipient"
    """Only this recipient: unknown, full, greylisted."""

    PROVIDER = "provider"
    """All recipients at this recipient's provider, which throttles or blocks us."""

    ACCOUNT = "account"
    """Everybody: the mail server is unreachable, or our account, address or IP is refused."""

    MESSAGE = "message"
    """All recipients of this message: it is too large, or its content is rejected."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """What became of one email.

    `reply` is the server's own words on one line. `scope` counts for `HELD` alone. `reason` says
    what happened in plain words, as an English sentence without its full stop; it is empty if the
    email was accepted or no rule knows the reply.
    """

    kind: ResultKind
    reply: str = ""
    scope: Scope = Scope.RECIPIENT
    reason: str = ""

    @property
    def is_unknown_refusal(self) -> bool:
        """Whether the recipient was refused by a reply that no rule knows. If most recipients get
        the same one (`replies.same_reply_key`), it is not about them."""
        return self.kind is ResultKind.REFUSED and not self.reason

    @property
    def may_have_arrived(self) -> bool:
        """Whether the recipient may have the email."""
        return self.kind is ResultKind.ACCEPTED or self.kind is ResultKind.IN_DOUBT


class Watcher(Protocol):
    """Is told at once what happens to each email, by its position in the batch.

    Both are called in the event loop's thread, must be quick and must not raise. `handing_over`
    comes before the byte that completes the email can leave this process; so whoever was not
    handed over was certainly not sent.
    """

    def handing_over(self, position: int) -> None: ...

    def settled(self, position: int, result: Result) -> None: ...


class Unwatched:
    """A watcher for a mail of which nothing has to be remembered."""

    def handing_over(self, position: int) -> None:
        return

    def settled(self, position: int, result: Result) -> None:
        return


class Transport(ABC):
    """A way out. One object serves the whole process; calls may overlap."""

    @abstractmethod
    async def send(
        self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher
    ) -> list[Result]:
        """Send to each recipient; answers a result for each, in order, and never raises for one.

        Cancelled, it stops as soon as what was handed over is settled or `IN_DOUBT`; emails that
        were not handed over by then were not sent.
        """

    @property
    def at_once(self) -> int:
        """How many emails it can have under way at the same moment."""
        return 1

    def limit_connections(self, most: int) -> None:
        """No more connections to a server than this, from now on. Those that are too many finish
        what they have begun. Nothing to do for a way that has no connections of its own."""
        return

    @abstractmethod
    async def check(self) -> str:
        """Try the way as far as possible without sending; one line of what was found.
        `TransportError` says what is wrong."""

    @abstractmethod
    async def close(self) -> None:
        """Finish politely (QUIT) and let go of connections."""
