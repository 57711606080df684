"""Errors as `application/problem+json` (RFC 9457), and the one table of their statuses.

The rest of Postroom raises its own errors and knows nothing of HTTP. No mistake of a client becomes
a 500.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.errors import (
    DomainError,
    Exists,
    Incomplete,
    Invalid,
    NoListRight,
    NoSuch,
    NotAllowed,
    NotNow,
    Overtaken,
)
from postroom.errors import PostroomError
from postroom.services.resources import Resource
from postroom.storage import (
    Conflict,
    InvalidRequest,
    LeaseLost,
    NotFound,
    StoreOutage,
    TooLarge,
)

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
DOCS = "/api/docs"
LONGEST_SHOWN = 500
RETRY_SECONDS = 5


class FieldProblem(Resource, frozen=True, omit_defaults=True):
    """A field that is wrong, and why; in a rule also where, counted from 1."""

    field: str
    problem: str
    line: int | None = None
    column: int | None = None


class Problem(Resource, frozen=True, omit_defaults=True):
    """What went wrong (RFC 9457)."""

    type: Annotated[str, Meta(extra_json_schema={"format": "uri-reference"})]
    title: str
    status: int
    detail: str
    errors: Annotated[Sequence[FieldProblem], Meta(description="The fields that are wrong.")] = ()


class ProblemKind(msgspec.Struct, frozen=True):
    """One kind of problem: its name, and what a client can do about it."""

    name: str
    title: str
    advice: str


KINDS: dict[int, ProblemKind] = {
    400: ProblemKind("malformed", "Malformed request", "Send well-formed JSON in UTF-8."),
    401: ProblemKind("no-key", "API key required", "Send `Authorization: Bearer KEY`."),
    403: ProblemKind(
        "forbidden", "Permission denied", "Use a key with the scope or right that is named."
    ),
    404: ProblemKind("not-found", "Not found", "Check the names in the path and the body."),
    405: ProblemKind("method", "Method not allowed", "The header Allow names the methods."),
    409: ProblemKind("conflict", "Conflict", "Read the current state, then decide again."),
    412: ProblemKind("stale", "Changed by someone else", "Read it again and send the new ETag."),
    413: ProblemKind("too-large", "Request too large", "Send less in one request."),
    415: ProblemKind("media-type", "Unsupported format", "Send the format that is documented."),
    422: ProblemKind("invalid", "Invalid field", "`errors` names the fields and what is wrong."),
    429: ProblemKind("too-many", "Too many requests", "Wait for as long as Retry-After says."),
    500: ProblemKind("fault", "Server error", "An error in the server: its log has the details."),
    503: ProblemKind("unavailable", "Store unavailable", "Try again after Retry-After."),
}

_STATUSES: tuple[tuple[type[PostroomError], int], ...] = (
    (Invalid, 422),
    (NoSuch, 404),
    (Exists, 409),
    (NotNow, 409),
    (NotAllowed, 403),
    (NoListRight, 403),
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
    errors: Sequence[tuple[str, str] | FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem. `errors` are pairs of a field and what is wrong with it."""
    kind = KINDS.get(status)
    content = Problem(
        type="about:blank" if kind is None else f"{DOCS}#problem-{kind.name}",
        title=HTTPStatus(status).phrase if kind is None else kind.title,
        status=status,
        detail=printable_line(detail),
        errors=tuple(
            each
            if isinstance(each, FieldProblem)
            else FieldProblem(printable_line(each[0]), printable_line(each[1]))
            for each in errors
        ),
    )
    body = msgspec.json.encode(content)
    return Response(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def problem_of(error: PostroomError, *, etag_was_named: bool) -> Response:
    """Return one of our own errors as a problem."""
    if isinstance(error, Overtaken) and etag_was_named:
        return problem(412, str(error))
    status = status_of(error)
    if isinstance(error, Incomplete):
        return problem(status, str(error), list(error.problems.items()))
    if isinstance(error, RuleError):
        text = printable_line(error.problem)
        where = FieldProblem(error.field, text, error.line, error.column)
        return problem(status, str(error), [where])
    if isinstance(error, Invalid):
        return problem(status, str(error), [(error.field, error.problem)])
    if status == 503:
        # Where the store is and why it failed concerns administrators only.
        detail = "the store is unavailable; the change may or may not have been made"
        return problem(503, detail, headers={"Retry-After": str(RETRY_SECONDS)})
    return problem(status, str(error) if status < 500 else "the store cannot be used")


def printable_line(text: str) -> str:
    """Return text of any origin as one short line."""
    plain = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", "�", text)
    return plain if len(plain) <= LONGEST_SHOWN else f"{plain[:LONGEST_SHOWN]}…"


def add_error_handlers(api: FastAPI) -> None:
    api.add_exception_handler(PostroomError, _on_our_error)
    api.add_exception_handler(RequestValidationError, _on_invalid_request)
    api.add_exception_handler(HTTPException, _on_http_error)
    api.add_exception_handler(ClientDisconnect, _on_disconnect)
    api.add_exception_handler(Exception, _on_fault)


async def _on_our_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PostroomError)  # noqa: S101 - registered for this class
    if status_of(error) >= 500:
        log.error("%s %s: %s", request.method, request.url.path, error)
    return problem_of(error, etag_was_named="if-match" in request.headers)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = error.errors()
    for each in found:
        if each["type"] == "json_invalid":
            where = each["loc"][-1]
            return problem(400, f"the body is not JSON: {each['ctx']['error']} at {where}")
    problems = [(_field(each["loc"]), _problem(each)) for each in found]
    return problem(422, "; ".join(f"{field}: {text}" for field, text in problems), problems)


def _field(location: tuple[Any, ...]) -> str:
    """Return `email` for `("body", "email")`. A field of several types has their names as well:
    `("body", "label", "dict[str,str]")` is the field `label`."""
    parts = [str(each) for each in location[1:]]
    return ".".join(each for each in parts if "[" not in each) or str(location[0])


def _problem(error: dict[str, Any]) -> str:
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, Invalid):
        return cause.problem
    message = str(cause if isinstance(cause, ValueError) else error["msg"])
    return message[:1].lower() + message[1:]


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code == 404:
        return problem(404, f"there is no such call; {DOCS} lists them all")
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        return problem(405, f"use {allowed}", headers={"Allow": allowed})
    if error.status_code == 400:
        return problem(400, "the body is not JSON in UTF-8, or nested too deeply")
    return problem(error.status_code, error.detail, headers=error.headers)


def _methods(request: Request) -> set[str]:
    """Return all methods of this path: several routes may share it."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found | ({"HEAD"} if "GET" in found else set())


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return problem(400, "the request ended before its body did")  # the client will not read it


async def _on_fault(request: Request, error: Exception) -> Response:
    return problem(500, "an error in the server: its log has the details")
