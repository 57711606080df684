"""Visitors of public pages: their language, their form, and pages for them.

Public forms carry no CSRF token: they come from links in emails and from other websites, without a
session, and the link itself is the proof.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.consent import ConsentSource
from postroom.domain.audience.lists.brand import initial_of
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.errors import DomainError
from postroom.domain.languages import LANGUAGES, known_language
from postroom.errors import PostroomError
from postroom.storage import StoreOutage
from postroom.translations import Translator
from postroom.web.public.branding import logo_url, style_url
from postroom.web.requests.forms import read_form
from postroom.web.requests.views import View
from postroom.web.requests.visit import Endpoint, Visit

log = logging.getLogger(__name__)

LARGEST_FORM = 64 * 1024
_PROBLEM = 400
_MOST_FIELDS = 1000
_MOST_LISTS = 50
# Query parameters that links to the same page keep, and how much of each.
_KEPT_PARAMETERS = ("list", "id", "listName", "ref", "token", "embed", "changes")
_LONGEST_PARAMETER = 2000
# Includes characters that change the direction of text, and unusual line separators.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
LANGUAGE_NAMES: Final = {
    "en": "English",
    "fr": "Français",
    "de": "Deutsch",
    "ko": "한국어",
    "ru": "Русский",
}

# Limits how much of a header is parsed.
_MOST_TAGS = 30
_LONGEST_HEADER = 1000


# How each language writes a day.
_DAYS: Final = {
    "en": "%-d %B %Y",
    "fr": "%d/%m/%Y",
    "de": "%d.%m.%Y",
    "ko": "%Y. %m. %d.",
    "ru": "%d.%m.%Y",
}


class Visitor:
    """A request for a public page, with its form and the visitor's language."""

    def __init__(self, visit: Visit, form: FormData) -> None:
        self.visit = visit
        self.services = visit.services
        self._form = form
        self.chosen_language = chosen_language(visit.request, self.text("lang"))
        self.gettext = Translator(self.chosen_language or LANGUAGES[0])

    @property
    def language(self) -> str:
        return self.gettext.language

    def default_language_of(self, mailing_list: MailingList) -> None:
        """Use the list's language from here on, unless the visitor's own is known."""
        self.gettext = Translator(self.chosen_language or mailing_list.language)

    def source(self, origin: str, text: str = "") -> ConsentSource:
        """Return where an act comes from: this visitor, on a page or another website, after reading
        the consent text."""
        return ConsentSource(origin, text, self.services.ip_digests.of(self.visit.place))

    @property
    def is_post(self) -> bool:
        """Whether a form was sent. Nothing else may change data: link scanners use GET."""
        return self.visit.request.method == "POST"

    def text(self, field: str) -> str:
        """Return a field of the form as text; a file counts as empty."""
        value = self._form.get(field, "")
        return value if isinstance(value, str) else ""

    def parameter(self, name: str) -> str:
        """Return a parameter from the query or the form."""
        return self.visit.request.query_params.get(name) or self.text(name)

    def query_values(self, name: str) -> list[str]:
        """Return all distinct values of a query parameter."""
        return _distinct(self.visit.request.query_params.getlist(name))

    def form_values(self, name: str) -> list[str]:
        """Return all distinct values of a form field."""
        return _distinct([v for v in self._form.getlist(name) if isinstance(v, str)])

    def link(self, path: str, **parameters: str) -> str:
        """Return the URL of a public page in the visitor's language."""
        return f"{path}?{urlencode({**parameters, 'lang': self.language})}"

    def current_url(self, language: str = "") -> str:
        """Return the URL of this page, in the same or another language."""
        kept = [
            (name, printable(value)[:_LONGEST_PARAMETER])
            for name, value in self.visit.request.query_params.multi_items()
            if name in _KEPT_PARAMETERS
        ][:_MOST_LISTS]
        return f"{self.visit.path}?{urlencode([*kept, ('lang', language or self.language)])}"

    def render(
        self,
        template: str,
        *,
        status: int = 200,
        mailing_list: MailingList | None = None,
        **values: object,
    ) -> Response:
        languages = [(code, LANGUAGE_NAMES[code], self.current_url(code)) for code in LANGUAGES]
        return self.visit.render(
            f"public/{template}",
            status=status,
            visitor=self,
            _=self.gettext,
            language=self.language,
            languages=[] if self.is_post else languages,
            mailing_list=mailing_list,
            style_url=style_url,
            logo_url=logo_url,
            initial_of=initial_of,
            **values,
        )

    def message(
        self,
        title: str,
        *paragraphs: str,
        status: int = 200,
        mailing_list: MailingList | None = None,
        small: str = "",
        action: tuple[str, str] | None = None,
        picture: str = "check",
    ) -> Response:
        """Render a page with an icon, a title and some text; `action` is the text and URL of a
        link. The icon of a page that reports a problem is a warning."""
        return self.render(
            "message.html",
            status=status,
            mailing_list=mailing_list,
            title=title,
            paragraphs=paragraphs,
            small=small,
            action=action,
            picture=picture if status < _PROBLEM else "warning",
        )


