"""A list's brand: colour, font, logo, links and footer, with samples of what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import structs
from starlette.datastructures import UploadFile
from starlette.responses import Response

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.appearance import LARGEST_BYTES, parse_image
from postroom.domain.audience.lists.brand import FONT_LABELS, Brand
from postroom.domain.audience.lists.list_property import ListForm
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import (
    PROPERTIES,
    MailingList,
    SubscriberGuid,
    properties_of,
)
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES
from postroom.mail.mail_reader import read_mail
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_confirmation
from postroom.translations import Translator
from postroom.web.admin.audience.property_forms import PropertyForm
from postroom.web.public.branding import brand_values
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LARGEST_FORM = LARGEST_BYTES + 100_000
_FOOTERS: Final = [f"footer_text_{language}" for language in LANGUAGES]
_SOMEBODY: Final = Recipient(
    Address("subscriber@example.com"), SubscriberGuid("00000000-0000-4000-8000-000000000000")
)


async def brand(visit: Visit) -> Response:
    return await _FORM.respond(visit)


async def preview(visit: Visit) -> Response:
    """Render the samples with what is typed."""
    return await _FORM.preview(visit, "admin/audience/brand_preview.html")


async def email(visit: Visit) -> Response:
    """Render the confirmation email in the brand that the URL describes."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    typed = {each.name: visit.parameter(each.name) for each in properties_of(ListForm.BRAND)}
    mailing = compile_confirmation(
        list_name=mailing_list.name,
        description=mailing_list.description,
        from_address=mailing_list.from_address,
        base_url=visit.context.base_url,
        date=clock.now(),
        list_language=mailing_list.language,
        brand=structs.replace(_typed_brand(typed), logo=mailing_list.logo),
    )
    html = read_mail(mailing.mail(_SOMEBODY)).html or ""
    return sandboxed(html, base_url=visit.context.base_url)


def _typed_brand(values: Mapping[str, str]) -> Brand:
    """Return the brand as far as it is valid: what is half typed counts as empty."""
    valid: dict[str, Any] = {}
    for name, text in values.items():
        try:
            valid[name] = PROPERTIES[name].check(text)
        except Invalid:
            continue
    return Brand(**valid)


def _values(current: MailingList, values: Mapping[str, str]) -> dict[str, Any]:
    typed = _typed_brand(values)
    given = {name: text for name, text in values.items() if text}
    return {
        **brand_values(current, typed),
        "email_url": f"/lists/{current.name}/brand/email?{urlencode(given)}",
        "fonts": FONT_LABELS,
        "footers": _FOOTERS,
        "footers_open": any(values.get(name) for name in _FOOTERS),
        "_": Translator(current.language),
    }


async def _uploaded(visit: Visit) -> bytes:
    """Return the new logo, if one was sent. `Invalid`"""
    file = (await visit.form()).get("logo")
    if not isinstance(file, UploadFile):
        return b""
    data = await file.read(LARGEST_BYTES + 1)
    if data:
        parse_image(data)
    return data


async def _save_logo(visit: Visit, saved: MailingList, logo: bytes) -> None:
    if logo:
        await visit.services.logos.put(saved.name, logo, saved.etag)
    elif await visit.text("remove_logo"):
        await visit.services.logos.remove(saved.name, saved.etag)


_FORM = PropertyForm(
    ListForm.BRAND, "admin/audience/brand.html", "brand", _values, _uploaded, _save_logo
)

VIEWS = (
    View(
        "/lists/{name}/brand",
        brand,
        right=ListRight.MANAGE,
        methods=("GET", "POST"),
        max_body=_LARGEST_FORM,
    ),
    View(
        "/lists/{name}/brand/preview",
        preview,
        right=ListRight.MANAGE,
        methods=("POST",),
        audited=False,
        max_body=_LARGEST_FORM,
    ),
    View("/lists/{name}/brand/email", email, right=ListRight.MANAGE),
)
