"""Texts for subscribers in their language, on web pages and in emails.

The texts in the code are English. Those of the other languages are gettext catalogues in `locales`;
`make translations` updates them.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path
from typing import Final

from postroom.domain.languages import LANGUAGES, known_language

LOCALES: Final = Path(__file__).parent / "locales"
DOMAIN: Final = "messages"


class Translator:
    """Translates into one language, such as `fr` or `fr-CA`; unknown ones are English. Variables
    that hold it are called `_`, by which catalogues find the texts."""

    def __init__(self, language: str) -> None:
        self.language = known_language(language) or LANGUAGES[0]
        self._catalogue = _catalogue(self.language)

    def __call__(self, message: str, **values: str) -> str:
        """Return the message in this language with the values inserted: plain text, not HTML.

        The full stop after a value that ends with one (`e. V.`) is dropped.
        """
        return self.filled(self._catalogue.gettext(message), **values)

    def filled(self, text: str, **values: str) -> str:
        """Return a translated text with the values inserted, as a call does."""
        for name, value in values.items():
            if value.endswith("."):
                text = text.replace(f"%({name})s.", f"%({name})s")
        return text % values if values else text


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == LANGUAGES[0]:
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, LOCALES, [language])
