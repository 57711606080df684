"""A mail server's reply, from the lines that it sent. What it means is decided in `replies.py`."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

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

    @property
    def is_negative(self) -> bool:
        """Whether it is a proper refusal: 4xx or 5xx."""
        return 400 <= self.code < 600


_STATUS = re.compile(rb"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?=\s|$)")


def parse_reply(lines: list[bytes]) -> Reply | None:
    """Return the reply that these lines are (without line ends), or `None` if they are none."""
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
    text = line[:LONGEST_TEXT].decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text).strip()
