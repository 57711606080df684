"""What SendGrid's answers mean. Nothing here has a socket."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from postroom.transport.contract import Result, ResultKind, Scope
from postroom.transport.reply_parsing import LONGEST_TEXT

LONGEST_WAIT = 3600.0
"""Seconds that a rate limit is believed: its window is a minute or an hour."""

_RECIPIENT = re.compile(r"personalizations\.(\d+)\.to(\.|$)")
"""Only `to` comes from the recipient: what else is wrong with a personalization is our mistake."""


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
        """For the recipients that the answer does not name: no other would fare better."""
        if 200 <= self.status < 300:
            return Result(ResultKind.ACCEPTED, self.text)
        if self.in_doubt:
            return Result(ResultKind.IN_DOUBT, self.text)
        scope, reason = self._fault()
        return Result(ResultKind.HELD, self.text, scope, reason)

    def _fault(self) -> tuple[Scope, str]:
        """Return whose fault it is, and the reason in plain words."""
        # twilio.com/docs/sendgrid: 401 and 403 "Maximum credits exceeded", 403 for the sender.
        if self.status in (401, 403) and "credits exceeded" in self.text.lower():
            return Scope.ACCOUNT, "This account has reached SendGrid's sending limit"
        if any(field == "from" or field.startswith("from.") for field, _ in self.errors):
            return Scope.ACCOUNT, "SendGrid does not allow this From address"
        match self.status:
            case 0:
                return Scope.ACCOUNT, "SendGrid cannot be reached"
            case 400 | 422:
                return Scope.MESSAGE, "SendGrid rejects the message"
            case 413:
                return Scope.MESSAGE, "The message is too large for SendGrid"
            case 401 | 403:
                return Scope.ACCOUNT, "SendGrid does not accept the API key"
            case 429:
                return Scope.ACCOUNT, "SendGrid is limiting how much we can send"
            case 408 | 425 | 500 | 502 | 503 | 504:
                return Scope.ACCOUNT, "SendGrid has a temporary problem"
            case _:
                return Scope.ACCOUNT, "SendGrid sent an unexpected response"

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
