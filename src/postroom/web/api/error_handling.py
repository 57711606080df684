"""Errors on their way out: each becomes a problem, and none of a client's mistakes a 500."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.web.api.problems import from_error, problem, status_of

log = logging.getLogger(__name__)


def add_handlers(api: FastAPI) -> None:
    api.add_exception_handler(PostroomError, _ours)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(ClientDisconnect, _gone)
    api.add_exception_handler(Exception, _fault)


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, PostroomError)  # noqa: S101 - registered for this class
    if status_of(error) >= 500:
        log.error("%s %s: %s", request.method, request.url.path, error)
    return from_error(error, etag_was_named="if-match" in request.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = error.errors()
    for each in found:
        if each["type"] == "json_invalid":
            where = each["loc"][-1]
            return problem(400, f"the body is not JSON: {each['ctx']['error']} at {where}")
    problems = [(_field(each["loc"]), _told(each)) for each in found]
    return problem(422, "; ".join(f"{field}: {told}" for field, told in problems), problems)


def _field(location: tuple[Any, ...]) -> str:
    """`("body", "email")` is what the client calls `email`."""
    return ".".join(map(str, location[1:])) or str(location[0])


def _told(error: dict[str, Any]) -> str:
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, Invalid):
        return cause.problem
    message = str(cause if isinstance(cause, ValueError) else error["msg"])
    return message[:1].lower() + message[1:]


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code == 404:
        return problem(404, "there is no such call: /api/docs has them all")
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        return problem(405, f"this takes {allowed}", headers={"Allow": allowed})
    if error.status_code == 400:
        return problem(400, "the body is not JSON in UTF-8, or nested too deeply")
    return problem(error.status_code, error.detail, headers=error.headers)


def _methods(request: Request) -> set[str]:
    """All methods of this path: several routes may share it."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found | ({"HEAD"} if "GET" in found else set())


async def _gone(request: Request, error: Exception) -> Response:
    return problem(400, "the request ended before its body did")  # nobody will read it


async def _fault(request: Request, error: Exception) -> Response:
    return problem(500, "this is a fault of the server: its log has more")
