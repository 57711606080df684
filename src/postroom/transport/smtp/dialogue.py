"""The conversation with a mail server: what to write next, and which email a reply is about. It has
no socket.

With PIPELINING (RFC 2920) one write carries the end of one email and the beginning of the next,
and one read all four replies:

    client                                              server
    MAIL A, RCPT A, DATA                          ──▶
                                                  ◀──   250, 250, 354
    content of A, final dot, MAIL B, RCPT B, DATA ──▶
                                                  ◀──   250 (A is accepted), 250, 250, 354
    content of B, final dot, MAIL C, …

Without it, each command waits for its reply. In both cases at most one email of a connection is
between its final dot and its reply; every other email on it was certainly not delivered.
"""

from __future__ import annotations

from typing import Protocol

from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.backlog import Backlog, CarriedEmails, SmtpBatch, SmtpEmail
from postroom.transport.smtp.in_progress import CLOSES, EmailsInProgress
from postroom.transport.smtp.replies import NAMED, Extensions, Reply, ReplyReader, SmtpStage
from postroom.transport.smtp.reply_meaning import accepted, judge

PIECE = 64 * 1024
"""Larger emails are written in pieces: a connection lost before the last one leaves no doubt."""

_NOTHING: tuple[SmtpStage, ...] = ()
_CONTENT = (SmtpStage.CONTENT,)
_ENVELOPE = (SmtpStage.MAIL, SmtpStage.RCPT, SmtpStage.DATA)
_AFTER_RESET = (SmtpStage.RSET, *_ENVELOPE)
_WHOLE = (SmtpStage.CONTENT, *_ENVELOPE)


class DialogueChannel(Protocol):
    """What a dialogue needs of a connection."""

    def write(self, data: bytes) -> None: ...

    def disconnect(self) -> None:
        """Close without QUIT; ignore what arrives later."""

    def rest(self) -> None:
        """Report that there is nothing to do until `Dialogue.wake`."""

    def fails(self, result: Result) -> bool:
        """Report that the server accepts no email. Return whether another one is tried."""


