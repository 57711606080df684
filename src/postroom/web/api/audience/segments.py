"""`/lists/{name}/segments`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.rules.rule_parsing import LONGEST
from postroom.domain.audience.segments import Segment
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.audience import (
    ExplanationResource,
    SegmentPreviewResource,
    SegmentResource,
    describe_explanation,
    describe_preview,
    describe_segment,
)
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import IF_MATCH, IF_NONE_MATCH, PLACE, call, index_of
from postroom.web.api.field_types import (
    Address,
    After,
    Body,
    Limit,
    ListPath,
    SegmentName,
    SegmentPath,
    Text,
    same_name,
)
from postroom.web.api.routing import (
    ApiRoute,
    matched_etag,
    respond,
    respond_unless_known,
    respond_with_etag,
    respond_with_items,
    services_of,
    with_quotable_etag,
)


class _SegmentConvertor(StringConvertor):
    """The name of a segment in a path. `preview` is not one, so that only its own route matches
    it."""

    regex = "(?!preview$)[^/]+"


register_url_convertor("segment", _SegmentConvertor())

router = APIRouter(route_class=ApiRoute, tags=["Segments"])

RuleText = Annotated[
    Text,
    Field(
        max_length=LONGEST,
        description="Which subscribers belong to it.",
        examples=['city = "Berlin" and joined within 30 days'],
    ),
]


class NewSegment(Body):
    name: SegmentName
    rule: RuleText


class SegmentRule(Body):
    rule: RuleText


class SegmentChange(SegmentRule):
    name: Annotated[SegmentName | None, Field(description="As in the path, or left out.")] = None


@router.post(
    "/lists/{name}/segments",
    **call(
        Scope.SUBSCRIBERS,
        SegmentResource,
        404,
        409,
        right=ListRight.MANAGE,
        status=201,
        with_etag=True,
    ),
)
async def create_segment(request: Request, name: ListPath, body: NewSegment) -> Response:
    """Add a segment. Mistakes in the rule are reported with line and column."""
    created = await services_of(request).segments.create(name, body.name, body.rule)
    location = f"{PLACE}/lists/{quote(created.list_name)}/segments/{quote(created.name)}"
    return respond_with_etag(describe_segment(created), 201, {"Location": location})


@router.get(
    "/lists/{name}/segments",
    **call(Scope.SUBSCRIBERS, index_of(SegmentResource), 404, right=ListRight.VIEW),
)
async def read_segments(
    request: Request, name: ListPath, limit: Limit = 100, after: After = None
) -> Response:
    """Return the segments of a list, sorted by name."""
    cursor = Cursor(after, IndexName.SEGMENTS, name)
    with cursor.checked():
        found = await services_of(request).segments.slice(name, limit=limit, after=cursor.last)
    items = (with_quotable_etag(describe_segment(each)) for each in found.segments)
    return respond_with_items(items, cursor.next(found.next))


@router.post(
    "/lists/{name}/segments/preview",
    **call(Scope.SUBSCRIBERS, SegmentPreviewResource, 404, right=ListRight.VIEW),
)
async def preview_segment(request: Request, name: ListPath, body: SegmentRule) -> Response:
    """Count the subscribers that a rule selects. A long list takes a few seconds."""
    return respond(describe_preview(await services_of(request).segments.preview(name, body.rule)))


@router.get(
    "/lists/{name}/segments/{segment:segment}",
    **call(
        Scope.SUBSCRIBERS,
        SegmentResource,
        404,
        right=ListRight.VIEW,
        with_etag=True,
        headers=IF_NONE_MATCH,
    ),
)
async def read_segment(request: Request, name: ListPath, segment: SegmentPath) -> Response:
    """Return a segment."""
    found = await services_of(request).segments.get(name, segment)
    return respond_unless_known(request, describe_segment(found))


@router.put(
    "/lists/{name}/segments/{segment:segment}",
    **call(
        Scope.SUBSCRIBERS,
        SegmentResource,
        404,
        409,
        412,
        right=ListRight.MANAGE,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def change_segment(
    request: Request, name: ListPath, segment: SegmentPath, body: SegmentChange
) -> Response:
    """Change the rule of a segment."""
    same_name(body.name, segment)
    etag = await _matched(request, name, segment)
    saved = await services_of(request).segments.change(name, segment, body.rule, etag)
    return respond_with_etag(describe_segment(saved))


@router.delete(
    "/lists/{name}/segments/{segment:segment}",
    **call(Scope.SUBSCRIBERS, None, 404, 409, 412, right=ListRight.MANAGE, headers=IF_MATCH),
)
async def delete_segment(request: Request, name: ListPath, segment: SegmentPath) -> Response:
    """Delete a segment. Its subscribers stay on the list."""
    etag = await _matched(request, name, segment)
    await services_of(request).segments.remove(name, segment, etag)
    return Response(status_code=204)


@router.get(
    "/lists/{name}/segments/{segment:segment}/explain",
    **call(Scope.SUBSCRIBERS, ExplanationResource, 404, right=ListRight.VIEW),
)
async def explain_segment(
    request: Request,
    name: ListPath,
    segment: SegmentPath,
    email: Annotated[Address, Query(description="The address of a subscriber.")],
) -> Response:
    """Explain why a subscriber is or is not in a segment, comparison by comparison."""
    found = await services_of(request).segments.explain(name, segment, email)
    return respond(describe_explanation(found))


async def _matched(request: Request, name: str, segment: str) -> str | None:
    async def read() -> Segment:
        return await services_of(request).segments.get(name, segment)

    return await matched_etag(request, "segment", segment, read)
