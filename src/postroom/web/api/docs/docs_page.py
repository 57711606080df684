"""`/api/docs`: the document of the API for people."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup
from starlette.responses import Response

from postroom.web.api.app import document
from postroom.web.api.docs.reference import docs_page
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit


@cache
def _reference() -> Markup:
    return Markup(docs_page(document()))  # noqa: S704 - made of our own words, escaped there


async def docs(visit: Visit) -> Response:
    return visit.page("api/docs.html", reference=_reference())


API_PAGES: tuple[Page, ...] = (Page("/api/docs", docs, role=None),)
