"""Decides what a reply says about a mailbox: the same whether a mail server gave it while the email
was being sent, or quoted it in a bounce days later."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from postroom.domain.messages.delivery.bounces import LONGEST_DIAGNOSTIC, BounceKind
from postroom.transport.smtp.replies import NAMED
from postroom.transport.smtp.reply_table import find_rules

GONE_CODES = frozenset({"1.1", "1.2", "1.6", "1.10"})
"""RFC 3463 3.2, RFC 7505: enhanced codes (without their class) that say that the mailbox or its
domain does not exist."""

_REPLY = re.compile(r"(?<![\w.:-])([45][0-9]{2})(?:[ :]{1,3}|-(?=[45]\.|[^0-9])|$)")
_STATUS = re.compile(r"(?<![\w.])#?([45]\.[0-9]{1,3}\.[0-9]{1,3})(?![.\w])")
_CONTINUED = re.compile(r"(?<![:\s])\s+[45][0-9]{2}-([45]\.[0-9]{1,3}\.[0-9]{1,3}(?=\s))?")
"""The code of a further line of a reply. After a colon, the reply begins."""
_TYPE = re.compile(r"^\s*(?:smtp|x-[\w-]+|x400|dns|lmtp)\s*;\s*", re.IGNORECASE)
_LONGEST_SENTENCE = 4000
_GENERIC = ("", "0.0", "5.0", "3.0")
"""Enhanced codes that say nothing: then the text counts."""


class Verdict(msgspec.Struct, frozen=True):
    """What a reply says. `by_code`: `gone` follows from the enhanced code `status`."""

    kind: BounceKind
    status: str = ""
    by_code: bool = False
    text: str = ""


def judge_mailbox(text: str, status: str = "", *, is_temporary: bool | None = None) -> Verdict:
    """Return what a reply, or a sentence of a bounce, says about the mailbox.

    `status` is the enhanced code that came with it, which the text's own overrides. Without any
    code in it, the reply counts as permanent unless `is_temporary`.
    """
    text = " ".join(_CONTINUED.sub(" ", _TYPE.sub("", text)).split())
    found = _STATUS.search(text)
    own = found[1] if found else ""
    if own.partition(".")[2] in _GENERIC and status:
        own = status
    reply = _REPLY.search(text)
    code = reply[1] if reply else ""
    if is_temporary is None:
        is_temporary = (code or own)[:1] == "4"
    code = code if code[:1] == ("4" if is_temporary else "5") else "450" if is_temporary else "550"
    kind, by_code = _look_up(code, own.partition(".")[2], text, is_temporary)
    return Verdict(kind, own, by_code, text[:LONGEST_DIAGNOSTIC])


def judge_sentences(sentences: Sequence[str], status: str, is_temporary: bool) -> Verdict:
    """Return what a bounce in plain words says. A sentence that quotes a reply counts most; one
    that says only that something took too long counts least, because many explanations do."""
    verdicts = [
        (judge_mailbox(each, status, is_temporary=is_temporary or None), _quotes_reply(each))
        for each in (sentence[:_LONGEST_SENTENCE] for sentence in sentences)
    ]
    known = [each for each in verdicts if each[0].kind is not BounceKind.UNKNOWN]
    known.sort(key=lambda each: (not each[1], each[0].kind is BounceKind.TEMPORARY))
    return known[0][0] if known else Verdict(BounceKind.UNKNOWN, status)


def _quotes_reply(sentence: str) -> bool:
    return bool(_REPLY.search(sentence) or _STATUS.search(sentence))


def _look_up(code: str, status: str, text: str, is_temporary: bool) -> tuple[BounceKind, bool]:
    rules = find_rules(NAMED, code, status, text)
    # A rule that says only that it is about the recipient leaves it to the next one to say what.
    rule = next((each for each in rules if each.kind is not BounceKind.UNKNOWN), None)
    if rule is None:
        return (BounceKind.TEMPORARY if is_temporary else BounceKind.UNKNOWN), False
    if rule.kind is BounceKind.GONE and is_temporary:
        return BounceKind.TEMPORARY, False
    return rule.kind, rule.kind is BounceKind.GONE and status in GONE_CODES
