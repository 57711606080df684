"""A visitor of a public page: spoken to in their language, and never shown an error of ours.

Forms of these pages carry no token: they come from links in mails and from clients' sites, without
any session, and the link itself is the proof.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import Response

from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import DomainError
from postroom.domain.languages import LANGUAGES
from postroom.errors import PostroomError
from postroom.storage import StoreOutage
from postroom.web.public.branding import logo_url, style_url
from postroom.web.public.languages import NAMES, Texts, chosen_language
from postroom.web.requests.form_reading import read_form
from postroom.web.requests.visit import Endpoint, Visit

log = logging.getLogger(__name__)

LARGEST_FORM = 64 * 1024
_MOST_FIELDS = 100
_MOST_LISTS = 50
# What may be carried on in a link to the same page, and how much of it.
_CARRIED = ("list", "id", "listName")
_LONGEST_CARRIED = 200
# Also what turns the direction of text around, and what breaks a line without being a line break.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Reader:
    def __init__(self, visit: Visit, form: FormData) -> None:
        self.visit = visit
        self.services = visit.services
        self._form = form
        self.chosen_language = chosen_language(visit.request, self.text("lang"))
        self.gettext = Texts(self.chosen_language or LANGUAGES[0])

    @property
    def language(self) -> str:
        return self.gettext.language

    def meet(self, mailing_list: MailingList) -> None:
        """Speak the list's language from here on, unless the visitor's own is known."""
        self.gettext = Texts(self.chosen_language or mailing_list.language)

    @property
    def sends(self) -> bool:
        """A form was sent. Anything else only looks: link scanners must change nothing."""
        return self.visit.request.method == "POST"

    def text(self, field: str) -> str:
        """A field of the form as text; a file in its place counts as nothing."""
        value = self._form.get(field, "")
        return value if isinstance(value, str) else ""

    def parameter(self, name: str) -> str:
        """From the address or from the form."""
        return self.visit.request.query_params.get(name) or self.text(name)

    def in_link(self, name: str) -> list[str]:
        """All values of that name in the address, each once."""
        return _each_once(self.visit.request.query_params.getlist(name))

    def sent(self, name: str) -> list[str]:
        """All values of that name in the form, each once."""
        return _each_once([v for v in self._form.getlist(name) if isinstance(v, str)])

    def link(self, path: str, language: str = "", **parameters: str) -> str:
        """To a page of ours, in the same language or in another."""
        return f"{path}?{urlencode({**parameters, 'lang': language or self.language})}"

    def same_page(self, language: str = "") -> str:
        """This page again, in the same language or in another."""
        carried = [
            (name, shown(value)[:_LONGEST_CARRIED])
            for name, value in self.visit.request.query_params.multi_items()
            if name in _CARRIED
        ][:_MOST_LISTS]
        return f"{self.visit.path}?{urlencode([*carried, ('lang', language or self.language)])}"

    # — Answers —

    def page(
        self,
        template: str,
        *,
        status: int = 200,
        mailing_list: MailingList | None = None,
        **values: object,
    ) -> Response:
        languages = [(code, NAMES[code], self.same_page(code)) for code in LANGUAGES]
        return self.visit.page(
            f"public/{template}",
            status=status,
            reader=self,
            _=self.gettext,
            language=self.language,
            languages=[] if self.sends else languages,
            mailing_list=mailing_list,
            style_url=style_url,
            logo_url=logo_url,
            **values,
        )

    def says(
        self,
        title: str,
        *paragraphs: str,
        status: int = 200,
        mailing_list: MailingList | None = None,
        small: str = "",
        action: tuple[str, str] | None = None,
    ) -> Response:
        """A page that tells something; `action` is a link, with its text first."""
        return self.page(
            "message.html",
            status=status,
            mailing_list=mailing_list,
            title=title,
            paragraphs=paragraphs,
            small=small,
            action=action,
        )


PublicEndpoint = Callable[[Reader], Awaitable[Response]]


def for_readers(endpoint: PublicEndpoint) -> Endpoint:
    """The endpoint, in the visitor's language; whatever goes wrong becomes a friendly page."""

    @functools.wraps(endpoint)
    async def answer(visit: Visit) -> Response:
        reader = Reader(visit, FormData())
        try:
            if reader.sends:
                form = await read_form(visit.request, max_files=0, max_fields=_MOST_FIELDS)
                reader = Reader(visit, form)
            response = await endpoint(reader)
        except HTTPException as exc:
            response = _unreadable(reader, exc.status_code)
        except PostroomError as exc:
            response = _failed(reader, exc)
        response.headers["Vary"] = "Accept-Language"
        response.headers["Content-Language"] = reader.language
        return response

    return answer


def _unreadable(reader: Reader, status: int) -> Response:
    _ = reader.gettext
    return reader.says(
        _("That did not work"),
        _("What your browser sent cannot be read. Nothing was changed."),
        status=status,
    )


def _failed(reader: Reader, error: PostroomError) -> Response:
    _ = reader.gettext
    if not isinstance(error, DomainError | StoreOutage):
        log.error("a public page failed: %s", error)
    return reader.says(
        _("Not right now"),
        _("Something does not work here at the moment. Please try again in a few minutes."),
        status=503,
    )


def _each_once(values: list[str]) -> list[str]:
    return list(dict.fromkeys(value.strip() for value in values if value.strip()))[:_MOST_LISTS]


def shown(text: str) -> str:
    """What somebody sent, so that it can stand in a page."""
    return _UNPRINTABLE.sub("", text)
