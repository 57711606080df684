"""The sign-up form on other websites: which may show it, and which may send it.

| how           | works                                                                     |
|---------------|---------------------------------------------------------------------------|
| HTML form     | without scripts; on any site, or if the list allows some, on those only   |
| script, frame | on allowed sites: a frame with our own page, so that everything on it runs |

Browsers enforce it: the policy of the page names the sites that may frame it (`frame-ancestors`),
and the `Origin` of a form that was sent from elsewhere is compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import RedirectResponse, Response

from postroom.domain.audience.lists.form_properties import origin_of
from postroom.domain.audience.lists.lists import MailingList
from postroom.web.public.visitor import Visitor
from postroom.web.serving.middleware import POLICY

_NO_FRAMES, _OWN_FORMS = "frame-ancestors 'none'", "form-action 'self'"
_LONGEST_ORIGIN: Final = 300


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
    lists: Sequence[MailingList],
    *,
    is_framed: bool = True,
) -> Response:
    """Let the forms of this response lead to the lists' own pages. If `is_framed`, our pages and
    the sites that all of the lists allow can frame it, and scripts of these sites can read it."""
    if not lists:
        return response
    ends = [url for each in lists for url in (each.thank_you_url, each.confirmed_url) if url]
    policy = POLICY
    if ends:
        # Browsers apply this to redirects, too, and a site may redirect to another name of it.
        # Only this machine's own sites have no HTTPS.
        sites = " ".join(
            {"https:" if each.startswith("https:") else origin_of(each): "" for each in ends}
        )
        policy = policy.replace(_OWN_FORMS, f"{_OWN_FORMS} {sites}")
    allowed = [each for each in lists[0].origins if all(each in other.origins for other in lists)]
    if is_framed:
        policy = policy.replace(_NO_FRAMES, " ".join(["frame-ancestors 'self'", *allowed]))
    if is_framed and allowed:
        response.headers.add_vary_header("Origin")
        origin = visitor.visit.request.headers.get("origin", "").lower()
        if origin in allowed:
            response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Content-Security-Policy"] = policy
    return response


def own_page(url: str) -> Response:
    """Redirect to a page of the list's own site, which a setting of the list names."""
    return RedirectResponse(url, 303)
