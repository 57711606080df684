"""A list's sign-up page: who can sign up, and the texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from postroom.domain.audience.list_property import ListForm
from postroom.domain.audience.list_rights import ListRight
from postroom.domain.audience.lists import PROPERTIES, MailingList
from postroom.translations import Translator
from postroom.web.admin.audience.property_forms import PropertyForm
from postroom.web.public.branding import brand_values
from postroom.web.public.embedding import (
    form_snippet,
    frame_snippet,
    frame_url,
    script_snippet,
    tracking_text,
)
from postroom.web.public.field_inputs import shown_fields
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


class Snippet(msgspec.Struct, frozen=True):
    """Code to copy into another site."""

    id: str
    title: str
    hint: str
    text: str


async def signup_page(visit: Visit) -> Response:
    return await _FORM.respond(visit)


async def preview(visit: Visit) -> Response:
    """Render the preview with what is typed."""
    return await _FORM.preview(visit, "admin/audience/signup_page_preview.html")


def _values(current: MailingList, values: Mapping[str, str]) -> dict[str, Any]:
    return {
        **brand_values(current, current.brand),
        "signup_text": _shortened(values, "signup_text"),
        "welcome_text": _shortened(values, "welcome_text"),
        "ask_name": values["ask_name"] == "yes",
        "consent_text": _shortened(values, "consent_text"),
        "ask_tracking": values["ask_tracking"] == "yes",
        "tracking_text": tracking_text(Translator(current.language)),
        "_": Translator(current.language),
    }


async def _snippets(visit: Visit, current: MailingList) -> dict[str, Any]:
    """Return the three ways to put the form on another site."""
    base_url, fields = visit.context.base_url, await visit.services.fields.get(current.name)
    return {
        "snippets": [
            Snippet(
                "script",
                "Script",
                "The form appears where you put the script, and adjusts its height.",
                script_snippet(base_url, current),
            ),
            Snippet("frame", "Frame", "For sites that do not allow scripts.",
                    frame_snippet(base_url, current)),
            Snippet(
                "form",
                "HTML",
                "Style it as you like. It works without scripts and without a frame, and shows the"
                " result on a Postroom page, or on your own page after signing up.",
                form_snippet(base_url, current, shown_fields(current, fields.fields)),
            ),
        ],
        "frame_path": frame_url("", current),
    }  # fmt: skip


def _shortened(values: Mapping[str, str], name: str) -> str:
    return values[name][: PROPERTIES[name].longest].strip()


_FORM = PropertyForm(
    ListForm.SIGNUP_PAGE,
    "admin/audience/signup_page.html",
    "sign-up page",
    _values,
    load=_snippets,
)

VIEWS = (
    View("/lists/{name}/signup-page", signup_page, right=ListRight.MANAGE, methods=("GET", "POST")),
    View(
        "/lists/{name}/signup-page/preview",
        preview,
        right=ListRight.MANAGE,
        methods=("POST",),
        audited=False,
    ),
)
