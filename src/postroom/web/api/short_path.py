"""A short path for calls that take nothing but a JSON body, such as a sign-up.

FastAPI works out the arguments of every call from all places where they could be. That takes about
as long as a sign-up's own work. Where a call has only its body, the body is read into its model
here. If that fails, FastAPI gets the request and reports what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def shortened(route: APIRoute, handle: Handler) -> Handler:
    """Return a handler of the route that leaves only faulty requests to `handle`, FastAPI's own.

    A route with parameters in its path or query, or with dependencies, keeps FastAPI's handler.
    """
    found = _body_of(route)
    if found is None:
        return handle
    request_name, body_name, model = found
    endpoint = route.endpoint

    async def handle_directly(request: Request) -> Response:
        try:
            body = model.model_validate(json.loads(await request.body()))
        except (ValueError, RecursionError):
            return await handle(request)
        response: Response = await endpoint(**{request_name: request, body_name: body})
        return response

    return handle_directly


def _body_of(route: APIRoute) -> tuple[str, str, type[BaseModel]] | None:
    """Return the names of the parameters for request and body, and the body's model.

    None for a call that has other parameters.
    """
    takes = route.dependant
    has_more = (
        takes.path_params
        or takes.query_params
        or takes.header_params
        or takes.cookie_params
        or takes.dependencies
        or takes.background_tasks_param_name
        or takes.response_param_name
        or takes.security_scopes_param_name
        or takes.http_connection_param_name
    )
    if has_more or takes.request_param_name is None or len(takes.body_params) != 1:
        return None
    [field] = takes.body_params
    model = field.field_info.annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None
    return takes.request_param_name, field.name, model
