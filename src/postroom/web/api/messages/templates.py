"""`/templates`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.composing.compiler import LARGEST_SOURCE
from postroom.composing.layouts import LayoutFormat
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.messages.drafts.templates import (
    Template,
    TemplateContent,
    WholeTemplate,
)
from postroom.services.resources.templates import (
    TemplateResource,
    TemplateSummary,
    describe_template,
    describe_template_summary,
)
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import IF_MATCH, PLACE, call, index_of
from postroom.web.api.field_types import (
    After,
    Body,
    Limit,
    TemplateDescription,
    TemplateTitle,
    Text,
    same_name,
)
from postroom.web.api.routing import (
    ApiRoute,
    author_of,
    matched_etag,
    respond_with_etag,
    respond_with_items,
    services_of,
    with_quotable_etag,
)

router = APIRouter(route_class=ApiRoute, tags=["Templates"])

_PATTERN = "^[a-z0-9][a-z0-9-]{0,62}$"
TemplatePath = Annotated[str, Path(pattern=_PATTERN, examples=["newsletter"])]
Name = Annotated[
    str,
    Field(
        pattern=_PATTERN,
        description="1 to 63 lower-case letters, digits or `-`.",
        examples=["spring-letter"],
    ),
]
Source = Annotated[
    Text,
    Field(
        max_length=LARGEST_SOURCE,
        description="MJML or HTML with `{% slot content %}` where the message goes.",
        examples=["<mjml><mj-body>{% slot content %}</mj-body></mjml>"],
    ),
]


class _Content(Body):
    """A template without its name."""

    title: TemplateTitle
    source: Source
    description: TemplateDescription = ""
    format: Annotated[LayoutFormat, Field(strict=False)] = LayoutFormat.MJML

    @property
    def content(self) -> TemplateContent:
        return TemplateContent(self.title, self.source, self.description, self.format)


class NewTemplate(_Content):
    """A template of your own."""

    name: Name


class TemplateChange(_Content):
    """What a template becomes."""

    name: Annotated[Name | None, Field(description="As in the path, or left out.")] = None


@router.get(
    "/templates", **call(Scope.MESSAGES, index_of(TemplateSummary), 404, right=ListRight.VIEW)
)
async def read_templates(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """Return all templates: your own by name, then the built-in ones."""
    cursor = Cursor(after, IndexName.TEMPLATES)
    found = _following(cursor.last, await services_of(request).templates.list())
    last = found[limit - 1].name if len(found) > limit else None
    items = map(with_quotable_etag, map(describe_template_summary, found[:limit]))
    return respond_with_items(items, cursor.next(last))


def _following(last: str | None, templates: Sequence[Template]) -> Sequence[Template]:
    """Return the templates after one, which may have been deleted since."""
    if last is None:
        return templates
    built_in = [each for each in templates if each.is_built_in]
    names = [each.name for each in built_in]
    if last in names:
        return built_in[names.index(last) + 1 :]
    return [each for each in templates if each.is_built_in or each.name > last]


@router.post(
    "/templates", **call(Scope.MESSAGES, TemplateResource, 409, status=201, with_etag=True)
)
async def create_template(request: Request, body: NewTemplate) -> Response:
    """Create a template."""
    services = services_of(request)
    await services.templates.create(body.name, body.content, author_of(request))
    created = await services.templates.get(body.name)
    return respond_with_etag(
        describe_template(created), 201, {"Location": f"{PLACE}/templates/{body.name}"}
    )


@router.get(
    "/templates/{name}",
    **call(Scope.MESSAGES, TemplateResource, 404, right=ListRight.VIEW, with_etag=True),
)
async def read_template(request: Request, name: TemplatePath) -> Response:
    """Return a template with its source and its slots."""
    return respond_with_etag(describe_template(await services_of(request).templates.get(name)))


@router.put(
    "/templates/{name}",
    **call(Scope.MESSAGES, TemplateResource, 404, 409, 412, with_etag=True, headers=IF_MATCH),
)
async def replace_template(request: Request, name: TemplatePath, body: TemplateChange) -> Response:
    """Replace one of your own templates. Scheduled messages keep their design."""
    same_name(body.name, name)
    services = services_of(request)
    etag = await _matched(request, name)
    await services.templates.replace(name, body.content, author_of(request), etag=etag)
    return respond_with_etag(describe_template(await services.templates.get(name)))


@router.delete("/templates/{name}", **call(Scope.MESSAGES, None, 404, 409, 412, headers=IF_MATCH))
async def delete_template(request: Request, name: TemplatePath) -> Response:
    """Delete one of your own templates. Drafts that use it need another one."""
    etag = await _matched(request, name)
    await services_of(request).templates.delete(name, etag=etag)
    return Response(status_code=204)


async def _matched(request: Request, name: str) -> str | None:
    async def read() -> TemplateSummary:
        found: WholeTemplate = await services_of(request).templates.get(name)
        return describe_template_summary(found.template)

    return await matched_etag(request, "template", name, read)
