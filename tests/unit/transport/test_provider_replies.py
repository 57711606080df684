"""One test for each reply of a large provider or mail server: whose fault is it?"""

from pathlib import Path

import pytest

from postroom.transport.contract import FaultScope, ResultKind
from postroom.transport.smtp.replies import SmtpStage, parse_reply
from postroom.transport.smtp.reply_meaning import judge

SEEN = [
    line.split(" | ", 4)
    for line in Path(__file__).with_name("provider_replies.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
STAGES = {"CONNECT": SmtpStage.CONNECT, "end": SmtpStage.CONTENT} | {
    str(each): each for each in SmtpStage
}


def test_there_are_replies_of_many() -> None:
    assert len(SEEN) > 100
    assert len({provider for provider, *_ in SEEN}) > 30


@pytest.mark.parametrize(
    ("stage", "fault", "word", "text"),
    [each[1:] for each in SEEN],
    ids=[f"{each[0]}: {each[4][:40]}" for each in SEEN],
)
def test_a_reply_is_the_fault_of(stage: str, fault: str, word: str, text: str) -> None:
    reply = parse_reply(text.encode().split("↵".encode()))
    assert reply is not None

    result = judge(STAGES[stage], reply)

    if fault in list(FaultScope):
        assert (result.kind, result.scope) == (ResultKind.HELD, fault)
    else:
        assert result.kind == fault
    assert word in result.reason
    assert result.reason, "the table must know this reply"
