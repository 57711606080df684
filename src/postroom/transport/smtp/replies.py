"""What a mail server says: bytes → replies → extensions, and rules that match replies. What a reply
means for an email is decided in `reply_meaning.py`, with the rules in `reply_table.py`."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

import msgspec

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.transport.contract import LONGEST_REPLY, FaultScope

LONGEST_LINE = 4096  # RFC 5321 4.5.3.1.5: 512 octets; servers exceed it, within reason
MOST_LINES = 200  # of one reply

_STATUS = re.compile(rb"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?=\s|$)")


class SmtpStage(StrEnum):
    """The command, or step, that a reply is about."""

    CONNECT = "connecting"
    EHLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    RSET = "RSET"
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"
    CONTENT = "the mail"


NAMED = frozenset({SmtpStage.RCPT, SmtpStage.DATA, SmtpStage.CONTENT})
"""Stages at which the server knows the recipient."""

SESSION = frozenset({SmtpStage.CONNECT, SmtpStage.EHLO, SmtpStage.STARTTLS, SmtpStage.AUTH})
UNNAMED = SESSION | {SmtpStage.RSET, SmtpStage.MAIL}


class Reply(msgspec.Struct, frozen=True):
    """One reply. `status` is the enhanced status code (RFC 3463) or empty; `text` is the whole
    reply on one line, for people; `lines` are those of a multi-line reply, without the code."""

    code: int
    status: str
    text: str
    lines: tuple[str, ...] = ()

    @property
    def is_positive(self) -> bool:
        return 200 <= self.code < 300

    @property
    def is_negative(self) -> bool:
        """Whether it is a proper refusal: 4xx or 5xx."""
        return 400 <= self.code < 600


def parse_reply(lines: list[bytes]) -> Reply | None:
    """Return the reply in these lines (without line ends), or None if they are not one."""
    last = lines[-1]
    if not (last[:3].isdigit() and 200 <= int(last[:3]) < 600 and last[3:4] in (b" ", b"")):
        return None
    found = _STATUS.match(last, 4)
    status = found[1].decode() if found else ""
    if len(lines) == 1:
        return Reply(int(last[:3]), status, reply_text(last))
    # Servers repeat the enhanced code on every line: once is enough for people.
    words = [line[4:].removeprefix(found[1]).strip() if found else line[4:] for line in lines]
    head = last[:3] + b" " + (found[1] + b" " if found else b"")
    text = reply_text(head + b" ".join(words))
    return Reply(int(last[:3]), status, text, tuple(reply_text(line[4:]) for line in lines))


def reply_text(line: bytes) -> str:
    """Return a line from outside as one harmless line of text."""
    text = line[:LONGEST_REPLY].decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text).strip()


class ReplyReader:
    """Collects bytes until they are replies. Its memory is bounded, whatever a server sends.

    `problem` says what was not a reply: the server does not speak SMTP, or never ends a line. The
    connection must then be closed; replies that arrived before the garbage are still valid.
    """

    __slots__ = ("_lines", "_rest", "after_problem", "is_empty", "problem")

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []
        self.is_empty = True  # no part of a reply has arrived
        self.problem = ""
        self.after_problem: list[Reply] = []
        """Replies that arrived together with the garbage, after it."""

    def feed(self, data: bytes) -> list[Reply]:
        """Return the replies that are complete now, up to the first problem."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        self.is_empty = False
        replies: list[Reply] = []
        for raw in lines:
            reply = self._add(raw.rstrip(b"\r"))
            if reply is not None:
                (self.after_problem if self.problem else replies).append(reply)
        if len(self._rest) > LONGEST_LINE:
            self._fail("a reply line that does not end")
        self.is_empty = not self._rest and not self._lines
        return replies

    def _add(self, line: bytes) -> Reply | None:
        """Return the reply that this line completes, if it does."""
        if len(line) > LONGEST_LINE:
            self._fail("a reply line that is too long")
            return None
        self._lines.append(line)
        if line[3:4] == b"-" and line[:3].isdigit():
            if len(self._lines) > MOST_LINES:
                self._fail("a reply that does not end")
            return None
        reply = parse_reply(self._lines)
        self._lines = []
        if reply is None:
            self._fail(f"not a reply: {line[:80].decode('ascii', 'replace')!r}")
        return reply

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._lines = []


