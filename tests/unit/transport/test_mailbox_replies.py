"""Replies in many words and languages: do they say that the mailbox is dead?"""

from pathlib import Path

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.transport.contract import ResultKind
from postroom.transport.smtp.bounce_verdicts import judge_mailbox
from postroom.transport.smtp.replies import SmtpStage, parse_reply
from postroom.transport.smtp.reply_meaning import judge

REPLIES = [
    line.split(" | ", 1)
    for line in Path(__file__).with_name("mailbox_replies.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
DEAD = [text for label, text in REPLIES if label == "dead"]
OTHERS = [text for label, text in REPLIES if label == "other"]


def test_every_reply_has_a_label_and_there_are_many_of_both() -> None:
    assert len(DEAD) + len(OTHERS) == len(REPLIES)
    assert len(DEAD) > 1000
    assert len(OTHERS) > 900


def test_replies_that_say_so_are_about_dead_mailboxes() -> None:
    assert [text for text in DEAD if judge_mailbox(text).kind is not BounceKind.GONE] == []


def test_other_replies_are_not_about_dead_mailboxes() -> None:
    assert [text for text in OTHERS if judge_mailbox(text).kind is BounceKind.GONE] == []


def test_a_dead_mailbox_holds_no_other_email_while_sending() -> None:
    assert [text for text in DEAD if _while_sending(text) is not ResultKind.REFUSED] == []


def _while_sending(text: str) -> ResultKind | None:
    reply = parse_reply([text.replace("-", " ", 1).encode() if text[3] == "-" else text.encode()])
    return None if reply is None else judge(SmtpStage.RCPT, reply).kind
