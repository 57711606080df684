"""The REST API, to be mounted at `/api/v1`."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Mount

from postroom import __version__
from postroom.web.api.audience import files, lists, subscribe, subscribers
from postroom.web.api.docs.documenting import RATE_LIMIT, with_body, with_words
from postroom.web.api.error_handling import add_handlers
from postroom.web.api.guarding import Guard
from postroom.web.api.head_requests import Heads
from postroom.web.api.messages import emails, messages
from postroom.web.api.queues import apps, queues
from postroom.web.api.results import FieldProblem, Problem
from postroom.web.context import WebContext

# The busiest call first: routes are tried in this order. `/subscribers/{email}` takes whatever
# follows, so what is more particular comes before it.
ROUTERS: tuple[APIRouter, ...] = (
    subscribe.router,
    lists.router,
    files.router,
    subscribers.router,
    messages.router,
    emails.router,
    queues.router,
    apps.router,
)

PLACE = "/api/v1"

_DESCRIPTION = """\
Lists, subscribers, messages and what became of each email.

Every call needs a key: `Authorization: Bearer KEY`, made with `postroom apikey create`. Errors are
problems (RFC 9457). Indexes answer `items` and `next`; pass `next` as `after` to go on, until it is
null. `HEAD` answers like `GET`, without the body. What has an ETag can be changed with `If-Match`,
so that nobody overwrites somebody else.
"""


class Api(FastAPI):
    """FastAPI with our own document."""

    def openapi(self) -> dict[str, Any]:
        return document()


def make_api(context: WebContext) -> FastAPI:
    api = Api(
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        root_path_in_servers=False,
    )
    api.state.context = context
    for router in ROUTERS:
        # Side by side, not one router inside the other: a call is found sooner.
        api.router.routes.extend(router.routes)
    add_handlers(api)
    api.add_middleware(Heads)
    api.add_middleware(Guard, keys=context.services.keys, rate=float(context.settings.web.api_rate))
    return api


def mounted(api: FastAPI) -> Mount:
    """The API at its place. Starlette's own rule leaves out paths with a line break (`%0A`)."""
    mount = Mount(PLACE, api)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


@cache
def document() -> dict[str, Any]:
    """FastAPI's, with the problems, the key and the headers that every answer has."""
    found = get_openapi(
        title="Postroom",
        version=__version__,
        description=_DESCRIPTION,
        routes=[route for router in ROUTERS for route in router.routes],
        servers=[{"url": PLACE}],
    )
    components = found.setdefault("components", {})
    components["schemas"] |= {
        model.__name__: model.model_json_schema(ref_template="#/components/schemas/{model}")
        for model in (FieldProblem, Problem)
    }
    components["schemas"]["Problem"].pop("$defs", None)
    components["securitySchemes"] = {
        "key": {
            "type": "http",
            "scheme": "bearer",
            "description": "A key of `postroom apikey create`; each call names the scope it needs.",
        }
    }
    for path in found["paths"].values():
        for operation in path.values():
            operation["security"] = [{"key": []}]
            _tell_in_sentences(operation)
            with_body(operation)
            with_words(operation)
            for status, response in operation["responses"].items():
                if status != "401":
                    response["headers"] = {**response.get("headers", {}), **RATE_LIMIT}
    return found


def _tell_in_sentences(operation: dict[str, Any]) -> None:
    """The first sentence of what a function says about itself is its title."""
    first, *others = operation.pop("description").split("\n\n")
    title, _, rest = " ".join(first.split()).partition(". ")
    operation["summary"] = title.removesuffix(".")
    if rest or others:
        operation["description"] = "\n\n".join([*([rest] if rest else []), *others])