class Dialogue:
    """The conversation on one connection, after greeting, encryption and login."""

    def __init__(
        self, host: str, extensions: Extensions, backlog: Backlog, channel: DialogueChannel
    ) -> None:
        self._host = host
        self._pipelining = extensions.pipelining
        self._emails = EmailsInProgress(host, extensions, backlog)
        self._channel = channel
        self._reader = ReplyReader()
        self._usual: bytes | None = None  # the server's replies to an ordinary envelope
        self._awaited = _NOTHING  # replies to the last write, in order
        self._answered = 0  # how many of them have come
        self._data_open = False  # the envelope was answered with 354
        self._refused_at: SmtpStage | None = None  # where the envelope was refused
        self._must_reset = False  # before the next envelope
        self._written = -1  # bytes of a large content; -1: none is being written
        self._is_paused = False
        self._is_over = False

    # — From the pool —

    @property
    def awaits(self) -> SmtpStage | None:
        """The reply that is expected next; None if there is none."""
        if self._answered == len(self._awaited):
            return None
        return self._awaited[self._answered]

    @property
    def is_writing(self) -> bool:
        """Whether a part of a large mail is still unwritten."""
        return self._written >= 0

    def wake(self) -> None:
        """Take an email from the backlog, unless one is in progress."""
        if self.awaits is None and not self._is_over:
            self._begin()

    def retire(self) -> None:
        """Finish the emails in progress and take no more."""
        self._emails.retired = True

    def count_emails(self, most: int = 0) -> None:
        """Retire after this many emails (0: any number), or when the quota of a batch is used up.
        Without this call, nothing is counted."""
        if self._emails.carried is None:
            self._emails.carried = CarriedEmails(most)

    @property
    def is_retired(self) -> bool:
        return self._emails.retired

    def has_sent(self, batch: SmtpBatch) -> bool:
        """Return whether an email of this batch was handed over and has no reply yet."""
        return self._emails.sent is not None and self._emails.sent.batch is batch

    def lost(self, reason: str, *, retry: bool = True) -> None:
        """Handle a lost connection: what was handed over is in doubt, the rest is given back.

        Without `retry` the rest is settled: after a timeout, another attempt would take as long.
        """
        where = f" before the reply to {self.awaits}" if self.awaits else ""
        self._abandon(
            reason + where, CLOSES if retry else "The mail server is not responding", retry
        )

    # — From the connection —

    def received(self, data: bytes) -> bool:
        """Process bytes from the server; return whether they completed a reply."""
        if self._is_over:
            return False
        if self._awaited is _WHOLE and not self._answered and self._is_plain_success(data):
            return True
        replies = self._reader.feed(data)
        if self._reader.problem:
            return self._received_garbage(replies)
        for reply in replies:
            self._replied(reply)
        return bool(replies)

    def _received_garbage(self, replies: list[Reply]) -> bool:
        """Use the replies that came with it, but write nothing more on this connection.

        Replies after the garbage count only if none is missing: otherwise the garbage may have been
        one, and they would be matched to the wrong commands.
        """
        problem, after = self._reader.problem, self._reader.after_problem
        if not replies and len(after) == len(self._awaited) - self._answered:
            replies = after
        for reply in replies:
            self._replied(reply)
        if not self._is_over:
            self._break(f"the server sent {problem}", "The mail server sent an invalid reply")
        return bool(replies)

    def paused(self) -> None:
        self._is_paused = True

    def resumed(self) -> None:
        self._is_paused = False
        if self.is_writing and not self._is_over:
            self._write_pieces()

    # — Replies —

    def _is_plain_success(self, data: bytes) -> bool:
        """Handle the ordinary case without parsing: accepted, and the next content may be sent."""
        first, _, others = data.partition(b"\r\n")
        if first[:4] != b"250 " or b"\n" in first or not self._reader.is_empty:
            return False
        if others != self._usual:  # most servers repeat themselves for each envelope
            if not _is_open_envelope(others):
                return False
            self._usual = others
        self._emails.settle_sent(accepted(first))
        self._answered = 4
        self._send_content()
        return True

    def _replied(self, reply: Reply) -> None:
        stage = self.awaits
        if self._is_over:
            return
        if stage is None:  # unasked: mostly 421, before an idle connection is closed
            self._break(reply.text)
        elif reply.code == 421:
            # RFC 5321 3.8: it closes the connection and did not execute the last command.
            result = judge(stage, reply)
            if result.kind is ResultKind.HELD and result.scope is FaultScope.ACCOUNT:
                self._channel.fails(result)
            self._emails.closed_by_server(result)
            self._break(reply.text)
        else:
            self._answered += 1
            self._decide(stage, reply)
            is_complete = self._answered == len(self._awaited)
            if is_complete and not self._is_over and not self._reader.problem:
                self._advance()

    def _decide(self, stage: SmtpStage, reply: Reply) -> None:
        if stage is SmtpStage.CONTENT:
            self._content_answered(reply)
        elif stage is SmtpStage.DATA and reply.code == 354:
            self._data_open = True
        elif stage is SmtpStage.DATA or not reply.is_positive:
            self._refused(stage, reply)

    def _content_answered(self, reply: Reply) -> None:
        result = judge(SmtpStage.CONTENT, reply)
        if self.is_writing:  # the rest of a large mail is not sent, so only closing ends this
            if reply.is_negative and not self._moves_on(result):
                self._emails.settle_next(result)
            self._break(f"a reply in the middle of the email: {reply.text}")
            return
        # After the lone dot that follows a refused recipient there is nothing to settle.
        if self._emails.sent is not None and self._moves_on(result):
            self._break(result.reply)
            return
        self._emails.settle_sent(result)
        if result.kind is ResultKind.IN_DOUBT:
            self._break(result.reply)

    def _refused(self, stage: SmtpStage, reply: Reply) -> None:
        if not reply.is_negative or stage is SmtpStage.RSET:
            self._break(f"unexpected reply to {stage}: {reply.text}")
        elif self._refused_at is None:
            # The first refusal of an envelope counts; the others are its consequences.
            self._refused_at = stage
            self._must_reset = stage is not SmtpStage.MAIL
            result = judge(stage, reply)
            if self._moves_on(result):
                self._break(result.reply)
            else:
                self._emails.settle_next(result)

    def _moves_on(self, result: Result) -> bool:
        """Apply a refusal that is not the recipient's fault to all emails that it concerns. Return
        whether the email goes to another server."""
        if result.kind is not ResultKind.HELD:
            return False
        if result.scope is FaultScope.ACCOUNT and self._channel.fails(result):
            self._emails.give_back_refused(result)
            return True
        self._emails.hold_others(result)
        return False

    def _break(self, problem: str, reason: str = CLOSES) -> None:
        self._abandon(problem, reason)
        self._channel.disconnect()

    def _abandon(self, problem: str, reason: str, retry: bool = True) -> None:
        """Give up the connection. If the recipient has been named, it may be the cause, so only
        this email waits. Otherwise it is the server's own fault."""
        self._is_over = True
        problem = f"{self._host}: {problem}"
        has_envelope = self.awaits is None and self._emails.next is not None
        if has_envelope or self.awaits in NAMED:
            result = Result(ResultKind.DEFERRED, problem)
        else:
            result = Result(ResultKind.HELD, problem, FaultScope.ACCOUNT, reason)
            if self._emails.next is not None:
                self._channel.fails(result)
        self._emails.abandon(result, retry=retry)

    # — Commands —

    def _advance(self) -> None:
        """Write what comes next: all replies to the last write are in."""
        email = self._emails.next
        if email is None:
            if self._data_open:
                self._end_refused()
            else:
                self._begin()
        elif self._data_open:
            self._send_content()
        # The rest is for servers without PIPELINING.
        elif self._awaited[-1] is SmtpStage.RSET:
            self._write_command(SmtpStage.MAIL, email)
        elif self._awaited[-1] is SmtpStage.MAIL:
            self._write_command(SmtpStage.RCPT, email)
        else:
            self._write_command(SmtpStage.DATA, email)

    def _write(self, awaited: tuple[SmtpStage, ...], data: bytes) -> None:
        self._awaited = awaited
        self._answered = 0
        self._channel.write(data)

    def _write_command(self, stage: SmtpStage, email: SmtpEmail) -> None:
        """Write one command of the envelope."""
        self._write((stage,), email.envelope.splitlines(keepends=True)[_ENVELOPE.index(stage)])

    def _begin(self) -> None:
        """Open the envelope of the next email, or rest."""
        email = self._emails.take()
        self._data_open = False
        self._refused_at = None
        if email is None:
            self._awaited = _NOTHING
            self._answered = 0
            self._channel.rest()
            return
        reset, self._must_reset = self._must_reset, False
        if self._pipelining:
            if reset:
                self._write(_AFTER_RESET, b"RSET\r\n" + email.envelope)
            else:
                self._write(_ENVELOPE, email.envelope)
        elif reset:
            self._write((SmtpStage.RSET,), b"RSET\r\n")
        else:
            self._write_command(SmtpStage.MAIL, email)

    def _end_refused(self) -> None:
        """End with a lone dot (RFC 2920 3.1): DATA got 354 although the recipient was refused."""
        if self._refused_at is not SmtpStage.RCPT:
            # The recipient may have been accepted, and would get an empty mail.
            self._break("the server expects an email that must not be sent")
            return
        self._must_reset = False  # the dot ends the transaction
        self._end_content(b"")

    def _send_content(self) -> None:
        email = self._emails.next
        if email is None or self._must_stop(email):
            return
        if self._emails.give_back_braked():
            self._break("another email goes first")
            return
        if len(email.content) > PIECE:
            self._awaited = _CONTENT
            self._answered = 0
            self._written = 0
            self._write_pieces()
            return
        self._emails.sent = email
        self._end_content(email.content)

    def _must_stop(self, email: SmtpEmail) -> bool:
        """Return whether to stop. After 354, anything that ends the content would be delivered: a
        cancelled email can only be stopped by closing the connection."""
        if email.batch.cancelled:
            self._emails.next = None
            self._break("cancelled")
        return self._is_over

    def _write_pieces(self) -> None:
        """Write until the connection is full; the last piece ends with the final dot."""
        email = self._emails.next
        if email is None or self._must_stop(email):
            return
        while not self._is_paused:
            piece = email.content[self._written : self._written + PIECE]
            self._written += PIECE
            if self._written >= len(email.content):
                self._written = -1
                self._emails.sent = email
                self._end_content(piece)
                return
            self._channel.write(piece)

    def _end_content(self, rest: bytes) -> None:
        """Write the final dot, together with the envelope of the next email if there is one."""
        sent = self._emails.sent
        self._data_open = False
        self._refused_at = None
        self._emails.next = None
        following = self._emails.take() if self._pipelining else None
        if sent is not None:
            sent.content = b""
            sent.hand_over()
        if following is not None:
            self._write(_WHOLE, b"".join((rest, b".\r\n", following.envelope)))
        else:
            self._write(_CONTENT, rest + b".\r\n")


def _is_open_envelope(replies: bytes) -> bool:
    """Return whether these are three one-line replies that ask for the content."""
    lines = replies.split(b"\r\n")
    return (
        len(lines) == 4
        and replies.count(b"\n") == 3
        and not lines[3]
        and lines[0][:4] == b"250 "
        and lines[1][:4] == b"250 "
        and lines[2][:4] == b"354 "
    )
