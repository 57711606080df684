"""The OpenAPI document: FastAPI's, with our own resources, problems and headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from postroom import __version__
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources import Index
from postroom.web.api.problems import DOCS, KINDS, MEDIA_TYPE, Problem

PLACE = "/api/v1"
SCOPE = "x-scope"
RIGHT = "x-right"
LARGEST_BODY = "x-largest-body"
HEADERS = "x-headers"

_DESCRIPTION = """\
Every call needs a key in the header `Authorization: Bearer KEY`.

Collections return `items` and `next`. Pass `next` as `after` to continue, until it is null. `HEAD`
is `GET` without the body.

Resources with an `ETag` can be changed with `If-Match`, so that nobody overwrites someone else's
change. The headers `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` say how many
calls are left.

A key can be limited to selected lists. Other lists and their messages do not exist for it, and each
call names the right that it needs on its lists: `view`, `edit`, `send` or `manage`.

Errors are problem details (RFC 9457).
"""

ALWAYS = (401, 403, 422, 429, 503)
"""Errors that any call may return."""
WITH_BODY = (400, 413, 415)
"""Errors that any call with a body may return, too."""
_REFERENCE = "#/components/schemas/{name}"

_TEXT = {"type": "string"}
_SECONDS = {"schema": {"type": "string", "pattern": "^[0-9]+$"}, "required": True}
_PROBLEM_HEADERS: dict[int, dict[str, Any]] = {
    401: {
        "WWW-Authenticate": {
            "schema": _TEXT,
            "required": True,
            "description": "How to send a key.",
        }
    },
    429: {"Retry-After": {**_SECONDS, "description": "Seconds until the next call is allowed."}},
    503: {"Retry-After": {**_SECONDS, "description": "Seconds to wait before trying again."}},
}
_RATE_LIMIT: dict[str, Any] = {
    "RateLimit-Limit": {**_SECONDS, "description": "Calls per minute, as a burst."},
    "RateLimit-Remaining": {**_SECONDS, "description": "Calls that are left now."},
    "RateLimit-Reset": {**_SECONDS, "description": "Seconds until all calls are available again."},
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
        "description": "The address of the new resource.",
    }
}

# Headers that a client may add. They are not parameters of the document, because any value that
# fits a parameter must be accepted, and these may be refused.
IF_MATCH = {
    "If-Match": "The `ETag` of the version to change. If someone else saved first, the status is"
    " 412 and nothing changes."
}
IF_NONE_MATCH = {
    "If-None-Match": "The `ETag` of the version that you have. If it is still current, the status"
    " is 304, without a body."
}
IDEMPOTENCY_KEY = {
    "Idempotency-Key": "Any text that identifies this request, such as a UUID. For 24 hours, the"
    " same request with the same key returns the first response and has no further effect. 409"
    " while the first is in progress, 422 if the key was used with another body."
}

_documented: set[Any] = set()
_DONE = {"200": "Success.", "201": "Created.", "202": "Accepted.", "204": "Deleted."}


def call(
    scope: Scope,
    result: Any,
    *failures: int,
    right: ListRight | None = None,
    status: int = 200,
    with_etag: bool = False,
    headers: Mapping[str, str] | None = None,
    also: dict[int | str, dict[str, Any]] | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Return the arguments of a route: what it needs, returns, and may refuse.

    `right` is the right that a key limited to selected lists needs on each list that the call
    names; without one, such keys cannot make the call.
    `result` is a resource; None stands for an empty response, or for one that `also` describes.
    `failures` are statuses in addition to those that every call may have.
    """
    responses: dict[int | str, dict[str, Any]] = {
        each: _problem(each) for each in sorted({*failures, *ALWAYS})
    }
    if result is None:
        status = 200 if also else 204
    else:
        responses[status] = success(result, with_etag=with_etag, is_new=status == 201 and with_etag)
    if headers is IF_NONE_MATCH:
        responses[304] = {"description": "You have the current version.", "headers": _ETAG}
    responses.update(also or {})
    return {
        "status_code": status,
        "response_class": Response,
        "responses": responses,
        "openapi_extra": {
            SCOPE: scope.value,
            **({RIGHT: right.value} if right else {}),
            **({HEADERS: dict(headers)} if headers else {}),
            **extra,
        },
    }


def index_of(resource: Any) -> Any:
    """Return the result of a call that returns some of many."""
    return cast(Any, Index)[resource]


def success(
    result: Any, description: str = "", *, with_etag: bool = False, is_new: bool = False
) -> dict[str, Any]:
    """Return the description of a response with a resource."""
    _documented.add(result)
    [schema], _ = msgspec.json.schema_components([result], ref_template=_REFERENCE)
    return {
        **({"description": description} if description else {}),
        "headers": {**(_ETAG if with_etag else {}), **(_LOCATION if is_new else {})},
        "content": {"application/json": {"schema": schema}},
    }


def make_document(routers: Iterable[APIRouter]) -> dict[str, Any]:
    found = get_openapi(
        title="Postroom",
        version=__version__,
        description=_DESCRIPTION,
        routes=[route for router in routers for route in router.routes],
        servers=[{"url": PLACE}],
    )
    resources = sorted({*_documented, Problem}, key=str)
    _, schemas = msgspec.json.schema_components(resources, ref_template=_REFERENCE)
    components = found.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **schemas}
    components["securitySchemes"] = {
        "key": {
            "type": "http",
            "scheme": "bearer",
            "description": "A key of `postroom apikey create`; each call names the scope it needs.",
        }
    }
    for path in found["paths"].values():
        for operation in path.values():
            _complete(operation)
    return found


def _complete(operation: dict[str, Any]) -> None:
    operation["security"] = [{"key": []}]
    _split_docstring(operation)
    responses = operation["responses"]
    if "requestBody" in operation:
        for status in WITH_BODY:
            responses.setdefault(str(status), _problem(status))
    for status, response in responses.items():
        if response["description"] == "Successful Response":
            response["description"] = _DONE[status]
        if status != "401":
            response["headers"] = {**response.get("headers", {}), **_RATE_LIMIT}


def _split_docstring(operation: dict[str, Any]) -> None:
    """Make the first sentence of a function's docstring the summary of its call."""
    first, *others = operation.pop("description").split("\n\n")
    summary, _, rest = " ".join(first.split()).partition(". ")
    operation["summary"] = summary.removesuffix(".")
    if rest or others:
        operation["description"] = "\n\n".join([*([rest] if rest else []), *others])


def _problem(status: int) -> dict[str, Any]:
    kind = KINDS[status]
    example = {
        "type": f"{DOCS}#problem-{kind.name}",
        "title": kind.title,
        "status": status,
        "detail": kind.title,
    }
    return {
        "description": f"{kind.title}. {kind.advice}",
        "headers": _PROBLEM_HEADERS.get(status, {}),
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": example,
            }
        },
    }
