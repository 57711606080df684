"""What differs between email providers: their requests, and what their responses mean."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import ClassVar, Protocol, runtime_checkable
from urllib.parse import urlsplit

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.mail.mailing import Parts, Recipient
from postroom.transport.contract import (
    LONGEST_REPLY,
    FaultScope,
    Result,
    ResultKind,
    TransportError,
)

_LONGEST_WAIT = 3600.0  # seconds until a rate limit ends: windows are a minute or an hour


@runtime_checkable
class TemplatedMailing(Protocol):
    """What a mailing must offer in addition to `Mailing` to be sent by an email provider."""

    from_address: Address

    def variant(self, recipient: Recipient) -> TemplatedMailing:
        """Return the mailing for everyone who meets the same conditions: itself if it has none.
        Only such a mailing is the same text with placeholders for all of its recipients."""

    def parts(self) -> Parts: ...

    def values(self, recipient: Recipient) -> Mapping[str, str]:
        """Return placeholder → this recipient's value, escaped for its place."""

    def headers(self, recipient: Recipient) -> Mapping[str, str]:
        """Return this recipient's headers (List-Unsubscribe and so on), including those that are
        the same for all, which these may replace."""

    def message_id(self, recipient: Recipient) -> str: ...


class HttpResponse(msgspec.Struct, frozen=True):
    """The response to one call, or why there is none (status 0)."""

    status: int
    text: str
    """On one line, for people."""
    errors: tuple[tuple[str, str], ...] = ()
    """Field and message of each."""
    retry_after: float = 0.0
    """Seconds until a rate limit ends."""
    in_doubt: bool = False
    """The call was written completely, but not answered."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpProvider(ABC):
    """One email provider. A new one is a subclass and a line in `transport/registry.py`."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    """Its URL is `SCHEME://`, the setting with its key is `SCHEME_api_key`."""
    api_url: ClassVar[str]
    send_path: ClassVar[str]
    most_recipients: ClassVar[int]
    """How many emails one call may carry."""

    def __init__(self, api_key: str) -> None:
        if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise TransportError(
                f"the API key of {self.name} contains characters that no key has: set it again"
            )
        self._api_key = api_key

    # — Requests —

    def request_headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._api_key}"}

    @abstractmethod
    def common(self, mailing: TemplatedMailing) -> Mapping[str, object]:
        """Return what is the same for all recipients of a call; raise `Invalid`."""

    @abstractmethod
    def personal(self, mailing: TemplatedMailing, recipient: Recipient) -> Mapping[str, object]:
        """Return what differs for this recipient; raise `Invalid` for an unusable address."""

    @abstractmethod
    def body(
        self, common: Mapping[str, object], personal: Sequence[Mapping[str, object]]
    ) -> object:
        """Return the JSON body of a call."""

    # — Responses —

    @abstractmethod
    def errors(self, body: bytes) -> Sequence[tuple[str, str]]:
        """Return field and message of each error in a response."""

    def results(self, response: HttpResponse, count: int) -> Mapping[int, Result]:
        """Return the results of the emails that the response names, by their index in the call. If
        the call as a whole failed because of them, the others are sent again without them."""
        return {}

    def fault(self, response: HttpResponse) -> tuple[FaultScope, str] | None:
        """Return whose fault a failed call is and the reason, if the status alone does not say."""
        return None

    check_path: ClassVar[str]

    @abstractmethod
    def check(self, response: HttpResponse, body: bytes) -> str:
        """Return one line about a successful response to `check_path`; raise `TransportError`."""


def read_response(
    provider: HttpProvider, status: int, body: bytes, headers: Mapping[str, str]
) -> HttpResponse:
    errors = tuple(provider.errors(body))
    words = "; ".join(
        f"{message} ({field})" if field else message for field, message in errors
    ) or body[:LONGEST_REPLY].decode("utf-8", "replace")
    return HttpResponse(
        status,
        one_line(f"{status} {words or headers.get('x-message-id', '')}"),
        errors,
        _retry_after(headers) if status == 429 or status >= 500 else 0.0,
    )


def call_result(provider: HttpProvider, response: HttpResponse) -> Result:
    """Return the result of all emails of a call that the response does not name."""
    if response.is_success:
        return Result(ResultKind.ACCEPTED, response.text)
    if response.in_doubt:
        return Result(ResultKind.IN_DOUBT, response.text)
    scope, reason = provider.fault(response) or _fault(provider.name, response.status)
    return Result(ResultKind.HELD, response.text, scope, reason)


def _fault(name: str, status: int) -> tuple[FaultScope, str]:
    match status:
        case 0:
            return FaultScope.ACCOUNT, f"{name} cannot be reached"
        case 400 | 422:
            return FaultScope.MESSAGE, f"{name} rejects the message"
        case 413:
            return FaultScope.MESSAGE, f"The message is too large for {name}"
        case 401 | 403:
            return FaultScope.ACCOUNT, f"{name} does not accept the API key"
        case 429:
            return FaultScope.ACCOUNT, f"{name} is limiting how much we can send"
        case 408 | 425 | 500 | 502 | 503 | 504:
            return FaultScope.ACCOUNT, f"{name} has a temporary problem"
        case _:
            return FaultScope.ACCOUNT, f"{name} sent an unexpected response"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return seconds, from `Retry-After` (RFC 9110 10.2.3) or the widespread X-RateLimit-Reset."""
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
    return min(_LONGEST_WAIT, max(0.0, seconds))


def one_line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:LONGEST_REPLY]


def parse_base_url(provider: type[HttpProvider], rest: str) -> str:
    """Return the API's base URL from what follows `SCHEME:`: nothing, or another host. Only
    loopback is called without TLS."""
    if not rest.strip("/"):
        return provider.api_url
    parts = urlsplit(f"x:{rest}")
    host = parts.hostname or ""
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", host) or parts.username or parts.path.strip("/"):
        raise Invalid(
            "transport", f"{provider.scheme}:// must be followed by nothing, or by host and port"
        )
    scheme = "http" if host in ("127.0.0.1", "localhost", "::1") else "https"
    return f"{scheme}://{parts.netloc}"
