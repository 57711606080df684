"""What SendGrid's answers mean. Nothing here has a socket."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from postroom.transport.contract import Result, ResultKind
from postroom.transport.reply_parsing import LONGEST_TEXT

LONGEST_WAIT = 3600.0
"""Seconds that a rate limit is believed: its window is a minute or an hour."""

_RECIPIENT = re.compile(r"personalizations\.(\d+)(\.|$)")


class _Error(msgspec.Struct):
    message: str | None = None
    field: str | None = None


class _Errors(msgspec.Struct):
    errors: list[_Error] = []


class Answer(msgspec.Struct, frozen=True):
    """The answer to one call, or why there is none (status 0)."""

    status: int
    text: str
    errors: tuple[tuple[str, str], ...] = ()
    """Field and message of each."""
    retry_after: float = 0.0
    in_doubt: bool = False
    """The call was written, and no answer came."""

    @property
    def result(self) -> Result:
        """For the recipients that the answer does not name."""
        return Result(self._kind(), self.text)

    def _kind(self) -> ResultKind:
        if self.status == 0:
            return ResultKind.IN_DOUBT if self.in_doubt else ResultKind.DEFERRED
        if 200 <= self.status < 300:
            return ResultKind.ACCEPTED
        if self.status in (408, 425, 429) or self.status >= 500:
            return ResultKind.DEFERRED
        # 400 about the message itself, 401 and 403 about us, 404 about the address of the API, 413
        # for a single mail: no recipient would fare better.
        return ResultKind.HELD

    def refused(self, count: int) -> dict[int, str]:
        """Position → message, for the recipients of this call that 400 names."""
        if self.status != 400:
            return {}
        found: dict[int, str] = {}
        for field, message in self.errors:
            named = _RECIPIENT.match(field)
            if named and int(named[1]) < count:
                found.setdefault(int(named[1]), _one_line(f"400 {message} ({field})"))
        return found


def answer_of(status: int, body: bytes, headers: Mapping[str, str]) -> Answer:
    try:
        errors = msgspec.json.decode(body, type=_Errors).errors
    except msgspec.DecodeError:
        errors = []
    named = tuple((each.field or "", each.message or "") for each in errors)
    words = "; ".join(
        f"{message} ({field})" if field else message for field, message in named
    ) or body[:LONGEST_TEXT].decode("utf-8", "replace")
    return Answer(
        status,
        _one_line(f"{status} {words or headers.get('x-message-id', '')}"),
        named,
        _retry_after(headers) if status == 429 or status >= 500 else 0.0,
    )


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds (RFC 9110 10.2.3), or until the moment that SendGrid's own header names."""
    value = headers.get("retry-after", "").strip()
    reset = headers.get("x-ratelimit-reset", "").strip()
    if value.isdecimal():
        seconds = float(value)
    elif value:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            seconds = 0.0
    else:
        seconds = float(reset) - time.time() if reset.isdecimal() else 0.0
    return min(LONGEST_WAIT, max(0.0, seconds))


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST_TEXT]
