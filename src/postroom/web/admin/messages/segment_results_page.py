"""The results of a message by segment: a part of its page, counted in steps, and a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.segments import Segment
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services.audience.results.segment_results import SegmentFigures
from postroom.services.audience.suppression.delivery_limits import percent
from postroom.services.resources.results import describe_segment_results
from postroom.web.requests.list_checks import check_rule_access
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SECONDS: Final = 1.0
"""Time limit of each step, while the page shows its progress."""
_DIGITS: Final = 9


async def show(visit: Visit) -> Response:
    """Render the figures of each segment. On a long list, these are a part of them, and where to
    continue."""
    message, segments = await _segments(visit)
    counted = _counted(visit.parameter("counted"), segments)
    part = await visit.services.segment_results.read(
        message, segments, after=visit.parameter("after"), seconds=_SECONDS
    )
    figures = {
        name: counted.get(name, SegmentFigures()) + part.figures[name] for name in part.figures
    }
    seen = _number(visit.parameter("seen")) + part.looked_at
    more = {"after": part.next or "", "counted": _text(figures), "seen": seen}
    return visit.render(
        "admin/messages/result_segments.html",
        message=message,
        figures=figures,
        seen=seen,
        is_personal=message.track is Track.PERSONAL,
        next_url=f"{visit.path}?{urlencode(more)}" if part.next else "",
        percent=percent,
    )


async def segments_file(visit: Visit) -> Response:
    message, segments = await _segments(visit)
    part = await visit.services.segment_results.read(message, segments)
    described = describe_segment_results(message, part.figures).segments
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(("segment", *_NUMBERS))
    for each in described:
        cells = [getattr(each, name) for name in _NUMBERS]
        writer.writerow((each.segment, *("" if cell is None else cell for cell in cells)))
    name = f"segments-{message.ref}.csv"
    return Response(
        file.getvalue(),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _segments(visit: Visit) -> tuple[Message, list[Segment]]:
    message = await visit.services.messages.get(visit.parameter("ref"))
    return message, await segments_of(visit, message)


async def segments_of(visit: Visit, message: Message) -> list[Segment]:
    """Return the segments that the results of a message are shown by."""
    if message.queued_at is None:
        return []
    check = partial(check_rule_access, visit.services, visit.access)
    return await visit.services.segment_results.segments(message, check)


_NUMBERS: Final = SegmentFigures.__struct_fields__


def _text(figures: Mapping[str, SegmentFigures]) -> str:
    """Return the figures so far as a part of an address; `_counted` reads them."""
    return ",".join(".".join(map(str, msgspec.structs.astuple(each))) for each in figures.values())


def _counted(text: str, segments: Sequence[Segment]) -> dict[str, SegmentFigures]:
    rows = [[_number(each) for each in row.split(".")] for row in text.split(",")]
    if len(rows) != len(segments) or any(len(row) != len(_NUMBERS) for row in rows):
        return {}
    return {each.name: SegmentFigures(*row) for each, row in zip(segments, rows, strict=True)}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


VIEWS = (
    View("/messages/{ref}/segments", show, right=ListRight.VIEW, uses_rules=False),
    View("/messages/{ref}/segments.csv", segments_file, right=ListRight.VIEW, uses_rules=False),
)
