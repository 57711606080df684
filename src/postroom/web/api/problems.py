"""What went wrong, as `application/problem+json` (RFC 9457), and the one table that says how.

The rest of Postroom raises its own errors and knows nothing of HTTP: `status_of` is where they
become statuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from postroom.domain.errors import (
    DomainError,
    Exists,
    Invalid,
    NoSuch,
    NotAllowed,
    NotNow,
    Overtaken,
)
from postroom.errors import PostroomError
from postroom.storage import (
    Conflict,
    InvalidRequest,
    LeaseLost,
    NotFound,
    StoreOutage,
    TooLarge,
)

MEDIA_TYPE = "application/problem+json"
DOCS = "/api/docs"
LONGEST_SHOWN = 500
RETRY_SECONDS = 5


class Kind(msgspec.Struct, frozen=True):
    """One kind of problem: what it is called, and what a client can do about it."""

    name: str
    title: str
    advice: str


KINDS: dict[int, Kind] = {
    400: Kind("malformed", "The request cannot be read", "Send well-formed JSON in UTF-8."),
    401: Kind("no-key", "An API key is needed", "Send `Authorization: Bearer KEY`."),
    403: Kind("forbidden", "The key may not do this", "Use a key with the scope that is named."),
    404: Kind("not-found", "It is not there", "Check the names in the address and in the body."),
    405: Kind("method", "Not with this method", "The header Allow says which methods there are."),
    409: Kind("conflict", "Not as things are", "Look at the current state, then decide anew."),
    412: Kind("stale", "Somebody else saved first", "Read it again and send the new ETag."),
    413: Kind("too-large", "That is too much", "Send less in one request."),
    415: Kind("media-type", "Not in this format", "Send the format that the call asks for."),
    422: Kind("invalid", "A field cannot be accepted", "`errors` says what is wrong."),
    429: Kind("too-many", "Too many calls", "Wait for as long as Retry-After says."),
    500: Kind("fault", "That did not work", "This is a fault of the server: look into its log."),
    503: Kind("unavailable", "The store cannot be reached", "Try again after Retry-After."),
}

_STATUSES: tuple[tuple[type[PostroomError], int], ...] = (
    (Invalid, 422),
    (NoSuch, 404),
    (Exists, 409),
    (NotNow, 409),
    (NotAllowed, 403),
    (Overtaken, 409),  # 412 if the client named an ETag
    (DomainError, 409),
    (TooLarge, 413),
    (InvalidRequest, 422),
    (NotFound, 404),
    (Conflict, 409),
    (LeaseLost, 409),
    (StoreOutage, 503),
)


def status_of(error: PostroomError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def problem(
    status: int,
    detail: str,
    errors: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer. `errors` are pairs of a field and what is wrong with it."""
    kind = KINDS.get(status)
    content: dict[str, Any] = {
        "type": "about:blank" if kind is None else f"{DOCS}#problem-{kind.name}",
        "title": HTTPStatus(status).phrase if kind is None else kind.title,
        "status": status,
        "detail": shown(detail),
    }
    if errors:
        content["errors"] = [{"field": shown(f), "problem": shown(p)} for f, p in errors]
    body = msgspec.json.encode(content)
    return Response(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def from_error(error: PostroomError, *, etag_was_named: bool) -> Response:
    """The answer to an error of ours."""
    if isinstance(error, Overtaken) and etag_was_named:
        return problem(412, str(error))
    status = status_of(error)
    if isinstance(error, Invalid):
        return problem(status, str(error), [(error.field, error.problem)])
    if status == 503:
        # Where the store is and why it refused is the administrator's business.
        detail = "the store cannot be reached or cannot write; whether this was done is not known"
        return problem(503, detail, headers={"Retry-After": str(RETRY_SECONDS)})
    return problem(status, str(error) if status < 500 else "the store cannot be used")


def shown(text: str) -> str:
    """Fit for one line of JSON, whatever somebody sent."""
    plain = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", "�", text)
    return plain if len(plain) <= LONGEST_SHOWN else f"{plain[:LONGEST_SHOWN]}…"
