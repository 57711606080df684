"""The web application: pages, API and files, put together."""

from __future__ import annotations

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, ExceptionHandler, Scope

from postroom.web.admin import ADMIN_PAGES
from postroom.web.admin.accounts import ACCOUNT_PAGES
from postroom.web.api import API_PAGES, make_api, mounted
from postroom.web.context import WebContext
from postroom.web.public import PUBLIC_PAGES
from postroom.web.rendering.templating import STATIC, make_environment
from postroom.web.requests.routing import Page, explain
from postroom.web.requests.visit import Visit
from postroom.web.serving.headers import SecureHeaders, hsts_of
from postroom.web.serving.health import health_routes
from postroom.web.serving.measuring import Measured, metrics_route

PAGES: tuple[Page, ...] = (*PUBLIC_PAGES, *ACCOUNT_PAGES, *ADMIN_PAGES, *API_PAGES)


class _Files(StaticFiles):
    """Files whose address changes with their content (`templating.static`)."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.headers.get("content-type") == "image/svg+xml":  # no `text/`, but text
            response.headers["content-type"] = "image/svg+xml; charset=utf-8"
        if b"v=" in scope["query_string"]:
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def make_app(context: WebContext) -> ASGIApp:
    templates = make_environment()
    routes: list[BaseRoute] = [
        *health_routes(context),
        metrics_route(context),
        Mount("/static", _Files(directory=STATIC)),
        mounted(make_api(context)),
        *(page.route(context, templates) for page in PAGES),
    ]
    problems = _problems(context, templates)
    app = Starlette(routes=routes, exception_handlers={HTTPException: problems, 500: problems})
    app.router.redirect_slashes = False  # it believes the Host header: see `_without_slash`
    hsts = hsts_of(context.settings.web.hsts, is_behind_tls=context.is_behind_tls)
    # Around everything, so that the answer to a fault of ours has the headers too.
    return Measured(SecureHeaders(app, hsts=hsts))


def _problems(context: WebContext, templates: jinja2.Environment) -> ExceptionHandler:
    """The page for an address that there is not, or not like this, and for a fault of ours."""

    async def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status == 404 and (path := _without_slash(request)):
            return RedirectResponse(path, 307)
        visit = Visit(request, context, templates, None, None, "")
        if status == 500:
            text = "That is our fault, not yours. What happened is in the log."
            return explain(visit, status, "Something went wrong", text)
        if status == 405:
            text = f"This address does not take {request.method}."
            return explain(visit, status, "Not like this", text)
        text = "Check the address, or begin at the start page."
        return explain(visit, status, "There is no such page", text)

    return answer


def _without_slash(request: Request) -> str:
    """Return the path of ours that was asked for with a slash at its end; empty if there is none.

    A path, never a whole address: what a client sends as Host does not decide where it goes.
    """
    path = request.url.path.rstrip("/")
    if not path.startswith("/") or path == request.url.path or path.startswith(("//", "/\\")):
        return ""
    scope = {**request.scope, "path": request.scope["path"].rstrip("/")}
    routes = [route for route in request.app.router.routes if isinstance(route, Route)]
    if all(route.matches(scope)[0] is Match.NONE for route in routes):
        return ""
    return path + (f"?{request.url.query}" if request.url.query else "")
