"""The table of replies: whose fault each one is, in plain words, what it says about the mailbox,
and where it was seen. The first rule that matches counts.

Sending (`reply_meaning.py`) and bounces (`bounce_verdicts.py`) ask the same table, so that a reply
means the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Final

from postroom.transport.smtp.replies import ReplyRule, SmtpStage
from postroom.transport.smtp.rules.account_rules import ACCOUNT_RULES
from postroom.transport.smtp.rules.recipient_rules import RECIPIENT_RULES
from postroom.transport.smtp.rules.worded_rules import FIRST, LAST

RULES: Final[tuple[ReplyRule, ...]] = (*ACCOUNT_RULES, *FIRST, *RECIPIENT_RULES, *LAST)

# Begins only where a word does: otherwise a long word without '@' would be read again and again.
# Ends where Chinese, Japanese or Korean words begin, which are written without a space, or at dots.
_END = r"\s<>:;,()\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef"
_ADDRESS = re.compile(rf"<?(?<![^{_END}@])[^{_END}@]+@(?:(?!\.\.)[^{_END}])+>?")
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_BLOCK_LIST = re.compile(
    r"https?://[\w.-]*\b(spamhaus|spamcop|barracudacentral|abuseat|sorbs|uceprotect|spamrats)\.\S+",
    re.IGNORECASE,
)
"""GoDaddy replies with nothing but such a link."""
_QUOTING = re.compile(r"\bunknown address error (?=(?:5..[ -]?)?')", re.IGNORECASE)
"""What Cisco's gateways write before each refusal that they quote."""
_CORRECT = {
    "unkown": "unknown",
    "unknow": "unknown",
    "uknown": "unknown",
    "unknwon": "unknown",
    "unkonwn": "unknown",
    "vaild": "valid",
    "invaild": "invalid",
    "invlaid": "invalid",
    "recepient": "recipient",
    "recipent": "recipient",
    "reciepient": "recipient",
    "receipient": "recipient",
    "exsist": "exist",
    "exsists": "exists",
}
_MISSPELT = re.compile(rf"\b(?:{'|'.join(_CORRECT)})\b", re.IGNORECASE)


def find_rule(stages: Set[SmtpStage], code: str, status: str, text: str) -> ReplyRule | None:
    """Return the rule for a reply at one of these stages; `status` is its enhanced code without the
    class."""
    return next(find_rules(stages, code, status, text), None)


def find_rules(stages: Set[SmtpStage], code: str, status: str, text: str) -> Iterator[ReplyRule]:
    """Yield the rules that match a reply, the one that counts first. Addresses and links in the
    text say nothing, as their owners choose their words, unless they lead to a block list."""
    said = _URL.sub(" ", _ADDRESS.sub(" ", _BLOCK_LIST.sub(" block list ", text)))
    said = _QUOTING.sub("", " ".join(said.replace("_", " ").split()))
    said = _MISSPELT.sub(lambda found: _CORRECT[found[0].lower()], said)
    for rule in RULES:
        if not stages.isdisjoint(rule.stages) and rule.fits(code, status, said):
            yield rule
