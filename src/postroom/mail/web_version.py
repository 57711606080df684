"""A message as a web page shows it: without any subscriber's data.

Merge fields take their defaults, and conditions are those of someone whose fields are all empty.
Links that belong to a subscriber lead to the sign-up page of the list, and there is no footer with
an unsubscribe link.
"""

from __future__ import annotations

import html as html_
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

from postroom.domain.errors import Invalid
from postroom.mail.bodies.documents import framed, is_document
from postroom.mail.bodies.hostile_content import without_hostile_content
from postroom.mail.personal.content_conditions import holds_without_values, resolved
from postroom.mail.personal.field_contexts import FieldPlace, html_places, text_places
from postroom.mail.personal.merge_fields import FIELD, MergeField, unquoted

_OF_THE_LIST: Final = frozenset(
    {"list_description", "web_url", "unsubscribe_url", "preferences_url"}
)
"""Merge fields that have a value without a subscriber."""

# Without positions: the bodies are compiled, and the author knows their source only.
_PLACES: Final = {"subject": "the subject", "preheader": "the preheader"}
_URL: Final = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?)\]}']")


class WebValues(msgspec.Struct, frozen=True):
    """What stands for the merge fields that have a value without a subscriber."""

    list_description: str
    web_url: str
    signup_url: str

    def of(self, field: MergeField) -> str:
        match field.name:
            case "list_description":
                return self.list_description
            case "web_url":
                return self.web_url
            case "unsubscribe_url" | "preferences_url":
                return self.signup_url
        return field.default or ""


def check_publishable(texts: Mapping[str, str | None]) -> None:
    """Raise `Invalid` if a merge field would be empty without a subscriber. The texts are those of
    `subject`, `preheader`, `html` and `text`."""
    for name, text in texts.items():
        for field in _fields(text or ""):
            if field.name not in _OF_THE_LIST and field.default is None:
                raise Invalid(
                    "published",
                    "needs a default for each merge field: write"
                    f' {{{{ {field.name} | default: "…" }}}}'
                    f" in {_PLACES.get(name, 'the message')}",
                )


def web_line(text: str, values: WebValues) -> str:
    """Return a subject or preheader as a page shows it."""
    text = _for_nobody(text, in_html=False)
    return _joined(text, [(each, values.of(each)) for each in _fields(text)])


def web_document(
    html: str | None, text: str | None, values: WebValues, *, title: str, language: str
) -> str:
    """Return the document of a message, whole. Its HTML may be hostile: serve it sandboxed."""
    if not html:
        lines = _linked(_filled(text or "", values, in_html=False))
        content = f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{lines}</div>'
        return framed(content, language=language, title=title)
    own_host = urlsplit(values.web_url).hostname or ""
    body = _filled(without_hostile_content(html, own_host), values, in_html=True)
    return body if is_document(body) else framed(body, language=language, title=title)


def _for_nobody(text: str, *, in_html: bool) -> str:
    try:
        return resolved(text, holds_without_values, in_html=in_html)
    except Invalid:  # sent before markers had a meaning
        return text


def _filled(text: str, values: WebValues, *, in_html: bool) -> str:
    text = _for_nobody(text, in_html=in_html)
    fields = _fields(text)
    places = html_places(text, fields) if in_html else text_places(text, fields)
    return _joined(
        text,
        [
            (field, _escaped(values.of(field), field, place, in_html=in_html))
            for field, place in zip(fields, places, strict=True)
        ],
    )


def _escaped(value: str, field: MergeField, place: FieldPlace, *, in_html: bool) -> str:
    if place is FieldPlace.LINK_START and field.name not in _OF_THE_LIST:
        return quote(value, safe="")  # no default becomes a `javascript:` link
    if place in (FieldPlace.TEXT, FieldPlace.LINK_START):
        return html_.escape(value) if in_html else value
    return quote(value, safe="")


def _fields(text: str) -> list[MergeField]:
    return [
        MergeField(
            found[1], None if found[2] is None else unquoted(found[2]), found.start(), found.end()
        )
        for found in FIELD.finditer(text)
    ]


def _joined(text: str, values: list[tuple[MergeField, str]]) -> str:
    pieces: list[str] = []
    done = 0
    for field, value in values:
        pieces += [text[done : field.start], value]
        done = field.end
    return "".join([*pieces, text[done:]])


def _linked(text: str) -> str:
    """Return text as HTML, with links."""
    pieces: list[str] = []
    done = 0
    for found in _URL.finditer(text):
        url = html_.escape(found[0])
        pieces += [html_.escape(text[done : found.start()]), f'<a href="{url}">{url}</a>']
        done = found.end()
    return "".join([*pieces, html_.escape(text[done:])])
