"""Where a merge field is in a document, which decides how its value is escaped.

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
from postroom.mail.bodies.html import ATTRIBUTE, HtmlTag, HtmlText, tokens
from postroom.mail.personal.content_conditions import MARKER, find_markers, shown_marker
from postroom.mail.personal.merge_fields import (
    FIELD,
    RULES,
    FieldRule,
    MergeField,
    find_fields,
)
from postroom.mail.personal.positions import position_of

_URL_ATTRIBUTES: Final = frozenset(
    {"action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster"}
    | {"src", "srcset", "xlink:href"}
)
_URL_IN_TEXT: Final = re.compile(r"\b(?:https?://|mailto:)[^\s<>\"]*\Z", re.IGNORECASE)
_LINK_END: Final = re.compile(r"[\s<>\"]")
_LONGEST_URL: Final = 2000
_CELLS: Final = frozenset({"td", "th", "caption"})
_TABLE_TAGS: Final = ("table", "mj-table", "tbody", "thead", "tfoot", "tr", "td", "th", "caption")
_CODE: Final = re.compile(r"<(script|style)\b|</(script|style)\b", re.IGNORECASE)


class FieldPlace(Enum):
    TEXT = auto()
    """Text, or a quoted attribute other than a link."""
    LINK_START = auto()
    IN_LINK = auto()
    UNSAFE = auto()


def html_places(document: str, fields: Sequence[MergeField]) -> list[FieldPlace]:
    """Return the place of each field."""
    if not fields:
        return []
    return list(_places(_masked(document, fields), [field.start for field in fields]))


def _places(masked: str, starts: Sequence[int], *, in_tags: bool = True) -> Iterator[FieldPlace]:
    """Yield the place of what begins at each of these. Without `in_tags`, no place in a tag is
    safe."""
    found = done = 0
    for token in tokens(masked):
        while found < len(starts) and (at := starts[found]) < token.end:
            found += 1
            if at < token.start:  # between tokens
                yield _hidden_place(masked, done, at)
            elif isinstance(token, HtmlText):
                yield FieldPlace.TEXT
            elif in_tags:
                yield _place_in_tag(token.raw, at - (token.end - len(token.raw)))
            else:
                yield FieldPlace.UNSAFE
        if found == len(starts):
            return
        done = token.end
    for at in starts[found:]:
        yield _hidden_place(masked, done, at)


def text_places(text: str, fields: Sequence[MergeField]) -> list[FieldPlace]:
    """Return the place of each field in a plain text, where links are not marked as such."""
    places: list[FieldPlace] = []
    done = 0
    for field in fields:
        before = text[done : field.start]
        goes_on = bool(places) and places[-1] is FieldPlace.IN_LINK and not _LINK_END.search(before)
        in_link = goes_on or _URL_IN_TEXT.search(before[-_LONGEST_URL:])
        places.append(FieldPlace.IN_LINK if in_link else FieldPlace.TEXT)
        done = field.end
    return places


def check_places(document: str, rules: Mapping[str, FieldRule] = RULES) -> None:
    """Raise `Invalid` if a merge field of an HTML body is where its value would be unsafe, or a
    condition where it cannot be evaluated."""
    fields = list(find_fields("html", document, rules))
    for field, place in zip(fields, html_places(document, fields), strict=True):
        if place is FieldPlace.UNSAFE:
            raise Invalid(
                "html",
                f"{position_of(document, field.start)}: {{{{ {field.name} }}}} cannot be used in a"
                " script, a style or an attribute without quotes",
            )
    check_marker_places(document)


def check_marker_places(document: str) -> None:
    """Raise `Invalid` if a condition of an HTML body is unbalanced, or within a tag, a script or a
    style."""
    markers = find_markers("html", document)
    masked = _masked(document, _written(document)) if markers else ""
    places = _places(masked, [marker.start for marker in markers], in_tags=False)
    for marker, place in zip(markers, places, strict=True):
        if place is FieldPlace.UNSAFE:
            raise Invalid(
                "html",
                f"{position_of(document, marker.start)}: {shown_marker(marker)} cannot be used in a"
                " tag, a script or a style: put it around the whole tag",
            )


def check_outside_rows(field: str, source: str) -> None:
    """Raise `Invalid` if a condition is between the cells of a table. Programs that tidy up
    HTML move text from there to the front of the table."""
    markers = find_markers(field, source)
    masked = _masked(source, ()) if markers else ""
    open_tables: list[bool] = []  # for each, whether a cell is open
    found = 0
    for token in tokens(masked, *_TABLE_TAGS):
        while found < len(markers) and markers[found].start < token.end:
            if open_tables and not open_tables[-1]:
                where = position_of(source, markers[found].start)
                problem = "is between the cells of a table: put it inside a cell, or around"
                raise Invalid(
                    field, f"{where}: {shown_marker(markers[found])} {problem} the whole table"
                )
            found += 1
        if not isinstance(token, HtmlTag):
            continue
        if token.name in ("table", "mj-table"):
            open_tables = open_tables[:-1] if token.closes else [*open_tables, False]
        elif open_tables:
            open_tables[-1] = token.name in _CELLS and not token.closes


def _written(document: str) -> list[MergeField]:
    return [
        MergeField(each[1], None, each.start(), each.end()) for each in FIELD.finditer(document)
    ]


def _masked(document: str, fields: Sequence[MergeField]) -> str:
    """Return the document with letters in place of the fields, whose quotes belong to no tag."""
    pieces: list[str] = []
    done = 0
    for field in fields:
        pieces += [document[done : field.start], "x" * (field.end - field.start)]
        done = field.end
    return MARKER.sub(lambda found: "x" * len(found[0]), "".join([*pieces, document[done:]]))


def _place_in_tag(raw: str, at: int) -> FieldPlace:
    for found in ATTRIBUTE.finditer(raw):
        if not found.start() <= at < found.end():
            continue
        quoted = 2 if found[2] is not None else 3
        is_link = found[1].lower() in _URL_ATTRIBUTES
        if is_link and found[4] is not None and found.start(4) == at:
            return FieldPlace.LINK_START  # our own links need no quotes
        if found[quoted] is None or at < found.start(quoted):
            return FieldPlace.UNSAFE
        if is_link:
            is_first = not raw[found.start(quoted) : at].strip()
            return FieldPlace.LINK_START if is_first else FieldPlace.IN_LINK
        name = found[1].lower()
        return FieldPlace.UNSAFE if name == "style" or name.startswith("on") else FieldPlace.TEXT
    return FieldPlace.UNSAFE


def _hidden_place(masked: str, begin: int, at: int) -> FieldPlace:
    """Return the place of a field that no reader sees: in a script or style, or in a comment or a
    title, where it is harmless."""
    last = None
    for found in _CODE.finditer(masked, begin, at):
        last = found
    return FieldPlace.UNSAFE if last is not None and last[1] else FieldPlace.TEXT


def fields_with_places(
    field: str, text: str, rules: Mapping[str, FieldRule], *, in_html: bool
) -> Iterator[tuple[MergeField, FieldPlace]]:
    """Yield the fields of a body with their places. `Invalid`."""
    fields = list(find_fields(field, text, rules))
    places = html_places(text, fields) if in_html else text_places(text, fields)
    return zip(fields, places, strict=True)
