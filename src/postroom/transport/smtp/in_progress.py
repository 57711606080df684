"""The emails in progress on one connection: never more than two."""

from __future__ import annotations

from postroom.domain.errors import Invalid
from postroom.mail.bounces.envelope_tokens import EnvelopeTokens
from postroom.mail.wire_addresses import envelope_address
from postroom.transport.contract import (
    INVALID_ADDRESS,
    INVALID_MESSAGE,
    FaultScope,
    Result,
    ResultKind,
)
from postroom.transport.smtp.backlog import Backlog, CarriedEmails, SmtpEmail
from postroom.transport.smtp.replies import Extensions

CLOSES = "The mail server closed the connection"

_REFUSED = ResultKind.REFUSED  # looking up a member takes longer than comparing it
_BRAKED = Result(ResultKind.DEFERRED, "waits for the reply to another email")


class EmailsInProgress:
    """`sent` has been handed over and has no reply yet. `next` has only an envelope, or a part of
    its content, and so was certainly not delivered."""

    __slots__ = (
        "__weakref__",
        "_backlog",
        "_brake",
        "_extensions",
        "_host",
        "carried",
        "next",
        "retired",
        "sent",
    )

    def __init__(self, host: str, extensions: Extensions, backlog: Backlog) -> None:
        self._host = host
        self._extensions = extensions
        self._backlog = backlog
        self._brake = backlog.brake
        self._brake.add(self)
        self.sent: SmtpEmail | None = None
        self.next: SmtpEmail | None = None
        self.retired = False  # takes no more
        self.carried: CarriedEmails | None = None  # None: it may carry any number

    def take(self) -> SmtpEmail | None:
        """Make the next email that this server can accept `next`, and return it."""
        brake = self._brake
        while not (self.retired or (brake.is_on and self._is_braked)):
            email = self._backlog.take()
            if email is None:
                break
            email.refusals_before = brake.refusals
            result = _prepare(email, self._extensions, self._host)
            if result is None:
                self.next = email
                if self.carried is not None and self.carried.is_used_up_by(email.batch):
                    self.retired = True
                return email
            email.settle(result)
        self.next = None
        return None

    def settle_sent(self, result: Result) -> None:
        email, self.sent = self.sent, None
        if email is not None:
            email.settle(result)
            self._notify_brake(email, result)

    def settle_next(self, result: Result) -> None:
        email, self.next = self.next, None
        if email is not None:
            email.settle(result)
            self._notify_brake(email, result)

    def _notify_brake(self, email: SmtpEmail, result: Result) -> None:
        if self._brake.is_watching or result.kind is _REFUSED:
            self._brake.settled(result, email.refusals_before)

    @property
    def is_busy(self) -> bool:
        return self.sent is not None or self.next is not None

    @property
    def _is_braked(self) -> bool:
        """Whether, with the brake on, another email is in progress."""
        return self.sent is not None or self._brake.stops(self)

    def give_back_braked(self) -> bool:
        """Give `next` back, before its content is sent, if the brake is on and another email is in
        progress. Return whether it was."""
        if not self._brake.is_on or not self._brake.stops(self):
            return False
        self._give_back_next(_BRAKED, counts=False)
        return True

    def hold_others(self, result: Result) -> None:
        """Settle the emails that would get the same reply as the current one: those that wait, and
        the one whose envelope has followed it."""
        email = self.sent or self.next
        follower = self.next if self.sent is not None else None
        if result.scope is FaultScope.ACCOUNT:
            self._backlog.settle_all(result)
        elif result.scope is FaultScope.MESSAGE and email is not None:
            mailing = email.batch.mailing
            self._backlog.settle_mailing(result, mailing)
            if follower is not None and follower.batch.mailing is not mailing:
                follower = None
        else:
            follower = None
        if follower is not None:
            self.settle_next(result)

    def give_back_refused(self, result: Result) -> None:
        """Let another server try both: this one refuses the current email."""
        refused, self.sent = self.sent, None
        if refused is not None:
            self._backlog.give_back(refused, result, counts=True)
        self._give_back_next(result, counts=refused is None)

    def closed_by_server(self, result: Result) -> None:
        """Handle 421 in reply to one of the two."""
        if self.sent is not None:
            self.settle_sent(result)
            self._give_back_next(result, counts=False)
        elif result.kind is ResultKind.HELD and result.scope is not FaultScope.ACCOUNT:
            self.settle_next(result)
        else:  # another connection may succeed
            self._give_back_next(result, counts=True)

    def abandon(self, result: Result, *, retry: bool = True) -> None:
        """Handle the loss of the connection. Without `retry`, `next` is settled instead of going to
        another connection, unless it broke while `sent` was being answered."""
        is_innocent = self.sent is not None
        self.settle_sent(Result(ResultKind.IN_DOUBT, result.reply, reason=result.reason))
        if retry or is_innocent:
            self._give_back_next(result, counts=not is_innocent)
        elif self.next is not None:
            self.hold_others(result)
            self.settle_next(result)

    def _give_back_next(self, result: Result, *, counts: bool) -> None:
        email, self.next = self.next, None
        if email is not None:
            self._backlog.give_back(email, result, counts=counts)


