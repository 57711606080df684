"""The languages that Postroom speaks to subscribers."""

from __future__ import annotations

import re
from typing import Final

from postroom.domain.errors import Invalid
from postroom.domain.plain_text import printable

LANGUAGES: Final = ("en", "fr", "de", "ko", "ru")

ENGLISH_NAMES: Final = {
    "en": "English",
    "fr": "French",
    "de": "German",
    "ko": "Korean",
    "ru": "Russian",
}
"""What the team's pages call them."""

_TAG = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,4}", re.ASCII)


def known_language(tag: str) -> str:
    """Return the language of a tag such as `fr-CA`, or an empty text if it is not one of ours."""
    primary = re.split("[-_]", tag.strip()[:50], maxsplit=1)[0].lower()
    return primary if primary in LANGUAGES else ""


def parse_list_language(code: str, field: str = "language") -> str:
    """Return the code of one of our languages; `Invalid` for any other."""
    if code not in LANGUAGES:
        given = printable(str(code), longest=40)
        raise Invalid(field, f"must be one of {', '.join(LANGUAGES)}, not {given!r}")
    return code


def parse_language(tag: str, field: str = "language") -> str:
    """Return the language as `known_language` does. `Invalid` for what is not a language tag."""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise Invalid(field, f"must be a language such as {', '.join(LANGUAGES)} or fr-CA")
    return known_language(tag)
