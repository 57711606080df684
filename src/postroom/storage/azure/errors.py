"""Errors of Azure's SDK and its HTTP client, sorted by what to do about them.

They are never passed on, not even as the cause of another error: they contain URLs with signatures
and the strings that were signed. Our errors contain the status, the error code and the request's
ID, which leads to the details in Azure's logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import aiohttp
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
)

from postroom.storage.errors import (
    AccessDenied,
    InvalidRequest,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TooLarge,
)

# What a call raises if the service or the network fails. OSError includes network errors and
# TimeoutError.
FAULTS = (AzureError, aiohttp.ClientError, OSError)

_TOO_LARGE = frozenset(
    {
        "EntityTooLarge",
        "MessageTooLarge",
        "PropertyValueTooLarge",
        "RequestBodyTooLarge",
        "TooManyProperties",
    }
)
_MISSING = frozenset({"TableNotFound", "QueueNotFound", "ContainerNotFound"})
_ALREADY_EXISTS = frozenset({"TableAlreadyExists", "QueueAlreadyExists", "ContainerAlreadyExists"})
_BEING_DELETED = frozenset({"TableBeingDeleted", "QueueBeingDeleted", "ContainerBeingDeleted"})
# The service certainly did nothing.
_NOT_EXECUTED = frozenset({"ServerBusy", "TooManyRequests", "AccountBeingCreated"})
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class Outcome(Enum):
    """What is known after a call that failed."""

    REFUSED = auto()
    """The service refused. A retry would get the same response."""

    NOT_DONE = auto()
    """Nothing happened: no connection, or the service is busy. A retry may help."""

    UNKNOWN = auto()
    """The response was lost or is unclear. A retry may help if doing it twice is harmless."""


class Refused(InvalidRequest):
    """A request that the service refused. Callers translate the expected ones into errors of the
    contract."""

    def __init__(self, status: int, code: str, operation: int = 0, request: str = "") -> None:
        shown = f" (request {request})" if request else ""
        super().__init__(f"Azure Storage refused the request: {status} {code or '?'}{shown}")
        self.status = status
        self.code = code
        self.operation = operation

    @property
    def nothing_there(self) -> bool:
        """Whether the row, blob or message does not exist, or its table, container or queue."""
        return self.status == 404 or self.code in _BEING_DELETED

    @property
    def place_missing(self) -> bool:
        """Whether the table, queue or container does not exist."""
        return self.code in _MISSING

    @property
    def already_exists(self) -> bool:
        """Whether the table, queue or container exists already."""
        return self.code in _ALREADY_EXISTS

    @property
    def place_being_deleted(self) -> bool:
        """Whether it was dropped a moment ago, and its name is not free yet."""
        return self.code in _BEING_DELETED


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed: what is known, the reason (for people), and the refusal, if any."""

    outcome: Outcome
    reason: str
    refused: Refused | None = None
    retry_after: float = 0.0

    def error(self, location: str) -> StoreError:
        """Return the error to raise; `Refused` if its meaning depends on the request."""
        if self.refused is None:
            return StoreUnavailable(f"Azure Storage at {location} does not respond: {self.reason}")
        status, code = self.refused.status, self.refused.code
        if status in (401, 403) or code == "AccountIsDisabled":
            return AccessDenied(f"Azure Storage at {location} denies access: {self.reason}")
        if status == 413 or code in _TOO_LARGE:
            return TooLarge(f"too large for Azure Storage: {self.reason}")
        if status == 507 or code.endswith("QuotaExceeded"):
            return StoreFull(f"Azure Storage at {location} is full: {self.reason}")
        return self.refused


def failure_of(fault: BaseException) -> Failure:
    """Classify one of `FAULTS`."""
    if isinstance(fault, DecodeError):
        return Failure(Outcome.UNKNOWN, "an invalid response")
    if isinstance(fault, HttpResponseError) and fault.status_code:
        return _response_failure(fault)
    if isinstance(fault, ClientAuthenticationError):
        refused = Refused(401, "CredentialUnavailable")
        return Failure(Outcome.REFUSED, "no usable identity was found", refused)
    cause = _root(fault)
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return Failure(Outcome.NOT_DONE, _network_reason(cause))
    return Failure(Outcome.UNKNOWN, _network_reason(cause))


def _response_failure(fault: HttpResponseError) -> Failure:
    status = int(fault.status_code or 0)
    code = _code(fault)
    headers: Any = getattr(fault.response, "headers", None) or {}
    refused = Refused(
        status, code, getattr(fault, "index", 0), headers.get("x-ms-request-id") or ""
    )
    reason = f"{status} {code}".strip()
    if status not in _TRY_AGAIN and code not in _NOT_EXECUTED:
        return Failure(Outcome.REFUSED, reason, refused)
    clear = status == 429 or code in _NOT_EXECUTED
    outcome = Outcome.NOT_DONE if clear else Outcome.UNKNOWN
    return Failure(outcome, reason, refused, _seconds(headers.get("Retry-After")))


def _code(fault: HttpResponseError) -> str:
    """Return the error code, which the SDK has as text, as an enum, or not at all."""
    code = getattr(fault, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _root(fault: BaseException) -> BaseException:
    """Return the network error inside the SDK's error."""
    while (inner := getattr(fault, "inner_exception", None)) is not None and inner is not fault:
        fault = inner
    return fault


def _network_reason(fault: BaseException) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    if isinstance(fault, TimeoutError):
        return "no response in time"
    return type(fault).__name__


def _seconds(header: str | None) -> float:
    return float(header) if header and header.isdecimal() else 0.0
