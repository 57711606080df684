"""The REST API, mounted at `/api/v1`."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import Mount

from postroom.web.api.audience import (
    bounces,
    data_requests,
    domain_checks,
    import_export,
    inactive,
    list_emails,
    list_fields,
    listmonk_imports,
    lists,
    segments,
    subscribe,
    subscribers,
    suppressions,
)
from postroom.web.api.documenting import PLACE, make_document
from postroom.web.api.messages import (
    ab_tests,
    drafts,
    emails,
    messages,
    pictures,
    previews,
    providers,
    results,
    templates,
    warm_ups,
)
from postroom.web.api.middleware import KeyGuard
from postroom.web.api.problems import add_error_handlers
from postroom.web.api.queues import apps, queues
from postroom.web.context import WebContext

# The busiest call first: routes are tried in this order. `/subscribers/{email}` matches any longer
# path, so more specific paths come before it.
ROUTERS: tuple[APIRouter, ...] = (
    subscribe.router,
    lists.router,
    domain_checks.router,
    import_export.router,
    listmonk_imports.router,
    list_fields.router,
    list_emails.router,
    segments.router,
    inactive.router,
    subscribers.router,
    suppressions.router,
    data_requests.router,
    messages.router,
    drafts.router,
    previews.router,
    templates.router,
    emails.router,
    results.router,
    ab_tests.router,
    pictures.router,
    providers.router,
    warm_ups.router,
    bounces.router,
    queues.router,
    apps.router,
)


class Api(FastAPI):
    """FastAPI with our own OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        return document()


def make_api(context: WebContext) -> FastAPI:
    api = Api(
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        root_path_in_servers=False,
        # Postroom has its own traces; FastAPI would look for OpenTelemetry with every request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    api.state.context = context
    for router in ROUTERS:
        # One flat list of routes: nested routers take longer to find a call.
        api.router.routes.extend(router.routes)
    add_error_handlers(api)
    api.add_middleware(
        KeyGuard, keys=context.services.keys, rate=float(context.settings.web.api_rate)
    )
    return api


def mounted(api: FastAPI) -> Mount:
    """Return the API at its path. Starlette's own pattern excludes line breaks (`%0A`)."""
    mount = Mount(PLACE, api)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


@cache
def document() -> dict[str, Any]:
    return make_document(ROUTERS)
