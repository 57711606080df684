"""`/apps`: hosted applications, their state and their options."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.queues.app_options import (
    CHANGEABLE,
    AppOption,
    OnPoison,
    OptionKind,
    parse_path,
)
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.queues import AppResource, describe_app
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of
from postroom.web.api.field_types import After, Change, Limit, in_path, whole_number
from postroom.web.api.routing import ApiRoute, respond, respond_with_items, services_of

router = APIRouter(route_class=ApiRoute, tags=["Applications"])

AppPath = Annotated[
    str,
    Path(description="Its path without the leading slash, percent-encoded: `shop%2Forders`."),
    AfterValidator(in_path("application", lambda text: parse_path(f"/{text}"))),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,200}$",
            "examples": ["shop/orders"],
        }
    ),
]


def _type(option: AppOption) -> Any:
    described = Field(description=option.help)
    match option.kind:
        case OptionKind.NUMBER:
            least, most = option.range
            bounded = Field(ge=least, le=most, description=option.help)
            return Annotated[int, bounded, BeforeValidator(whole_number)]
        case OptionKind.DURATION:
            pattern = r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$"
            return Annotated[str, Field(pattern=pattern, examples=["20m"]), described]
        case OptionKind.SIZE:
            pattern = r"^\d{1,9} ?([KMG]?B)$"
            return Annotated[str, Field(pattern=pattern, examples=["200MB"]), described]
        case OptionKind.CHOICE:
            return Annotated[Literal[tuple(each.value for each in OnPoison)], described]
        case kind:
            raise TypeError(f"requests cannot change options of the kind {kind}")


class _OptionChange(Change):
    nullable = frozenset(name for name, option in CHANGEABLE.items() if option.can_be_none)


_changes: dict[str, Any] = {name: (_type(each) | None, None) for name, each in CHANGEABLE.items()}
AppChange: Any = create_model(
    "AppChange",
    __base__=_OptionChange,
    __doc__="Fields that are left out stay as they are; null means no limit. What an application"
    " runs (`handler`, `command`), its user and its environment are changed on the command line"
    " only.",
    **_changes,
)


@router.get("/apps", **call(Scope.QUEUES, index_of(AppResource), 404))
async def read_apps(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """Return the hosted applications, with their processes on every live host."""
    cursor = Cursor(after, IndexName.APPS)
    states = sorted(await services_of(request).apps.states(), key=lambda each: each.app.path)
    found = [each for each in states if each.app.path > (cursor.last or "")]
    last = found[limit - 1].app.path if len(found) > limit else None
    return respond_with_items(map(describe_app, found[:limit]), cursor.next(last))


_CHANGED = call(Scope.QUEUES, AppResource, 404, 409)


@router.post("/apps/{path:path}/restart", **_CHANGED)
async def restart_app(request: Request, path: AppPath) -> Response:
    """Replace the processes of an application on all hosts, so that they run its current code.

    Every host starts a new process before it stops an old one.
    """
    await services_of(request).apps.restart(path)
    return await _respond_with(request, path)


@router.post("/apps/{path:path}/pause", **_CHANGED)
async def pause_app(request: Request, path: AppPath) -> Response:
    """Pause an application on all hosts. Messages in progress finish; others wait."""
    await services_of(request).apps.pause(path)
    return await _respond_with(request, path)


@router.post("/apps/{path:path}/resume", **_CHANGED)
async def resume_app(request: Request, path: AppPath) -> Response:
    """Resume a paused application."""
    await services_of(request).apps.resume(path)
    return await _respond_with(request, path)


@router.get("/apps/{path:path}/settings", **call(Scope.QUEUES, AppResource, 404))
async def read_app(request: Request, path: AppPath) -> Response:
    """Return an application with its options and its state."""
    return await _respond_with(request, path)


@router.patch("/apps/{path:path}/settings", **_CHANGED)
async def change_app(request: Request, path: AppPath, body: AppChange) -> Response:
    """Change options of an application. Running hosts replace its processes.

    An application in `postroom.toml` can only be changed there: here the status is 409.
    """
    changes = body.model_dump(exclude_unset=True)
    if changes:
        await services_of(request).apps.update(path, changes)
    return await _respond_with(request, path)


async def _respond_with(request: Request, path: str) -> Response:
    return respond(describe_app(await services_of(request).apps.state(path)))
