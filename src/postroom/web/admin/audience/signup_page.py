"""A list's sign-up page: who can sign up, and the texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from postroom.domain.audience.lists.list_property import ListForm
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import PROPERTIES, MailingList
from postroom.translations import Translator
from postroom.web.admin.audience.embed import snippets
from postroom.web.admin.audience.property_forms import PropertyForm
from postroom.web.public.branding import brand_values
from postroom.web.public.signup.offers import Offer
from postroom.web.public.signup.snippets import frame_url, tracking_text
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


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
    fields = await visit.services.fields.get(current.name)
    offer = Offer([(current, fields.fields)])
    return {
        "snippets": snippets(visit.context.base_url, offer),
        "frame_path": frame_url("", [current]),
    }


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
