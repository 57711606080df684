"""The sign-up form on other websites: which may show it, and what they paste into their pages.

| how           | works                                                                     |
|---------------|---------------------------------------------------------------------------|
| HTML form     | without scripts; on any site, or if the list allows some, on those only   |
| script, frame | on allowed sites: a frame with our own page, so that everything on it runs |

Browsers enforce it: the policy of the page names the sites that may frame it (`frame-ancestors`),
and the `Origin` of a form that was sent from elsewhere is compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.form_properties import consent_version, origin_of
from postroom.domain.audience.lists import MailingList
from postroom.translations import Translator
from postroom.web.public.field_inputs import PREFIX, label_of
from postroom.web.public.visitor import Visitor
from postroom.web.rendering.templating import STATIC
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.web.serving.middleware import POLICY

# A field that people do not see, but bots fill in.
HONEYPOT: Final = "website"
CONSENT: Final = "consent"
TRACKING: Final = "tracking"
EMBED: Final = "embed"
SCRIPT: Final = "/subscribe/form.js"

_NO_FRAMES, _OWN_FORMS = "frame-ancestors 'none'", "form-action 'self'"
_LONGEST_ORIGIN: Final = 300
_A_WHILE: Final = "public, max-age=3600"
_TYPES: Final = {
    FieldType.INTEGER: 'type="number" step="1"',
    FieldType.NUMBER: 'type="number" step="any"',
    FieldType.DATE: 'type="date"',
}


# -- who may embed it -----------------------------------------------------------------------------


def is_allowed(visitor: Visitor, lists: Sequence[MailingList]) -> bool:
    """Return whether a form may have been sent from where it comes from: our own page, or a site
    that each list allows. A list that names no sites accepts forms from all of them."""
    origin = foreign_origin(visitor)
    return all(not origin or not each.origins or origin in each.origins for each in lists)


def foreign_origin(visitor: Visitor) -> str:
    """Return the website that a form was sent from; "" for our own pages, or if it is unknown."""
    origin = visitor.visit.request.headers.get("origin", "").lower()
    return "" if origin in _own_origins(visitor) else origin[:_LONGEST_ORIGIN]


def _own_origins(visitor: Visitor) -> tuple[str, ...]:
    request = visitor.visit.request
    host = request.headers.get("host", "")
    return (
        origin_of(visitor.visit.context.base_url),
        f"{request.url.scheme}://{host}".lower(),
        f"https://{host}".lower(),  # a proxy may speak HTTPS for us
    )


def with_policy(
    visitor: Visitor,
    response: Response,
    mailing_list: MailingList | None,
    *,
    is_framed: bool = True,
) -> Response:
    """Let the forms of this response lead to the list's own pages. If `is_framed`, our pages and
    the sites that the list allows can frame it, and scripts of these sites can read it."""
    if mailing_list is None:
        return response
    ends = [each for each in (mailing_list.thank_you_url, mailing_list.confirmed_url) if each]
    policy = POLICY
    if ends:
        # Browsers apply this to redirects, too, and a site may redirect to another name of it.
        # Only this machine's own sites have no HTTPS.
        sites = " ".join(
            {"https:" if each.startswith("https:") else origin_of(each): "" for each in ends}
        )
        policy = policy.replace(_OWN_FORMS, f"{_OWN_FORMS} {sites}")
    if is_framed:
        frames = " ".join(["frame-ancestors 'self'", *mailing_list.origins])
        policy = policy.replace(_NO_FRAMES, frames)
    if is_framed and mailing_list.origins:
        response.headers.add_vary_header("Origin")
        origin = visitor.visit.request.headers.get("origin", "").lower()
        if origin in mailing_list.origins:
            response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Content-Security-Policy"] = policy
    return response


def own_page(url: str) -> Response:
    """Redirect to a page of the list's own site, which a setting of the list names."""
    return RedirectResponse(url, 303)


# -- what sites paste -----------------------------------------------------------------------------


def frame_url(base_url: str, mailing_list: MailingList) -> str:
    """Return the address of the form for a frame."""
    return f"{base_url}/subscribe?{urlencode({'list': mailing_list.name, EMBED: '1'})}"


def tracking_text(_: Translator) -> str:
    """Return what somebody agrees to who allows tracking. It is about the person: without it,
    emails may be counted for all recipients together."""
    return _(
        "You may record, for me personally, which of these emails I open and which links I click."
        " I can change this at any time."
    )


def frame_snippet(base_url: str, mailing_list: MailingList) -> str:
    """Return the HTML of a frame with the form."""
    url, title = escape(frame_url(base_url, mailing_list)), escape(mailing_list.description)
    return (
        f'<iframe src="{url}" title="{title}" loading="lazy"\n'
        '        style="width: 100%; height: 420px; border: 0"></iframe>\n'
    )


def script_snippet(base_url: str, mailing_list: MailingList) -> str:
    """Return the HTML of a script that shows the form in its place, with the right height."""
    source, name = escape(f"{base_url}{SCRIPT}"), escape(mailing_list.name)
    return f'<script src="{source}" data-list="{name}" async></script>\n'


def form_snippet(base_url: str, mailing_list: MailingList, fields: Sequence[Field] = ()) -> str:
    """Return the HTML of a form that needs no script and no API key, in the list's language."""
    _ = Translator(mailing_list.language)
    lines = [
        f'<form method="post" action="{escape(f"{base_url}/subscribe")}">',
        f'  <input type="hidden" name="list" value="{escape(mailing_list.name)}">',
        f"  <label>{escape(_('Your email address'))}"
        ' <input type="email" name="email" required autocomplete="email"></label>',
        *(f"  {_input(each, _)}" for each in fields),
    ]
    if mailing_list.consent_text:
        version, text = (
            consent_version(mailing_list.consent_text),
            escape(mailing_list.consent_text),
        )
        lines.append(
            f'  <label><input type="checkbox" name="{CONSENT}" value="{version}" required>'
            f" {text}</label>"
        )
    if mailing_list.ask_tracking:
        text = escape(tracking_text(_))
        lines.append(
            f'  <label><input type="checkbox" name="{TRACKING}" value="yes"> {text}</label>'
        )
    if mailing_list.privacy_url:
        privacy = escape(_("Privacy policy"))
        lines.append(f'  <a href="{escape(mailing_list.privacy_url)}">{privacy}</a>')
    lines += [
        "  <!-- Hidden from people. Submissions that fill it in are ignored. -->",
        f'  <input type="text" name="{HONEYPOT}" tabindex="-1" autocomplete="off"'
        ' aria-hidden="true"',
        '         style="position: absolute; left: -9999px">',
        f'  <button type="submit">{escape(_("Subscribe"))}</button>',
        "</form>",
    ]
    return "\n".join(lines) + "\n"


def _input(field: Field, _: Translator) -> str:
    name, label = escape(PREFIX + field.name), escape(label_of(field, _))
    required = " required" if field.required else ""
    match field.type:
        case FieldType.BOOLEAN:
            box = f'<input type="checkbox" name="{name}" value="yes"{required}>'
            return f"<label>{box} {label}</label>"
        case FieldType.CHOICE:
            options = "".join(f"<option>{escape(each)}</option>" for each in field.choices)
            first = "" if field.required else "<option></option>"
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
