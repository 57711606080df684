"""`/apps`: hosted applications, what they do, and what operators decide about them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import AfterValidator, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.queues.apps import parse_path
from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.web.api.docs.documenting import problems
from postroom.web.api.fields import After, Limit
from postroom.web.api.models import AppChange
from postroom.web.api.paging import Kind, Place
from postroom.web.api.results import AppResult, Index
from postroom.web.api.routing import ApiRoute, answer, index, scoped, services_of

router = APIRouter(route_class=ApiRoute, tags=["Applications"])
_NEEDS: dict[str, Any] = scoped(Scope.QUEUES)


def _path(text: str) -> str:
    try:
        return parse_path(f"/{text}")
    except Invalid as exc:
        raise NoSuch("application", text) from exc


AppPath = Annotated[
    str,
    Path(description="Its path without the leading slash, percent-encoded: `shop%2Forders`."),
    AfterValidator(_path),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,200}$",
            "examples": ["shop/orders"],
        }
    ),
]


@router.get(
    "/apps",
    response_model=Index[AppResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_apps(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """The hosted applications, with their processes on every live host."""
    place = Place(after, Kind.APPS)
    states = sorted(await services_of(request).apps.states(), key=lambda each: each.app.path)
    found = [each for each in states if each.app.path > (place.last or "")]
    last = found[limit - 1].app.path if len(found) > limit else None
    return index(map(shapes.of_app_state, found[:limit]), place.next(last))


@router.post(
    "/apps/{path:path}/restart",
    response_model=AppResult,
    responses=problems(404, 409),
    openapi_extra=_NEEDS,
)
async def restart_app(request: Request, path: AppPath) -> Response:
    """Replace its processes on all hosts, so that they run the code that is in its folder now.

    Every host starts a new process before it stops an old one.
    """
    await services_of(request).apps.restart(path)
    return await _answer(request, path)


@router.post(
    "/apps/{path:path}/pause",
    response_model=AppResult,
    responses=problems(404, 409),
    openapi_extra=_NEEDS,
)
async def pause_app(request: Request, path: AppPath) -> Response:
    """Let its messages wait, on all hosts. Messages in progress finish."""
    await services_of(request).apps.pause(path)
    return await _answer(request, path)


@router.post(
    "/apps/{path:path}/resume",
    response_model=AppResult,
    responses=problems(404, 409),
    openapi_extra=_NEEDS,
)
async def resume_app(request: Request, path: AppPath) -> Response:
    """Continue with the messages of an application that was paused."""
    await services_of(request).apps.resume(path)
    return await _answer(request, path)


@router.get(
    "/apps/{path:path}/settings",
    response_model=AppResult,
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_app(request: Request, path: AppPath) -> Response:
    """One application, with its options and what it does."""
    return await _answer(request, path)


@router.patch(
    "/apps/{path:path}/settings",
    response_model=AppResult,
    responses=problems(404, 409),
    openapi_extra=_NEEDS,
)
async def change_app(request: Request, path: AppPath, body: AppChange) -> Response:
    """Change options of an application. Running hosts replace its processes.

    Applications of `postroom.toml` are changed there: then this answers 409.
    """
    changes = body.model_dump(exclude_unset=True)
    if changes:
        await services_of(request).apps.update(path, changes)
    return await _answer(request, path)


async def _answer(request: Request, path: str) -> Response:
    return answer(shapes.of_app_state(await services_of(request).apps.state(path)))
