"""Replies are found in the stream however it is cut, and never cost more memory than allowed."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.transport.smtp.replies import Extensions, ReplyReader, parse_extensions

STREAM = b"250-one\r\n250-2.0.0 two\r\n250 three\r\n354 go\r\n550 5.1.1 no\n250\r\n"


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_however_the_stream_is_cut_the_replies_are_the_same(cuts: list[int]) -> None:
    reader = ReplyReader()
    edges = [0, *sorted(cuts), len(STREAM)]

    found = [reply for start, end in pairwise(edges) for reply in reader.feed(STREAM[start:end])]

    assert [each.code for each in found] == [250, 354, 550, 250]
    assert found[0].lines == ("one", "2.0.0 two", "three")
    assert reader.is_empty


def test_the_start_of_a_reply_is_not_silence() -> None:
    reader = ReplyReader()
    assert reader.feed(b"250-one\r\n") == []
    assert not reader.is_empty


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 5000,
        b"250 " + b"x" * 5000 + b"\r\n",
        b"250-more\r\n" * 300,
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28\n",
    ],
    ids=["endless line", "long line", "endless reply", "http", "empty line", "tls alert"],
)
def test_what_is_not_a_reply_ends_the_reading(data: bytes) -> None:
    reader = ReplyReader()

    assert reader.feed(data) == []
    assert reader.problem


def test_replies_before_and_after_garbage_are_separated() -> None:
    reader = ReplyReader()

    before = reader.feed(b"250 one\r\n250-two\r\nGARBAGE\r\n354 three\r\n250-fo")

    assert [each.text for each in before] == ["250 one"]
    assert [each.text for each in reader.after_problem] == ["354 three"]
    assert "GARBAGE" in reader.problem


def test_offers_are_read() -> None:
    lines = ["mx.test hello", "PIPELINING", "SIZE 10240000", "auth plain LOGIN", "SMTPUTF8"]

    found = parse_extensions(lines)

    assert found == Extensions(
        pipelining=True, smtputf8=True, size=10240000, auth=frozenset({"PLAIN", "LOGIN"})
    )
    assert str(found) == "PIPELINING, SMTPUTF8, SIZE 10240000, AUTH LOGIN PLAIN"


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("SIZE", Extensions(size=0)),
        ("SIZE many", Extensions(size=0)),
        ("AUTH=PLAIN", Extensions(auth=frozenset({"PLAIN"}))),
        ("XPIPELINING", Extensions()),
        ("", Extensions()),
    ],
)
def test_odd_offers_are_read(line: str, offers: Extensions) -> None:
    assert parse_extensions(["mx.test", line]) == offers


def test_a_greeting_is_not_an_offer() -> None:
    assert parse_extensions(["PIPELINING"]) == Extensions()
    assert str(parse_extensions([])) == "no extensions"
