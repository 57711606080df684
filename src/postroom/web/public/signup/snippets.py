"""What websites paste into their pages to show the form: a script, a frame or plain HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.form_properties import consent_version
from postroom.domain.audience.lists.lists import MailingList
from postroom.translations import Translator
from postroom.web.public.field_inputs import Naming, label_of
from postroom.web.public.signup.offers import Offer, OfferedList
from postroom.web.rendering.templating import STATIC
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

# A field that people do not see, but bots fill in.
HONEYPOT: Final = "website"
CHOICE: Final = "choice"
CONSENT: Final = "consent"
TRACKING: Final = "tracking"
EMBED: Final = "embed"
SCRIPT: Final = "/subscribe/form.js"

_A_WHILE: Final = "public, max-age=3600"
_TYPES: Final = {
    FieldType.INTEGER: 'type="number" step="1"',
    FieldType.NUMBER: 'type="number" step="any"',
    FieldType.DATE: 'type="date"',
}


def tracking_text(_: Translator) -> str:
    """Return what someone agrees to who allows tracking. It is about the person: without it,
    emails may be counted for all recipients together."""
    return _(
        "I agree that you may record which of these emails I open and which links I click. I can"
        " change this at any time."
    )


def frame_url(base_url: str, lists: Sequence[MailingList]) -> str:
    """Return the address of the form for a frame."""
    query = [*(("list", each.name) for each in lists), (EMBED, "1")]
    return f"{base_url}/subscribe?{urlencode(query)}"


def frame_snippet(base_url: str, lists: Sequence[MailingList]) -> str:
    """Return the HTML of a frame with the form."""
    url = escape(frame_url(base_url, lists))
    title = escape(lists[0].description) if len(lists) == 1 else "Sign up"
    return (
        f'<iframe src="{url}" title="{title}" loading="lazy"\n'
        '        style="width: 100%; height: 420px; border: 0"></iframe>\n'
    )


def script_snippet(base_url: str, lists: Sequence[MailingList]) -> str:
    """Return the HTML of a script that shows the form in its place, with the right height."""
    source, names = escape(f"{base_url}{SCRIPT}"), ",".join(each.name for each in lists)
    return f'<script src="{source}" data-list="{escape(names)}" async></script>\n'


def form_snippet(base_url: str, offer: Offer) -> str:
    """Return the HTML of a form that needs no script and no API key, in the lists' language."""
    _ = Translator(offer.language)
    only, together = offer.only, offer.together
    if only is not None:
        action, lists = f"{base_url}/subscribe", [_hidden("list", only.name)]
    else:
        names = urlencode([("list", each.name) for each in offer.lists])
        action, lists = f"{base_url}/subscribe?{names}", [_hidden(CHOICE, "yes")]
        for each in offer.lists:
            lists += _list(each, offer.naming(each.name), _)
    naming = offer.naming(offer.lists[0].name)
    lines = [
        *lists,
        f"<label>{escape(_('Your email address'))}"
        ' <input type="email" name="email" required autocomplete="email"></label>',
        *(_input(each, naming, _, is_needed=offer.is_needed(each)) for each in together.fields),
        *(_consent(each, is_needed=only is not None) for each in together.consents),
    ]
    if offer.asks_tracking:
        text = escape(tracking_text(_))
        lines.append(f'<label><input type="checkbox" name="{TRACKING}" value="yes"> {text}</label>')
    if together.privacy_url:
        lines.append(_privacy(together.privacy_url, _))
    lines += [
        "<!-- Hidden from people. Submissions that fill it in are ignored. -->",
        f'<input type="text" name="{HONEYPOT}" tabindex="-1" autocomplete="off" aria-hidden="true"',
        '       style="position: absolute; left: -9999px">',
        f'<button type="submit">{escape(_("Subscribe"))}</button>',
    ]
    inner = "".join(f"  {each}\n" for each in lines)
    return f'<form method="post" action="{escape(action)}">\n{inner}</form>\n'


def _list(offered: OfferedList, naming: Naming, _: Translator) -> list[str]:
    """Return the lines of a list that can be chosen, with what is asked for it alone."""
    box = f'<input type="checkbox" name="list" value="{escape(offered.name)}">'
    label = f"<label>{box} {escape(offered.mailing_list.description)}</label>"
    alone = offered.alone
    if not alone:
        return [label]
    questions = [
        *(_input(each, naming, _, is_needed=False) for each in alone.fields),
        *(_consent(each, is_needed=False) for each in alone.consents),
        *([_privacy(alone.privacy_url, _)] if alone.privacy_url else []),
    ]
    return [label, "<div>", *(f"  {each}" for each in questions), "</div>"]


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def _consent(text: str, *, is_needed: bool) -> str:
    required = " required" if is_needed else ""
    box = f'<input type="checkbox" name="{CONSENT}" value="{consent_version(text)}"{required}>'
    return f"<label>{box} {escape(text)}</label>"


def _privacy(url: str, _: Translator) -> str:
    return f'<a href="{escape(url)}">{escape(_("Privacy policy"))}</a>'


def _input(field: Field, naming: Naming, _: Translator, *, is_needed: bool) -> str:
    name, label = escape(naming(field.name)), escape(label_of(field, _))
    required = " required" if field.required and is_needed else ""
    match field.type:
        case FieldType.BOOLEAN:
            box = f'<input type="checkbox" name="{name}" value="yes"{required}>'
            return f"<label>{box} {label}</label>"
        case FieldType.CHOICE:
            options = "".join(f"<option>{escape(each)}</option>" for each in field.choices)
            first = "" if required else "<option></option>"
            return (
                f'<label>{label} <select name="{name}"{required}>{first}{options}</select></label>'
            )
        case FieldType.CHOICES:
            boxes = "".join(
                f'<label><input type="checkbox" name="{name}" value="{escape(each)}">'
                f" {escape(each)}</label>"
                for each in field.choices
            )
            return f"<fieldset><legend>{label}</legend>{boxes}</fieldset>"
        case _:
            kind = _TYPES.get(field.type, f'type="text" maxlength="{field.max_length}"')
            return f'<label>{label} <input name="{name}" {kind}{required}></label>'


async def form_script(visit: Visit) -> Response:
    """Return the script that puts the form into a page, under an address that never changes."""
    return Response(
        (STATIC / "signup_frame.js").read_bytes(),
        media_type="text/javascript",
        headers={"Cache-Control": _A_WHILE, "Cross-Origin-Resource-Policy": "cross-origin"},
    )


VIEWS = (View(SCRIPT, form_script, is_public=True, protected=False),)
