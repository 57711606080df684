"""A list's public pages: who can sign up, texts, colour and logo."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.datastructures import UploadFile
from starlette.responses import Response

from postroom.domain.audience.appearance import LARGEST_BYTES, Colour, parse_colour, parse_image
from postroom.domain.audience.lists import PROPERTIES, MailingList
from postroom.domain.errors import Invalid, Overtaken
from postroom.services.accounts.users import Role
from postroom.translations import Translator
from postroom.web.public.branding import logo_url, style_url
from postroom.web.public.subscribe import form_snippet
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LABELS: Final = {
    "public": "Anyone can sign up",
    "signup_text": "Sign-up text",
    "welcome_text": "Welcome text",
    "colour": "Colour",
}
_LARGEST_FORM = LARGEST_BYTES + 100_000


async def signup_page(visit: Visit) -> Response:
    current = await visit.services.lists.get(visit.parameter("name"))
    if visit.request.method != "POST":
        return _page(visit, current, _fields(current))
    given, etag = await _given(visit), await visit.text("etag") or current.etag
    try:
        logo = await _uploaded(visit)
        saved = await visit.services.lists.edit(
            current.name,
            public=given["public"] == "yes",
            signup_text=given["signup_text"],
            welcome_text=given["welcome_text"],
            colour=given["colour"],
            etag=etag,
        )
        if logo:
            await visit.services.logos.put(current.name, logo, saved.etag)
        elif await visit.text("remove_logo"):
            await visit.services.logos.remove(current.name, saved.etag)
    except Invalid as exc:
        same = msgspec.structs.replace(current, etag=etag)
        return _page(visit, same, given, status=422, problems={exc.field: exc.problem})
    except Overtaken:
        theirs = await visit.services.lists.get(current.name)
        found = differences(_LABELS, given, _fields(theirs))
        return _page(visit, theirs, given, status=409, theirs=found)
    await visit.audit("changed sign-up page of list", current.name)
    return visit.redirect(f"/lists/{current.name}/signup-page", "Saved.")


async def preview(visit: Visit) -> Response:
    """Render the preview with what is typed."""
    current = await visit.services.lists.get(visit.parameter("name"))
    return visit.render(
        "admin/audience/signup_page_preview.html", **_preview_values(current, await _given(visit))
    )


async def _uploaded(visit: Visit) -> bytes:
    """Return the new logo, if one was sent."""
    file = (await visit.form()).get("logo")
    if not isinstance(file, UploadFile):
        return b""
    data = await file.read(LARGEST_BYTES + 1)
    if data:
        parse_image(data)
    return data


async def _given(visit: Visit) -> dict[str, str]:
    given = {name: await visit.text(name) for name in _LABELS}
    return {**given, "public": "yes" if given["public"] else "no"}


def _fields(mailing_list: MailingList) -> dict[str, str]:
    return {
        "public": "yes" if mailing_list.public else "no",
        "signup_text": mailing_list.signup_text,
        "welcome_text": mailing_list.welcome_text,
        "colour": mailing_list.colour,
    }


def _page(
    visit: Visit,
    current: MailingList,
    values: dict[str, str],
    *,
    status: int = 200,
    problems: dict[str, str] | None = None,
    theirs: list[Difference] | None = None,
) -> Response:
    return visit.render(
        "admin/audience/signup_page.html",
        status=status,
        values=values,
        problems=problems or {},
        theirs=theirs or [],
        longest=PROPERTIES["signup_text"].longest,
        snippet=form_snippet(visit.context.base_url, current.name),
        **_preview_values(current, values),
    )


def _preview_values(current: MailingList, values: dict[str, str]) -> dict[str, Any]:
    try:
        colour = parse_colour(values["colour"])
    except Invalid:
        colour = Colour("")  # half typed
    return {
        "list": current,
        "style": style_url(colour) if colour else "",
        "logo": logo_url(current) if current.logo else "",
        "signup_text": _shortened(values, "signup_text"),
        "welcome_text": _shortened(values, "welcome_text"),
        "_": Translator(current.language),
    }


def _shortened(values: dict[str, str], name: str) -> str:
    return values[name][: PROPERTIES[name].longest].strip()


VIEWS = (
    View(
        "/lists/{name}/signup-page",
        signup_page,
        role=Role.EDITOR,
        methods=("GET", "POST"),
        max_body=_LARGEST_FORM,
    ),
    View(
        "/lists/{name}/signup-page/preview",
        preview,
        role=Role.EDITOR,
        methods=("POST",),
        audited=False,
        max_body=_LARGEST_FORM,
    ),
)
