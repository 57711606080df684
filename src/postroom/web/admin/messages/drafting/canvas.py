"""What the editor asks while someone writes: the canvas of blocks, and mistakes with lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.responses import JSONResponse, Response

from postroom.composing.blocks.canvas import compile_canvas
from postroom.composing.brand import EmailBrand
from postroom.composing.compiler import Compiled, compile_source
from postroom.composing.content_findings import ContentFinding, Level
from postroom.composing.layouts import Layout, SlotUse, slots_of
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.personal.merge_fields import FieldRule
from postroom.services.messages.drafts.draft_contents import Content
from postroom.web.admin.messages.drafting.message_drafts import LARGEST_FORM, draft_from_form
from postroom.web.rendering.picture_sites import picture_sites
from postroom.web.rendering.sandbox import canvas_frame, with_theme
from postroom.web.rendering.templating import static
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


async def frame(visit: Visit) -> Response:
    """Return the empty document of the canvas. `sites` are those that pictures may come from: a
    policy cannot change once a document is loaded."""
    return canvas_frame(visit.context.base_url, visit.parameter("sites").split())


async def compile_draft(visit: Visit) -> Response:
    """Compile what is in the form. Of blocks, return the canvas, and the slots of the template."""
    draft, _ = await draft_from_form(visit)
    content = draft.content
    is_blocks = content.format is MessageFormat.BLOCKS
    slots: list[SlotUse] = []
    try:
        brand, layout, rules = await visit.services.composing.design(content)
    except Invalid as exc:
        compiled = Compiled(findings=(ContentFinding(Level.ERROR, "template", exc.problem),))
    else:
        slots = slots_of(layout) if layout and is_blocks else []
        compiled = await asyncio.to_thread(_compiled, content, brand, layout, rules)
    html = with_theme(compiled.html, is_dark=False)
    return JSONResponse(
        {
            "html": html if is_blocks else "",
            "sites": " ".join(picture_sites(html)),
            "slots": msgspec.to_builtins(slots),
            "findings": msgspec.to_builtins(compiled.findings),
        }
    )


def _compiled(
    content: Content, brand: EmailBrand, layout: Layout | None, rules: Mapping[str, FieldRule]
) -> Compiled:
    if content.format is MessageFormat.BLOCKS:
        return compile_canvas(content.body, brand, layout, static("placeholder.svg"), rules)
    return compile_source(content.body, content.format, brand, layout, rules)


VIEWS = (
    View("/messages/canvas", frame, right=ListRight.EDIT),
    View(
        "/messages/compile",
        compile_draft,
        right=ListRight.EDIT,
        methods=("POST",),
        audited=False,
        max_body=LARGEST_FORM,
    ),
)
