"""Which language a visitor is spoken to in, and what our texts are in it.

The texts in the code are the English ones. Those of the other languages are gettext catalogues in
`web/locales`; `make translations` brings them up to date.
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

# Nobody reads more languages, and nobody has to parse more than this for a stranger.
_MOST_TAGS = 30
_LONGEST_HEADER = 1000


class Texts:
    """Our texts in one language. `_` is the name by which catalogues find them."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._catalogue = _catalogue(language)

    def __call__(self, message: str, **values: str) -> str:
        """The message in this language, with the values put in: plain text, not HTML.

        A value that ends with a full stop (`e. V.`) at the end of a sentence needs no other.
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
    """Return the language asked for (`lang=`), or the first that the browser likes and we speak;
    nothing where neither is known."""
    asked = known_language(form_choice) or known_language(request.query_params.get("lang", ""))
    return asked or preferred(request.headers.get("accept-language", ""))


def preferred(header: str) -> str:
    """Return the best of `Accept-Language` (RFC 9110 12.5.4) that we speak, or nothing."""
    wishes = [_wish(part) for part in header[:_LONGEST_HEADER].split(",")[:_MOST_TAGS]]
    for weight, tag in sorted(wishes, key=lambda wish: -wish[0]):
        language = known_language(tag)
        if weight > 0 and language:
            return language
    return ""


def _wish(part: str) -> tuple[float, str]:
    tag, _, parameter = part.partition(";")
    name, _, value = parameter.partition("=")
    if name.strip().lower() != "q":
        return 1.0, tag
    try:
        weight = float(value)
    except ValueError:
        return 0.0, tag
    return weight if 0 <= weight <= 1 else 0.0, tag
