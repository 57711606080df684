"""Where in a document a merge field stands, which decides how its value is escaped.

| place | value |
|---|---|
| text, or a quoted attribute | HTML-escaped |
| within a link, such as `href="https://example.com/?for={{ email }}"` | percent-encoded |
| the whole of a link, such as `href="{{ unsubscribe_url }}"` | a link as it is, HTML-escaped |

In all other places (scripts, styles, attributes without quotes) a value could become a part of the
program around it. `check_places` refuses such fields when a message is saved; a message that was
saved before there was this check gets percent-encoded values there, which are harmless everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from postroom.domain.errors import Invalid
from postroom.mail.html import ATTRIBUTE, HtmlText, tokens
from postroom.mail.merge_fields import RULES, FieldRule, MergeField, find_fields, position_of

_URL_ATTRIBUTES: Final = frozenset(
    {"action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster"}
    | {"src", "srcset", "xlink:href"}
)
_URL_IN_TEXT: Final = re.compile(r"\b(?:https?://|mailto:)[^\s<>\"]*\Z", re.IGNORECASE)
_LINK_END: Final = re.compile(r"[\s<>\"]")
_LONGEST_URL: Final = 2000
_CODE: Final = re.compile(r"<(script|style)\b|</(script|style)\b", re.IGNORECASE)


class Place(Enum):
    TEXT = auto()
    """Text, or a quoted attribute other than a link."""
    LINK_START = auto()
    IN_LINK = auto()
    UNSAFE = auto()


def html_places(document: str, fields: Sequence[MergeField]) -> list[Place]:
    """Return the place of each field."""
    if not fields:
        return []
    masked = _masked(document, fields)
    places: list[Place] = []
    starts = [field.start for field in fields]
    done = 0
    for token in tokens(masked):
        while len(places) < len(starts) and (at := starts[len(places)]) < token.end:
            if at < token.start:  # between tokens
                places.append(_hidden_place(masked, done, at))
            elif isinstance(token, HtmlText):
                places.append(Place.TEXT)
            else:
                begin = token.end - len(token.raw)
                places.append(_place_in_tag(token.raw, at - begin))
        if len(places) == len(starts):
            return places
        done = token.end
    return places + [_hidden_place(masked, done, at) for at in starts[len(places) :]]


def text_places(text: str, fields: Sequence[MergeField]) -> list[Place]:
    """Return the place of each field in a plain text, where links are not marked as such."""
    places: list[Place] = []
    done = 0
    for field in fields:
        before = text[done : field.start]
        goes_on = bool(places) and places[-1] is Place.IN_LINK and not _LINK_END.search(before)
        in_link = goes_on or _URL_IN_TEXT.search(before[-_LONGEST_URL:])
        places.append(Place.IN_LINK if in_link else Place.TEXT)
        done = field.end
    return places


def check_places(document: str, rules: Mapping[str, FieldRule] = RULES) -> None:
    """Raise `Invalid` if a merge field of an HTML body stands where its value would be unsafe."""
    fields = list(find_fields("html", document, rules))
    for field, place in zip(fields, html_places(document, fields), strict=True):
        if place is Place.UNSAFE:
            raise Invalid(
                "html",
                f"{position_of(document, field.start)}: {{{{ {field.name} }}}} cannot be used in a"
                " script, a style or an attribute without quotes",
            )


def _masked(document: str, fields: Sequence[MergeField]) -> str:
    """Return the document with letters in place of the fields, whose quotes belong to no tag."""
    pieces: list[str] = []
    done = 0
    for field in fields:
        pieces += [document[done : field.start], "x" * (field.end - field.start)]
        done = field.end
    return "".join([*pieces, document[done:]])


def _place_in_tag(raw: str, at: int) -> Place:
    for found in ATTRIBUTE.finditer(raw):
        if not found.start() <= at < found.end():
            continue
        quoted = 2 if found[2] is not None else 3
        is_link = found[1].lower() in _URL_ATTRIBUTES
        if is_link and found[4] is not None and found.start(4) == at:
            return Place.LINK_START  # our own links need no quotes
        if found[quoted] is None or at < found.start(quoted):
            return Place.UNSAFE
        if is_link:
            is_first = not raw[found.start(quoted) : at].strip()
            return Place.LINK_START if is_first else Place.IN_LINK
        name = found[1].lower()
        return Place.UNSAFE if name == "style" or name.startswith("on") else Place.TEXT
    return Place.UNSAFE


def _hidden_place(masked: str, begin: int, at: int) -> Place:
    """Return the place of a field that no reader sees: in a script or style, or in a comment or a
    title, where it is harmless."""
    last = None
    for found in _CODE.finditer(masked, begin, at):
        last = found
    return Place.UNSAFE if last is not None and last[1] else Place.TEXT


def fields_with_places(
    field: str, text: str, rules: Mapping[str, FieldRule], *, in_html: bool
) -> Iterator[tuple[MergeField, Place]]:
    """Yield the fields of a body with their places. `Invalid`."""
    fields = list(find_fields(field, text, rules))
    places = html_places(text, fields) if in_html else text_places(text, fields)
    return zip(fields, places, strict=True)
