"""Earlier versions of a draft: compare each with the current one, and restore it."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch, Overtaken
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import parse_ref
from postroom.services.messages.drafts.draft_contents import Content
from postroom.services.messages.drafts.message_versions import KEPT, version_name
from postroom.web.admin.messages.drafting.message_drafts import LABELS, shown_contents
from postroom.web.admin.messages.drafting.version_diff import Piece, differing_pieces
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
        ShownVersion(version_name(each), each)
        for each in await composing.versions.all(message.ref)
        if visit.messages.sees(each)
    ]
    chosen = visit.parameter("version") or (shown[0].name if shown else "")
    changes: list[FieldChange] = []
    if chosen:
        earlier = await composing.content(await _version(visit, message.ref, chosen))
        changes = await asyncio.to_thread(_changes, earlier, current)
    return visit.render(
        "admin/messages/versions.html",
        message=message,
        versions=shown,
        chosen=chosen,
        changes=changes,
        kept=KEPT,
    )


async def _version(visit: Visit, ref: str, name: str) -> Message:
    """Return a version of a draft. `NoSuch`, also if it was for a list that the user does not
    see."""
    found = await visit.services.composing.versions.get(parse_ref(ref), name)
    if not visit.messages.sees(found):
        raise NoSuch("version", name)
    return found


def _changes(earlier: Content, current: Content) -> list[FieldChange]:
    """Compare field by field. In a thread, because bodies may be large."""
    before, after = shown_contents(earlier, current)
    found = [
        FieldChange(label, differing_pieces(before[name], after[name]))
        for name, label in LABELS.items()
    ]
    return [each for each in found if each.pieces]


async def restore(visit: Visit) -> Response:
    ref, version = visit.parameter("ref"), await visit.text("version")
    visit.require(ListRight.EDIT, await _version(visit, ref, version))
    try:
        await visit.services.composing.restore(
            ref, version, visit.who.email, etag=await visit.text("etag") or None
        )
    except Overtaken:
        return visit.redirect(
            f"/messages/{ref}/versions?version={version}",
            "The draft has changed in the meantime. Compare the versions again.",
        )
    await visit.audit("restored version of draft", ref)
    return visit.redirect(
        f"/messages/{ref}/edit", "Version restored. The text before it is kept as a version."
    )


VIEWS = (
    View("/messages/{ref}/versions", versions, right=ListRight.EDIT),
    View("/messages/{ref}/restore", restore, right=ListRight.EDIT, methods=("POST",)),
)