def _prepare(email: SmtpEmail, extensions: Extensions, host: str) -> Result | None:
    """Compose the email and its commands; return a result if this server cannot accept it."""
    batch = email.batch
    recipient = batch.recipients[email.position]
    utf8 = batch.utf8
    address: str = recipient.address
    if not batch.plain:
        try:
            address = envelope_address(recipient.address)
        except Invalid as exc:
            return Result(ResultKind.REFUSED, str(exc), reason=INVALID_ADDRESS)
        utf8 = utf8 or not address.isascii()
    if utf8 and not extensions.smtputf8:
        return _needs_smtputf8(email, host)
    if not email.content:
        try:
            email.content = batch.emails.wire(email.position)
        except Invalid as exc:
            return Result(ResultKind.REFUSED, str(exc), reason=INVALID_ADDRESS)
        except Exception as exc:  # the other emails of the batch must still be sent
            return _held(f"the email cannot be composed: {exc!r}", INVALID_MESSAGE)
    if batch.envelope is None:
        mail, rcpt = batch.mail_command, f"RCPT TO:<{address}>"
    else:
        mail, rcpt = _signed_commands(email, batch.envelope, extensions)
        rcpt = f"RCPT TO:<{address}>{rcpt}"
    if extensions.size is not None:
        size = len(email.content)
        if extensions.size and size > extensions.size and _is_too_large(email, extensions.size):
            return _held(
                f"the email has {size} bytes; {host} accepts at most {extensions.size}",
                "The message is too large for the mail server",
            )
        mail = f"{mail} SIZE={size}"
    if utf8:
        mail += " SMTPUTF8"
    email.envelope = f"{mail}\r\n{rcpt}\r\nDATA\r\n".encode()
    return None


def _signed_commands(
    email: SmtpEmail, envelope: EnvelopeTokens, extensions: Extensions
) -> tuple[str, str]:
    """Return MAIL with the sender that bounces go to, and what to add to RCPT. Where the server
    offers DSN (RFC 3461), it reports failures only, returns only headers, and names the email if
    its sender does not."""
    token = email.batch.emails.token(email.position)
    sender = envelope.sender(token)
    mail = f"MAIL FROM:<{sender}>" if sender else email.batch.mail_command
    if not extensions.dsn:
        return mail, ""
    name = "" if envelope.has_own_senders else f" ENVID={token}"
    return f"{mail} RET=HDRS{name}", " NOTIFY=FAILURE"


def _needs_smtputf8(email: SmtpEmail, host: str) -> Result:
    if email.batch.utf8:
        return _held(
            f"{host} does not offer SMTPUTF8, which this message's own headers need:"
            " use a From address in ASCII",
            "The mail server does not support this From address",
        )
    return Result(
        ResultKind.REFUSED,
        f"{host} does not offer SMTPUTF8, which this address needs (RFC 6531)",
        reason="The mail server does not support this address",
    )


def _held(problem: str, reason: str) -> Result:
    return Result(ResultKind.HELD, problem, FaultScope.MESSAGE, reason)


def _is_too_large(email: SmtpEmail, limit: int) -> bool:
    # RFC 1870 3: doubled dots do not count.
    return len(email.batch.mailing.mail(email.recipient)) > limit
