"""Decides what a mail server's reply means for an email. Nothing here has a socket.

Only the recipient's own fault marks the recipient as refused or deferred. Everything else is held
for all emails that would get the same reply. Those are all recipients at a provider that throttles
or blocks us, all recipients of a message that is rejected, or all emails if the mail server rejects
us. The rules are in `reply_table.py`.

Mail normally leaves through one server of ours, which talks to the recipients' providers later. So
what it says before a recipient is named concerns all emails. What it says about one recipient
concerns all only if the text is about our account; a text about block lists or reputation may be a
quotation from a provider, and must not stop the rest.
"""

from __future__ import annotations

import re
from functools import lru_cache

from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.replies import NAMED, Reply, SmtpStage, parse_reply, reply_text
from postroom.transport.smtp.reply_table import find_rule

_QUOTED = re.compile(r"\bsaid: ([45][0-9]{2}[ -].*)")
"""The reply of the recipient's provider, as Postfix quotes it."""


def judge(stage: SmtpStage, reply: Reply) -> Result:
    """Return what the reply means for the email in progress.

    2xx accepts an email only in reply to the mail itself. An unexpected reply to it leaves the
    email in doubt.
    """
    if not reply.is_negative:
        return _judge_unexpected(stage, reply)
    if stage in NAMED and (quoted := _QUOTED.search(reply.text)) is not None:
        return _judge_quoted(stage, reply, quoted[1])
    code, status = str(reply.code), reply.status.partition(".")[2]
    rule = find_rule({stage}, code, status, reply.text)
    if rule is None or rule.scope is FaultScope.RECIPIENT:
        reason = "" if rule is None else rule.reason
        return Result(_kind_for_recipient(reply), reply.text, reason=reason)
    return Result(ResultKind.HELD, reply.text, rule.scope, rule.reason)


@lru_cache(maxsize=1)
def accepted(line: bytes) -> Result:
    """Return the result of an email that is accepted by this line: mostly the last one again."""
    return Result(ResultKind.ACCEPTED, reply_text(line))


def _judge_unexpected(stage: SmtpStage, reply: Reply) -> Result:
    if stage is SmtpStage.CONTENT:
        if reply.is_positive:
            return Result(ResultKind.ACCEPTED, reply.text)
        return Result(ResultKind.IN_DOUBT, f"unexpected reply to {stage}: {reply.text}")
    return Result(
        ResultKind.HELD,
        f"unexpected reply to {stage}: {reply.text}",
        FaultScope.ACCOUNT,
        "The mail server sent an unexpected reply",
    )


def _judge_quoted(stage: SmtpStage, reply: Reply, quotation: str) -> Result:
    """Judge the provider's own reply: if it rejects us, that concerns only its recipients."""
    quoted = parse_reply([quotation.replace("-", " ", 1).encode()])
    found = judge(stage, quoted) if quoted is not None else Result(ResultKind.DEFERRED)
    if found.kind is ResultKind.HELD:
        return Result(ResultKind.HELD, reply.text, FaultScope.PROVIDER, found.reason)
    return Result(_kind_for_recipient(reply), reply.text, reason=found.reason)


def _kind_for_recipient(reply: Reply) -> ResultKind:
    # RFC 5321 4.2.2: 503 is a wrong sequence of commands and says nothing about the recipient.
    is_permanent = reply.code >= 500 and reply.code != 503
    return ResultKind.REFUSED if is_permanent else ResultKind.DEFERRED
