"""The same reply means the same while an email is sent and in a bounce: both ask one table."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.mail.bounces.reading import read_mail
from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.bounce_verdicts import judge_mailbox
from postroom.transport.smtp.replies import NAMED, SmtpStage, parse_reply
from postroom.transport.smtp.reply_meaning import judge
from tests.unit.transport.test_mailbox_replies import DEAD, OTHERS
from tests.unit.transport.test_provider_replies import SEEN, STAGES

FIXTURES = Path(__file__).parents[2] / "fixtures"
_REPLY = re.compile(r"(?<![\w.-])[45][0-9]{2}[ -][#45A-Za-z<].{4,200}")

KINDS = {
    FaultScope.RECIPIENT: {
        BounceKind.GONE,
        BounceKind.FULL,
        BounceKind.TEMPORARY,
        BounceKind.UNKNOWN,
    },
    FaultScope.PROVIDER: {BounceKind.POLICY, BounceKind.CONTENT, BounceKind.TEMPORARY},
    FaultScope.ACCOUNT: {BounceKind.POLICY, BounceKind.TEMPORARY},
    FaultScope.MESSAGE: {BounceKind.CONTENT},
}
"""What a reply may say about the mailbox, by whose fault it is."""

ONE_RECIPIENT = (
    "",
    "The recipient accepts mail only from certain senders",
    "The recipient's server does not accept mail for this address",
)
"""Reasons of refusals that are policy and yet concern only their recipient: its own rules, and
security codes without a text that is known."""

REPLIES = [
    "550 5.1.1 Mail from 192.0.2.1 refused: listed at Spamhaus",
    "550 5.1.1 <ann@example.com>: sender is on our block list",
    "550 5.7.1 message contains a virus",
    "554 5.6.0 Message identified as spam",
    "550 5.1.1 user over quota",
    "550 5.7.1 no such user here",
    "552 5.2.2 <ann@example.com>: mailbox full",
    "550 5.1.1 <spamhaus@example.com>: Recipient address rejected: User unknown",
    "550 5.1.1 <ann@virus.example>: User unknown, see https://blocklist.example/spam",
    "550 5.7.26 DMARC check failed",
    "550 5.1.1 rejected: SPF check failed for example.org",
    "451 4.7.1 Greylisting in action, try again later",
    "550 5.7.1 your IP address has a bad reputation",
    "550 hourly sending quota exceeded",
    "550 address is deactivated",
    "550 5.4.4 domain does not exist",
]


def _of_fixtures() -> list[str]:
    mails = [each.read_bytes() for each in (FIXTURES / "bounces").glob("*.txt")]
    for half in ("seen", "unseen"):
        known = tomllib.loads((FIXTURES / "bounce_formats" / f"{half}.toml").read_text())
        mails += [each["mail"].lstrip().encode() for each in known.values()]
    read = [read_mail(mail) for mail in mails]
    texts = [each.diagnostic for mail in read for each in mail.reports]
    found = (
        _REPLY.search(each) for each in (*texts, *(text for mail in read for text in mail.text))
    )
    return sorted({each[0] for each in found if each})


FROM_BOUNCES = _of_fixtures()


def _check(text: str, stage: SmtpStage) -> Result:
    reply = parse_reply([text.replace("-", " ", 1).encode() if text[3] == "-" else text.encode()])
    assert reply is not None
    sending, bounce = judge(stage, reply), judge_mailbox(reply.text)
    if stage is SmtpStage.RCPT and bounce.kind is BounceKind.CONTENT:
        return sending  # nobody says that before the content is known
    if sending.kind is not ResultKind.HELD:
        if bounce.kind is BounceKind.POLICY and sending.reason in ONE_RECIPIENT:
            return sending
        assert bounce.kind in KINDS[FaultScope.RECIPIENT], (sending, bounce)
    else:
        assert bounce.kind in KINDS[sending.scope], (sending, bounce)
    return sending


def test_there_are_replies_from_many_bounces() -> None:
    assert len(FROM_BOUNCES) > 40


@pytest.mark.parametrize("stage", sorted(NAMED))
@pytest.mark.parametrize("text", [*REPLIES, *FROM_BOUNCES])
def test_a_reply_means_the_same_while_sending_and_in_a_bounce(text: str, stage: SmtpStage) -> None:
    _check(text, stage)


@pytest.mark.parametrize("stage", sorted(NAMED))
def test_a_reply_about_a_mailbox_means_the_same(stage: SmtpStage) -> None:
    for text in (*DEAD, *OTHERS):
        _check(text, stage)


@pytest.mark.parametrize(
    ("stage", "lines"),
    [(STAGES[each[1]], each[4].split("↵")) for each in SEEN if STAGES[each[1]] in NAMED],
)
def test_a_reply_of_a_provider_means_the_same(stage: SmtpStage, lines: list[str]) -> None:
    _check(" ".join([lines[-1], *(each[4:] for each in lines[:-1])]), stage)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        (REPLIES[0], FaultScope.PROVIDER),
        (REPLIES[2], FaultScope.MESSAGE),
        (REPLIES[7], FaultScope.RECIPIENT),
        (REPLIES[8], FaultScope.RECIPIENT),
    ],
)
def test_words_count_more_than_a_badly_chosen_code(text: str, scope: FaultScope) -> None:
    result = _check(text, SmtpStage.CONTENT)
    assert result.scope is scope
    assert (result.kind is ResultKind.HELD) is (scope is not FaultScope.RECIPIENT)
