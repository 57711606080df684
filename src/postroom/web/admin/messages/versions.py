"""Earlier versions of a draft: compare each with the current one, and restore it."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.responses import Response

from postroom.domain.errors import Overtaken
from postroom.domain.messages.messages import Message
from postroom.services.accounts.users import Role
from postroom.services.messages.draft_contents import Content
from postroom.services.messages.message_versions import KEPT, version_name
from postroom.web.admin.messages.message_drafts import LABELS, shown_content
from postroom.web.admin.messages.version_diff import Piece, differing_pieces
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


class ShownVersion(msgspec.Struct, frozen=True):
    name: str
    draft: Message


class FieldChange(msgspec.Struct, frozen=True):
    """A field in which a version differs from the current text."""

    label: str
    pieces: list[Piece]


async def versions(visit: Visit) -> Response:
    composing = visit.services.composing
    message, current = await composing.read(visit.parameter("ref"))
    shown = [
        ShownVersion(version_name(each), each) for each in await composing.versions.all(message.ref)
    ]
    chosen = visit.parameter("version") or (shown[0].name if shown else "")
    changes: list[FieldChange] = []
    if chosen:
        earlier = await composing.content(await composing.versions.get(message.ref, chosen))
        changes = await asyncio.to_thread(_changes, earlier, current)
    return visit.render(
        "admin/messages/versions.html",
        message=message,
        versions=shown,
        chosen=chosen,
        changes=changes,
        kept=KEPT,
    )


def _changes(earlier: Content, current: Content) -> list[FieldChange]:
    """Compare field by field. In a thread, because bodies may be large."""
    before, after = shown_content(earlier), shown_content(current)
    found = [
        FieldChange(label, differing_pieces(before[name], after[name]))
        for name, label in LABELS.items()
    ]
    return [each for each in found if each.pieces]


async def restore(visit: Visit) -> Response:
    ref, version = visit.parameter("ref"), await visit.text("version")
    try:
        await visit.services.composing.restore(
            ref, version, visit.who.email, etag=await visit.text("etag") or None
        )
    except Overtaken:
        return visit.redirect(
            f"/messages/{ref}/versions?version={version}",
            "The draft has been changed meanwhile. Compare the versions again.",
        )
    await visit.audit("restored version of draft", ref)
    return visit.redirect(
        f"/messages/{ref}/edit", "Version restored. The text before it is kept as a version."
    )


VIEWS = (
    View("/messages/{ref}/versions", versions, role=Role.WRITER),
    View("/messages/{ref}/restore", restore, role=Role.WRITER, methods=("POST",)),
)
