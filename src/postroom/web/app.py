"""The web application: pages, API and static files."""

from __future__ import annotations

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send

from postroom.web.admin import ADMIN_VIEWS
from postroom.web.api.app import make_api, mounted
from postroom.web.api.reference import API_VIEWS
from postroom.web.context import WebContext
from postroom.web.public import PUBLIC_VIEWS
from postroom.web.public.hooks import hook_routes
from postroom.web.public.tracked_links import tracked_routes
from postroom.web.rendering.templating import STATIC, template_environment
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Visit
from postroom.web.serving.middleware import SecureHeaders, hsts_of
from postroom.web.serving.monitoring import Measured, health_routes, metrics_route

VIEWS: tuple[View, ...] = (*PUBLIC_VIEWS, *ADMIN_VIEWS, *API_VIEWS)


class _Files(StaticFiles):
    """Static files whose URLs change with their content (`templating.static`)."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.headers.get("content-type") == "image/svg+xml":  # text, although not `text/`
            response.headers["content-type"] = "image/svg+xml; charset=utf-8"
        # Modules import each other without a version: the browser asks whether they have changed.
        is_versioned = b"v=" in scope["query_string"]
        response.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if is_versioned else "no-cache"
        )
        return response


class _ApiFirst:
    """Passes calls of the API on directly, without trying the routes of all pages."""

    def __init__(self, api: Mount, pages: ASGIApp) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match, child_scope = self._api.matches(scope)
        if match is Match.NONE:
            await self._pages(scope, receive, send)
        else:
            scope.update(child_scope)
            await self._api.handle(scope, receive, send)


def make_app(context: WebContext) -> ASGIApp:
    templates = template_environment()
    routes: list[BaseRoute] = [
        *health_routes(context),
        metrics_route(context),
        *hook_routes(context),
        *tracked_routes(context, templates),
        Mount("/static", GZipMiddleware(_Files(directory=STATIC))),
        *(view.route(context, templates) for view in VIEWS),
    ]
    on_error = _error_handler(context, templates)
    app = Starlette(routes=routes, exception_handlers={HTTPException: on_error, 500: on_error})
    app.router.redirect_slashes = False  # it would trust the Host header: see `_without_slash`
    hsts = hsts_of(context.settings.web.hsts, is_behind_tls=context.is_behind_tls)
    # Outermost, so that responses to internal errors have the headers, too.
    return Measured(SecureHeaders(_ApiFirst(mounted(make_api(context)), app), hsts=hsts))


def _error_handler(context: WebContext, templates: jinja2.Environment) -> ExceptionHandler:
    """Return the handler of unknown URLs, wrong methods and internal errors."""

    async def handle(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status == 404 and (path := _without_slash(request)):
            return RedirectResponse(path, 307)
        visit = Visit(request, context, templates, None, None, "")
        if status == 500:
            text = "This is a problem on our side. The server log has the details."
            return error_page(visit, status, "Something went wrong", text)
        if status == 405:
            text = f"This address does not accept {request.method} requests."
            return error_page(visit, status, "Method not allowed", text)
        text = "Check the address, or start from the home page."
        return error_page(visit, status, "Page not found", text)

    return handle


def _without_slash(request: Request) -> str:
    """Return the path without its trailing slash if there is such a route, otherwise "".

    A path, never a full URL: the Host header must not decide where a client is redirected.
    """
    path = request.url.path.rstrip("/")
    if not path.startswith("/") or path == request.url.path or path.startswith(("//", "/\\")):
        return ""
    scope = {**request.scope, "path": request.scope["path"].rstrip("/")}
    routes = [route for route in request.app.router.routes if isinstance(route, Route)]
    if all(route.matches(scope)[0] is Match.NONE for route in routes):
        return ""
    return path + (f"?{request.url.query}" if request.url.query else "")
