"""What the document says of a call beyond its fields: its answers and their headers."""

from __future__ import annotations

from typing import Any

from postroom.web.api.problems import KINDS, MEDIA_TYPE

Responses = dict[int | str, dict[str, Any]]

ALWAYS = (401, 403, 422, 429, 503)
WITH_BODY = (400, 413, 415)

_TEXT = {"type": "string"}
_SECONDS = {"schema": {"type": "string", "pattern": "^[0-9]+$"}, "required": True}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {
        "WWW-Authenticate": {
            "schema": _TEXT,
            "required": True,
            "description": "How to show a key.",
        }
    },
    429: {"Retry-After": {**_SECONDS, "description": "Seconds until the next call may come."}},
    503: {"Retry-After": {**_SECONDS, "description": "Seconds until it is worth trying again."}},
}
RATE_LIMIT: dict[str, Any] = {
    "RateLimit-Limit": {
        **_SECONDS,
        "description": "Calls that this key has when it was quiet for a minute.",
    },
    "RateLimit-Remaining": {**_SECONDS, "description": "Calls that are left now."},
    "RateLimit-Reset": {**_SECONDS, "description": "Seconds until all of them are there again."},
}
_ETAG: dict[str, Any] = {
    "ETag": {
        "schema": {"type": "string", "pattern": '^".+"$'},
        "required": True,
        "description": "For `If-Match` of a later change.",
    }
}
_LOCATION: dict[str, Any] = {
    "Location": {
        "schema": {"type": "string", "format": "uri-reference"},
        "required": True,
        "description": "Where it is.",
    }
}


# Headers that a client may add. They are no parameters of the document: those promise that whatever
# fits them is accepted, and the point of these is that it may not be.
IF_MATCH = {
    "x-headers": {
        "If-Match": "The `ETag` of what is to be changed. If somebody else saved first, the answer"
        " is 412 and nothing is changed."
    }
}
IF_NONE_MATCH = {
    "x-headers": {
        "If-None-Match": "The `ETag` of the version that you have. If it is still the current one,"
        " the answer is 304, without a body."
    }
}
REPEATABLE = {
    "x-headers": {
        "Idempotency-Key": "A text of your own for this request, such as a UUID. The same request"
        " with the same key gets the first answer again, for 24 hours, and nothing is done twice."
        " 409 while the first is under way, 422 if the key was used with another body."
    }
}


def problems(*statuses: int) -> Responses:
    """These besides those that every call may answer."""
    return {status: _problem(status) for status in sorted({*statuses, *ALWAYS})}


def readable(others: Responses) -> Responses:
    """An answer with an ETag, or none for a client that has that version already."""
    unchanged = {"description": "You have the current version.", "headers": _ETAG}
    return {**tagged(200, others), 304: unchanged}


def tagged(status: int, others: Responses, *, located: bool = False) -> Responses:
    """An answer with an ETag, and for what was made with its address."""
    headers = {**_ETAG, **(_LOCATION if located else {})}
    return {status: {"headers": headers}, **others}


_DONE = {"200": "Done.", "201": "It is made.", "202": "It is on its way.", "204": "It is gone."}


def with_words(operation: dict[str, Any]) -> None:
    """What FastAPI calls a successful response."""
    for status, response in operation["responses"].items():
        if response["description"] == "Successful Response":
            response["description"] = _DONE[status]


def with_body(operation: dict[str, Any]) -> None:
    """Whoever takes a body can be sent a bad one."""
    if "requestBody" in operation:
        for status in WITH_BODY:
            operation["responses"].setdefault(str(status), _problem(status))


def _problem(status: int) -> dict[str, Any]:
    kind = KINDS[status]
    example = {
        "type": f"/api/docs#problem-{kind.name}",
        "title": kind.title,
        "status": status,
        "detail": kind.title,
    }
    return {
        "description": f"{kind.title}. {kind.advice}",
        "headers": _HEADERS.get(status, {}),
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": example,
            }
        },
    }
