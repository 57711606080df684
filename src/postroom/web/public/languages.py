"""Which language a visitor gets."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from postroom.domain.languages import known_language

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
