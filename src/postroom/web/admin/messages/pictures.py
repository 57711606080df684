"""Pictures: upload, search, describe, delete."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid, Overtaken
from postroom.domain.messages.pictures import LARGEST_FILE, LONGEST_ALT, Picture
from postroom.services.accounts.users import Role
from postroom.services.messages.media.picture_files import FIELD
from postroom.services.messages.media.pictures import PictureSlice
from postroom.web.rendering.templating import sentence, short
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_INDEX_URL: Final = "/pictures"
_SHOWN: Final = 24
_USES_COUNTED: Final = 3
_LONGEST_SEARCH: Final = 200
_LONGEST_TOKEN: Final = 200
_LARGEST_UPLOAD: Final = 6 * 1024 * 1024
"""Bytes of a form: more than of a picture, so that one that is a little too large is named."""


async def index(visit: Visit) -> Response:
    return await _index(visit)


async def upload(visit: Visit) -> Response:
    """Store an uploaded picture. The page's script sends one at a time and gets its card back, or
    what is wrong with it; without the script, the page is shown again."""
    file = (await visit.form()).get(FIELD)
    name = (file.filename if isinstance(file, UploadFile) else "") or "The picture"
    try:
        if not isinstance(file, UploadFile) or not file.filename:
            raise Invalid(FIELD, "choose a picture")
        uploaded, is_new = await visit.services.pictures.upload(
            await file.read(), file.filename, by=visit.who.email
        )
    except Invalid as exc:
        problem = sentence(exc.problem, short(name))
        if visit.is_partial:
            return Response(problem, 422, media_type="text/plain")
        return await _index(visit, status=422, problem=problem)
    await visit.audit("uploaded picture", uploaded.name)
    if visit.is_partial:
        uses = await visit.services.pictures.uses_of(
            [uploaded], most=_USES_COUNTED, sees=visit.messages.sees_lists
        )
        return visit.render("admin/messages/picture_card.html", picture=uploaded, uses=uses)
    done = "uploaded" if is_new else "is already here"
    return visit.redirect(_INDEX_URL, f"{short(uploaded.name)} {done}.")


async def _index(visit: Visit, *, status: int = 200, problem: str = "") -> Response:
    query = visit.parameter("q").strip()[:_LONGEST_SEARCH]
    after = visit.parameter("after")[:_LONGEST_TOKEN]
    try:
        found = await visit.services.pictures.slice(search=query, limit=_SHOWN, after=after or None)
    except ValueError:  # a link that someone changed
        found = PictureSlice([], None)
    return visit.render(
        "admin/messages/pictures.html",
        status=status,
        pictures=found.pictures,
        uses=await visit.services.pictures.uses_of(
            found.pictures, most=_USES_COUNTED, sees=visit.messages.sees_lists
        ),
        query=query,
        next_url=found.next and f"{_INDEX_URL}?{urlencode({'q': query, 'after': found.next})}",
        first_url=after and _url(query),
        problem=problem,
        largest=LARGEST_FILE,
    )


async def choose(visit: Visit) -> Response:
    """Return pictures for the editor to choose from, newest first."""
    query = visit.parameter("q").strip()[:_LONGEST_SEARCH]
    found = await visit.services.pictures.slice(search=query, limit=_SHOWN)
    return visit.render(
        "admin/messages/picture_choices.html",
        pictures=found.pictures,
        query=query,
        base_url=visit.context.base_url.rstrip("/"),
    )


async def details(visit: Visit) -> Response:
    picture = await visit.services.pictures.get(visit.parameter("hash"))
    return await _details(visit, picture)


async def describe(visit: Visit) -> Response:
    picture = await visit.services.pictures.get(visit.parameter("hash"))
    alt = await visit.text("alt")
    try:
        await visit.services.pictures.describe(picture.hash, alt, await visit.text("etag"))
    except Invalid as exc:
        return await _details(visit, picture, alt=alt, status=422, problem=exc.problem)
    except Overtaken:
        theirs = await visit.services.pictures.get(picture.hash)
        problem = f"was changed to “{theirs.alt}” by someone else: save again to replace it"
        return await _details(visit, theirs, alt=alt, status=409, problem=problem)
    await visit.audit("changed alternative text of picture", picture.name)
    return visit.redirect(_details_url(picture), "Saved.")


async def _details(
    visit: Visit,
    picture: Picture,
    *,
    alt: str | None = None,
    status: int = 200,
    problem: str = "",
) -> Response:
    return visit.render(
        "admin/messages/picture.html",
        status=status,
        picture=picture,
        url=visit.context.base_url.rstrip("/") + picture.path,
        alt=picture.alt if alt is None else alt,
        longest_alt=LONGEST_ALT,
        uses=await visit.services.pictures.uses(picture, sees=visit.messages.sees_lists),
        problem=problem,
    )


async def delete(visit: Visit) -> Response:
    picture = await visit.services.pictures.get(visit.parameter("hash"))
    if visit.request.method == "POST":
        await visit.services.pictures.delete(picture.hash)
        await visit.audit("deleted picture", picture.name)
        return visit.redirect(_INDEX_URL, f"{short(picture.name)} deleted.")
    await visit.services.pictures.check_unused(picture)
    return visit.render(
        "admin/confirm.html",
        title=f"Delete the picture {short(picture.name)}?",
        points=[
            "It cannot be restored.",
            "No message or template uses it. If you pasted its address elsewhere, it will be"
            " missing there.",
        ],
        button="Delete picture",
        fields={},
        back=_details_url(picture),
    )


def _details_url(picture: Picture) -> str:
    return f"{_INDEX_URL}/{picture.hash}"


def _url(query: str) -> str:
    return f"{_INDEX_URL}?{urlencode({'q': query})}" if query else _INDEX_URL


VIEWS = (
    View("/pictures", index, right=ListRight.VIEW),
    View("/pictures", upload, right=ListRight.EDIT, methods=("POST",), max_body=_LARGEST_UPLOAD),
    View("/pictures/choose", choose, right=ListRight.EDIT),
    View("/pictures/{hash}", details, right=ListRight.VIEW),
    View("/pictures/{hash}", describe, right=ListRight.EDIT, methods=("POST",)),
    View("/pictures/{hash}/delete", delete, role=Role.EDITOR, methods=("GET", "POST")),
)
