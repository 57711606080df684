"""The emails that one connection has in hand: never more than two."""

from __future__ import annotations

from postroom.transport.contract import Result, ResultKind, Scope
from postroom.transport.smtp.envelopes import prepare
from postroom.transport.smtp.offers import Offers
from postroom.transport.smtp.work import Email, Work

CLOSES = "The mail server closed the connection"


class Hands:
    """`sent`: its final dot was written, its reply has not come. `next`: it has only an envelope,
    or a part of its content, and so was certainly not delivered."""

    __slots__ = ("_host", "_offers", "_work", "next", "retired", "sent")

    def __init__(self, host: str, offers: Offers, work: Work) -> None:
        self._host = host
        self._offers = offers
        self._work = work
        self.sent: Email | None = None
        self.next: Email | None = None
        self.retired = False  # takes no more

    def take(self) -> Email | None:
        """The next email that this server can take becomes `next`."""
        while not self.retired and (email := self._work.take()) is not None:
            result = prepare(email, self._offers, self._host)
            if result is None:
                self.next = email
                return email
            email.settle(result)
        self.next = None
        return None

    def settle_sent(self, result: Result) -> None:
        email, self.sent = self.sent, None
        if email is not None:
            email.settle(result)

    def settle_next(self, result: Result) -> None:
        email, self.next = self.next, None
        if email is not None:
            email.settle(result)

    def hold_others(self, result: Result) -> None:
        """Settle what waits and would get the same reply as the email whose turn it is."""
        email = self.sent or self.next
        if result.scope is Scope.ACCOUNT:
            self._work.settle_all(result)
        elif result.scope is Scope.MESSAGE and email is not None:
            self._work.settle_mailing(result, email.batch.mailing)

    def give_back_refused(self, result: Result) -> None:
        """The server refuses the email whose turn it is, and another one may take both."""
        refused, self.sent = self.sent, None
        if refused is not None:
            self._work.give_back(refused, result, counts=True)
        self._give_back_next(result, counts=refused is None)

    def dismiss(self, result: Result) -> None:
        """The server closes the connection, and said so in reply to one of the two."""
        if self.sent is not None:
            self.settle_sent(result)
            self._give_back_next(result, counts=False)
        elif result.kind is ResultKind.HELD and result.scope is not Scope.ACCOUNT:
            self.settle_next(result)
        else:  # another connection may fare better
            self._give_back_next(result, counts=True)

    def abandon(self, result: Result, *, retry: bool = True) -> None:
        """The connection is gone. Without `retry`, what could go to another one is settled."""
        innocent = self.sent is not None  # of what happened while the other one had its turn
        self.settle_sent(Result(ResultKind.IN_DOUBT, result.reply, reason=result.reason))
        if retry or innocent:
            self._give_back_next(result, counts=not innocent)
        elif self.next is not None:
            self.hold_others(result)
            self.settle_next(result)

    def _give_back_next(self, result: Result, *, counts: bool) -> None:
        email, self.next = self.next, None
        if email is not None:
            self._work.give_back(email, result, counts=counts)
