"""Whose fault is it? One table decides what a mail server's reply means. Nothing here has a socket.

Only a fault of the recipient marks the recipient: refused for good, or deferred. Everything else is
held, for everybody who would get the same reply: all recipients at a provider that throttles or
blocks us, all recipients of a message that is rejected, or all emails if the mail server does not
want us. The table is in `reply_table.py`; its first rule that matches counts.

Mail normally leaves through one server of ours, which talks to the recipients' providers later. So
what it says before a recipient is named concerns everybody. What it says of one recipient concerns
everybody only if the text is about our account; a text about block lists or reputation may be a
provider's, which it quotes, and must not stop the rest.
"""

from __future__ import annotations

import re

from postroom.transport.contract import Result, ResultKind, Scope
from postroom.transport.reply_parsing import Reply, Stage, parse_reply
from postroom.transport.reply_table import NAMED, RULES

_QUOTED = re.compile(r"\bsaid: ([45][0-9]{2}[ -].*)")
"""What the recipient's provider told the mail server, as Postfix quotes it."""


def judge(stage: Stage, reply: Reply) -> Result:
    """Return what the reply means for the email whose turn it is.

    2xx accepts an email only when it answers the mail itself. A reply that fits nothing leaves the
    email in doubt when all of it was handed over.
    """
    if not reply.is_negative:
        return _judge_unexpected(stage, reply)
    if stage in NAMED and (quoted := _QUOTED.search(reply.text)) is not None:
        return _judge_quoted(stage, reply, quoted[1])
    code, status = str(reply.code), reply.status.partition(".")[2]
    for rule in RULES:
        if rule.matches(stage, code, status, reply.text):
            if rule.scope is Scope.RECIPIENT:
                return Result(_kind_for_recipient(reply), reply.text, reason=rule.reason)
            return Result(ResultKind.HELD, reply.text, rule.scope, rule.reason)
    return Result(_kind_for_recipient(reply), reply.text)


def _judge_unexpected(stage: Stage, reply: Reply) -> Result:
    if stage is Stage.CONTENT:
        if reply.is_positive:
            return Result(ResultKind.ACCEPTED, reply.text)
        return Result(ResultKind.IN_DOUBT, f"unexpected reply to {stage}: {reply.text}")
    return Result(
        ResultKind.HELD,
        f"unexpected reply to {stage}: {reply.text}",
        Scope.ACCOUNT,
        "The mail server sent an unexpected reply",
    )


def _judge_quoted(stage: Stage, reply: Reply, quotation: str) -> Result:
    """Judge by the provider's own words: what it holds against us concerns its recipients alone."""
    quoted = parse_reply([quotation.replace("-", " ", 1).encode()])
    found = judge(stage, quoted) if quoted is not None else Result(ResultKind.DEFERRED)
    if found.kind is ResultKind.HELD:
        return Result(ResultKind.HELD, reply.text, Scope.PROVIDER, found.reason)
    return Result(_kind_for_recipient(reply), reply.text, reason=found.reason)


def _kind_for_recipient(reply: Reply) -> ResultKind:
    # RFC 5321 4.2.2: 503 says that the two ends lost each other, and nothing about the recipient.
    is_permanent = reply.code >= 500 and reply.code != 503
    return ResultKind.REFUSED if is_permanent else ResultKind.DEFERRED


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
