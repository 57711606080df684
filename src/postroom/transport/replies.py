"""What a mail server's reply means for the email that it answers. Nothing here has a socket.

A reply tells three things apart that must not be mixed up: this recipient will never get it
(refused), not now (deferred), and *we* are not welcome (blamed). Only the first says something
about a subscriber. The table below decides; its first rule that matches counts.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from postroom.transport.contract import Result, ResultKind

LONGEST_TEXT = 500
"""Characters of a reply that are kept: RFC 5321 4.5.3.1.5 allows a line 512 octets."""


class Stage(StrEnum):
    """What a reply answers."""

    CONNECT = "connecting"
    EHLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    RSET = "RSET"
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"
    CONTENT = "the mail"


class Reply(msgspec.Struct, frozen=True):
    """One reply. `status` is the enhanced status code (RFC 3463) or empty; `text` is all of the
    reply on one line, for people; `lines` are those of a reply with several, without the code."""

    code: int
    status: str
    text: str
    lines: tuple[str, ...] = ()

    @property
    def is_positive(self) -> bool:
        return 200 <= self.code < 300


class _Rule(msgspec.Struct, frozen=True):
    kind: ResultKind
    source: str
    stages: frozenset[Stage] = frozenset(Stage)
    codes: re.Pattern[str] | None = None
    status: re.Pattern[str] | None = None
    """Matched against subject and detail only (`7.26`): some servers mix up the class."""
    text: re.Pattern[str] | None = None

    def matches(self, stage: Stage, code: str, status: str, text: str) -> bool:
        return (
            stage in self.stages
            and (self.codes is None or self.codes.fullmatch(code) is not None)
            and (self.status is None or self.status.fullmatch(status) is not None)
            and (self.text is None or self.text.search(text) is not None)
        )


def _texts(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_SESSION = frozenset({Stage.CONNECT, Stage.EHLO, Stage.STARTTLS, Stage.AUTH})
_NAMED = frozenset({Stage.RCPT, Stage.DATA, Stage.CONTENT})
"""Stages at which the server knows the recipient."""

_BUSY = _texts(r"too many errors", r"too many (concurrent )?(\w+ )?(connections|sessions)")
_GREYLISTED = _texts(r"gr[ea]y-?\s?list", r"\b4\.7\.1 try again later\W*$")
_SENDER_TEXTS = _texts(
    r"(client host|helo command|sender address|sender) rejected",  # Postfix smtpd
    r"relay(ing)? (access )?(is )?(denied|not permitted|not allowed)|unable to relay",
    r"blocked (using|by|with)|block(ed)? ?list|black ?list|\b(dns)?[rd]?bl\b|spamhaus|barracuda",
    r"reputation|rate.?limit|unusual rate|unsolicited|user complaints|\bspam|throttl",
    r"(spf|dkim|dmarc)\b|unauthenticated|authentication (is )?required|reverse dns|\bptr\b",
    r"banned|policy (violation|reasons?|restrictions?)",
)

_4XX = re.compile("4..")
_5XX = re.compile("5..")

RULES: tuple[_Rule, ...] = (
    # — Temporary, whatever the enhanced code says —
    _Rule(
        ResultKind.DEFERRED,
        "Postfix smtpd(8) says 421 4.7.0 of this connection, not of us: another one fares better",
        codes=_4XX,
        text=_BUSY,
    ),
    _Rule(
        ResultKind.DEFERRED,
        "RFC 6647: greylisting, often with 4.7.1; rspamd's is 'Try again later'",
        stages=_NAMED,
        codes=_4XX,
        text=_GREYLISTED,
    ),
    _Rule(
        ResultKind.DEFERRED,
        "RFC 4954 6, RFC 3207 4: 454 is a temporary failure of the server's own",
        stages=frozenset({Stage.AUTH, Stage.STARTTLS}),
        codes=re.compile("4(?!32)[0-9]{2}"),
    ),
    # — The sender is to blame —
    _Rule(
        ResultKind.HELD,
        "RFC 4954 6: 432 password transition; 530, 534, 535, 538 authentication",
        codes=re.compile("432|530|534|535|538"),
    ),
    _Rule(
        ResultKind.HELD,
        "RFC 5321 3.1, RFC 7504: 5xx before any mail was offered refuses us altogether",
        stages=_SESSION,
        codes=_5XX,
    ),
    _Rule(
        ResultKind.HELD,
        "RFC 5321 3.3: 5xx to MAIL is about the sender: no recipient has been named yet",
        stages=frozenset({Stage.MAIL}),
        codes=_5XX,
    ),
    _Rule(
        ResultKind.HELD,
        "RFC 3463 3.2: x.1.7 and x.1.8 are about the sender's address",
        status=re.compile(r"1\.[78]"),
    ),
    _Rule(
        ResultKind.HELD,
        "RFC 4954 6, RFC 5248: x.7.8, 9, 11, 12, 14 authentication and trust",
        status=re.compile(r"7\.(8|9|11|12|14)"),
    ),
    _Rule(
        ResultKind.HELD,
        "RFC 7372, 7505, 8617, 8689 and Gmail's own: x.7.20 to 40 are SPF, DKIM, DMARC, ARC, PTR",
        status=re.compile(r"7\.(2[0-9]|3[0-9]|40)"),
    ),
    _Rule(
        ResultKind.REFUSED,
        "Microsoft 365: these of the 5.7.5xx are the recipient's own refusal",
        stages=_NAMED,
        codes=_5XX,
        status=re.compile(r"7\.(504|505|507|510|513)"),
    ),
    _Rule(
        ResultKind.HELD,
        "Microsoft 365: x.7.5xx to 7xx are spam, banned or throttled senders; 5.7.515 among them",
        status=re.compile(r"7\.[567][0-9]{2}"),
    ),
    _Rule(
        ResultKind.HELD,
        "Postfix smtpd(8) with smtpd_delay_reject says at RCPT what it holds against the client",
        stages=_NAMED,
        codes=re.compile("[45].."),
        text=_texts(r"(client host|helo command|sender address) rejected"),
    ),
    _Rule(
        ResultKind.REFUSED,
        "Postfix smtpd(8): the recipient's address was what it looked at, whatever the code",
        stages=_NAMED,
        codes=_5XX,
        text=_texts(r"recipient address rejected"),
    ),
    _Rule(
        ResultKind.DEFERRED,
        "The same, for the time being",
        stages=_NAMED,
        codes=_4XX,
        text=_texts(r"recipient address rejected"),
    ),
    _Rule(
        ResultKind.HELD,
        "Texts of block lists and of large providers, with 5.7.x, x.0.0 or no enhanced code",
        stages=_NAMED,
        codes=re.compile("[45].."),
        status=re.compile(r"(7\.[0-9]+|0\.0)?"),
        text=_SENDER_TEXTS,
    ),
    _Rule(
        ResultKind.DEFERRED,
        "RFC 3463 3.8: 4.7.1 to RCPT alone is 'delivery not authorized': greylisting, mostly",
        stages=frozenset({Stage.RCPT}),
        codes=_4XX,
        status=re.compile(r"7\.1"),
    ),
    _Rule(
        ResultKind.HELD,
        "RFC 3463 3.8: 4.7.x is security or policy; Gmail and Yahoo limit senders by 421 4.7.0",
        codes=_4XX,
        status=re.compile(r"7\.[0-9]+"),
    ),
    # — The recipient, or nobody —
    _Rule(
        ResultKind.DEFERRED,
        "RFC 5321 4.2.2: 503 says that the two ends lost each other, nothing about an email",
        codes=re.compile("503"),
    ),
    _Rule(ResultKind.REFUSED, "RFC 5321 4.2.1: permanent", codes=_5XX),
    _Rule(ResultKind.DEFERRED, "RFC 5321 4.2.1: transient", codes=_4XX),
)

_STATUS = re.compile(rb"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?=\s|$)")


def parse_reply(lines: list[bytes]) -> Reply | None:
    """The reply that these lines are (without line ends), or `None` when they are none."""
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
    """A line from outside as one harmless line of text."""
    text = line[:LONGEST_TEXT].decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text).strip()


def judge(stage: Stage, reply: Reply) -> Result:
    """What the reply means for the email whose turn it is.

    2xx accepts it only when it answers the mail itself. A reply that fits nothing leaves the mail
    in doubt when all of it was handed over, and otherwise deferred.
    """
    if stage is Stage.CONTENT and reply.is_positive:
        return Result(ResultKind.ACCEPTED, reply.text)
    code, status = str(reply.code), reply.status.partition(".")[2]
    for rule in RULES:
        if rule.matches(stage, code, status, reply.text):
            return Result(rule.kind, reply.text)
    kind = ResultKind.IN_DOUBT if stage is Stage.CONTENT else ResultKind.DEFERRED
    return Result(kind, f"unexpected reply to {stage}: {reply.text}")


def is_negative(reply: Reply) -> bool:
    """Whether it is a proper refusal: 4xx or 5xx."""
    return 400 <= reply.code < 600


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