class Extensions(msgspec.Struct, frozen=True):
    """What a server supports, from its reply to EHLO (RFC 5321 4.1.1.1)."""

    pipelining: bool = False  # RFC 2920
    starttls: bool = False  # RFC 3207
    smtputf8: bool = False  # RFC 6531
    size: int | None = None  # RFC 1870; 0 is 'no fixed limit', None 'not supported'
    auth: frozenset[str] = frozenset()  # RFC 4954
    dsn: bool = False  # RFC 3461

    def __str__(self) -> str:
        """Name those that matter here, for people."""
        names = [
            "PIPELINING" if self.pipelining else "",
            "STARTTLS" if self.starttls else "",
            "SMTPUTF8" if self.smtputf8 else "",
            f"SIZE {self.size}" if self.size else "",
            f"AUTH {' '.join(sorted(self.auth))}" if self.auth else "",
        ]
        return ", ".join(filter(None, names)) or "no extensions"


def parse_extensions(lines: list[str]) -> Extensions:
    """Return the extensions in the lines of the reply, without codes; the first is a greeting."""
    found: dict[str, str] = {}
    for line in lines[1:]:
        keyword, _, rest = line.strip().upper().partition(" ")
        if keyword.startswith("AUTH="):  # what old servers write instead of 'AUTH '
            keyword, rest = "AUTH", f"{keyword[5:]} {rest}"
        found[keyword] = f"{found.get(keyword, '')} {rest}".strip()
    size = found.get("SIZE")
    return Extensions(
        pipelining="PIPELINING" in found,
        starttls="STARTTLS" in found,
        smtputf8="SMTPUTF8" in found,
        size=None if size is None else int(size) if size.isdecimal() else 0,
        auth=frozenset(found.get("AUTH", "").split()),
        dsn="DSN" in found,
    )


_KINDS = {
    FaultScope.RECIPIENT: BounceKind.UNKNOWN,
    FaultScope.PROVIDER: BounceKind.POLICY,
    FaultScope.ACCOUNT: BounceKind.POLICY,
    FaultScope.MESSAGE: BounceKind.CONTENT,
}


class ReplyRule:
    """Which replies are whose fault. A scope of `RECIPIENT` refuses the recipient, or defers it if
    the code is 4xx; all others hold. `kind` is what the same reply means in a bounce; without it,
    the scope decides.

    It matches one of the texts or the enhanced status code (without its class, which some servers
    get wrong: `7.26`), or everything if neither is given, as restricted by the rest."""

    def __init__(
        self,
        scope: FaultScope,
        reason: str,
        seen: str,
        *texts: str,
        status: str = "",
        code: str = "[45]..",
        only_status: str = ".*",
        stages: frozenset[SmtpStage] = frozenset(SmtpStage),
        kind: BounceKind | None = None,
    ) -> None:
        self.scope = scope
        self.kind = kind or _KINDS[scope]
        self.reason = reason
        self.seen = seen  # where such replies come from
        self._text = "|".join(texts)
        self._status = status
        self._code = code
        self._only_status = only_status
        self.stages = stages

    def fits(self, code: str, status: str, text: str) -> bool:
        """Return whether a reply matches, whatever it replies to."""
        if not _compiled(self._code).fullmatch(code):
            return False
        if not _compiled(self._only_status).fullmatch(status):
            return False
        if self._text and _compiled(self._text).search(text):
            return True
        if self._status:
            return _compiled(self._status).fullmatch(status) is not None
        return not self._text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile when first needed: all patterns together take 20 ms of every start of a sender."""
    return re.compile(pattern, re.IGNORECASE)
