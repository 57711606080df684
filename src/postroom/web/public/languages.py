"""The visitor's language, and the texts of public pages in it.

Texts in the code are English. The other languages are gettext catalogues in `web/locales`;
`make translations` updates them.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request

from postroom.domain.languages import LANGUAGES, known_language

LOCALES: Final = Path(__file__).parent.parent / "locales"
DOMAIN: Final = "messages"
NAMES: Final = {
    "en": "English",
    "fr": "Français",
    "de": "Deutsch",
    "ko": "한국어",
    "ru": "Русский",
}

# Limits how much of a header is parsed.
_MOST_TAGS = 30
_LONGEST_HEADER = 1000


class Texts:
    """The texts in one language. Call it as `_`, so that `make translations` finds them."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._catalogue = _catalogue(language)

    def __call__(self, message: str, **values: str) -> str:
        """Return the message in this language with the values filled in: plain text, not HTML.

        A value that ends with a full stop (`e. V.`) at the end of a sentence gets no second one.
        """
        text = self._catalogue.gettext(message)
        for name, value in values.items():
            if value.endswith("."):
                text = text.replace(f"%({name})s.", f"%({name})s")
        return text % values if values else text


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == LANGUAGES[0]:
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, LOCALES, [language])


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
