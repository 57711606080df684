"""A list's sign-up page: who can sign up, and the texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from postroom.domain.audience.lists import PROPERTIES, ListForm, MailingList
from postroom.services.accounts.users import Role
from postroom.translations import Translator
from postroom.web.admin.audience.property_forms import PropertyForm
from postroom.web.public.branding import brand_values
from postroom.web.public.subscribe import form_snippet
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
        "snippet": lambda base_url: form_snippet(base_url, current.name),
        "signup_text": _shortened(values, "signup_text"),
        "welcome_text": _shortened(values, "welcome_text"),
        "ask_name": values["ask_name"] == "yes",
        "_": Translator(current.language),
    }


def _shortened(values: Mapping[str, str], name: str) -> str:
    return values[name][: PROPERTIES[name].longest].strip()


_FORM = PropertyForm(
    ListForm.SIGNUP_PAGE, "admin/audience/signup_page.html", "sign-up page", _values
)

VIEWS = (
    View("/lists/{name}/signup-page", signup_page, role=Role.EDITOR, methods=("GET", "POST")),
    View(
        "/lists/{name}/signup-page/preview",
        preview,
        role=Role.EDITOR,
        methods=("POST",),
        audited=False,
    ),
)