PublicEndpoint = Callable[[Visitor], Awaitable[Response]]


def public(endpoint: PublicEndpoint) -> Endpoint:
    """Wrap an endpoint for visitors; errors become a friendly page in their language."""

    @functools.wraps(endpoint)
    async def respond(visit: Visit) -> Response:
        visitor = Visitor(visit, FormData())
        try:
            if visitor.is_post:
                form = await read_form(visit.request, max_files=0, max_fields=_MOST_FIELDS)
                visitor = Visitor(visit, form)
            response = await endpoint(visitor)
        except HTTPException as exc:
            response = _unreadable(visitor, exc.status_code)
        except PostroomError as exc:
            response = _unavailable(visitor, exc)
        response.headers.add_vary_header("Accept-Language")
        response.headers["Content-Language"] = visitor.language
        return response

    return respond


def link_view(path: str, endpoint: PublicEndpoint) -> View:
    """Return the view of a page that links in emails lead to: the link itself is the permission,
    and an email program may post to it."""
    return View(
        path,
        public(endpoint),
        is_public=True,
        methods=("GET", "POST"),
        protected=False,
        audited=False,
        max_body=LARGEST_FORM,
    )


def _unreadable(visitor: Visitor, status: int) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("Something went wrong"),
        _("Your request could not be read. Nothing was changed."),
        status=status,
    )


def _unavailable(visitor: Visitor, error: PostroomError) -> Response:
    _ = visitor.gettext
    if not isinstance(error, DomainError | StoreOutage):
        log.error("a public page failed: %s", error)
    return visitor.message(
        _("Temporarily unavailable"),
        _("There is a problem on our side. Please try again in a few minutes."),
        status=503,
    )


def _distinct(values: list[str]) -> list[str]:
    return list(dict.fromkeys(value.strip() for value in values if value.strip()))[:_MOST_LISTS]


def shown_day(moment: datetime, language: str) -> str:
    """Return the day as this language writes it, for example "9 November 2026"."""
    return moment.strftime(_DAYS[language])


def printable(text: str) -> str:
    """Return user input without characters that must not appear in a page."""
    return _UNPRINTABLE.sub("", text)


def chosen_language(request: Request, form_choice: str = "") -> str:
    """Return the language requested with `lang`, or the browser's preferred one; "" if neither is
    supported."""
    asked = known_language(form_choice) or known_language(request.query_params.get("lang", ""))
    return asked or preferred(request.headers.get("accept-language", ""))


def preferred(header: str) -> str:
    """Return the best supported language of `Accept-Language` (RFC 9110 12.5.4), or ""."""
    weighted = [_weighted_tag(part) for part in header[:_LONGEST_HEADER].split(",")[:_MOST_TAGS]]
    for weight, tag in sorted(weighted, key=lambda each: -each[0]):
        language = known_language(tag)
        if weight > 0 and language:
            return language
    return ""


def _weighted_tag(part: str) -> tuple[float, str]:
    tag, _, parameter = part.partition(";")
    name, _, value = parameter.partition("=")
    if name.strip().lower() != "q":
        return 1.0, tag
    try:
        weight = float(value)
    except ValueError:
        return 0.0, tag
    return weight if 0 <= weight <= 1 else 0.0, tag
