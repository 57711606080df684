"""Merge fields and the markers of conditions on their way through parsers that would mangle them.

`[x]({{ unsubscribe_url }})` is not a link in Markdown, and quotes in a default would end an
attribute. So every field is a single word while a source is compiled. A marker is a word, too;
where only blocks are allowed, it is a comment with that word.
"""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from postroom.mail.personal.content_conditions import (
    Marker,
    MarkerKind,
    find_markers,
    written_marker,
)
from postroom.mail.personal.merge_fields import (
    ANY_FIELD,
    FieldRule,
    MergeField,
    compared_types,
    find_fields,
)


class HiddenText(msgspec.Struct, frozen=True):
    """A text with words in place of its merge fields."""

    text: str
    ends: Sequence[tuple[int, int]] = ()
    """Where each word ends, in this text and in the original one."""

    def original_index(self, at: int) -> int:
        """Return the index in the original text of an index in this one."""
        shift = 0
        for hidden, original in self.ends:
            if at < hidden:
                break
            shift = original - hidden
        return at + shift


class HiddenFields:
    """Hides the merge fields of one or several texts, and shows them again in the result."""

    def __init__(self, rules: Mapping[str, FieldRule] = ANY_FIELD) -> None:
        self._rules = rules
        self._prefix = f"field{secrets.token_hex(6)}n"  # cannot occur by chance
        self._pattern = re.compile(rf"(?:<!--)?{self._prefix}(\d+)z(?:-->)?", re.IGNORECASE)
        self._line = re.compile(rf"^[ \t]*({self._prefix}(\d+)z)[ \t]*$", re.MULTILINE)
        self._fields: Final[list[MergeField | Marker]] = []

    def hide(self, text: str) -> HiddenText:
        """Replace the merge fields by words. `Invalid` for a field that is refused."""
        pieces: list[str] = []
        ends: list[tuple[int, int]] = []
        done = length = 0
        for found in sorted(self._find(text), key=lambda each: each.start):
            word = f"{self._prefix}{len(self._fields)}z"
            self._fields.append(found)
            pieces += [text[done : found.start], word]
            length += found.start - done + len(word)
            ends.append((length, found.end))
            done = found.end
        return HiddenText("".join([*pieces, text[done:]]), ends)

    def _find(self, text: str) -> Iterable[MergeField | Marker]:
        yield from find_fields("body", text, self._rules)
        yield from find_markers("body", text, compared_types(self._rules))

    def marker_lines(self, hidden: str) -> str:
        """Return a hidden text in which each marker that is alone on its line is a comment, which
        ends a paragraph or a list of Markdown."""
        return self._line.sub(self._as_comment, hidden)

    def uncommented(self, document: str) -> str:
        """Return a document in which all markers are words."""
        return self._pattern.sub(lambda found: f"{self._prefix}{found[1]}z", document)

    def condition_begun(self, comment: str) -> str | None:
        """Return the condition of what follows a comment with a marker: "" for none, and None if it
        is another comment."""
        marker = self.marker_in(comment)
        if marker is None:
            return None
        match marker.kind:
            case MarkerKind.IF:
                return marker.condition
            case MarkerKind.ELSE:
                return f"not ({marker.condition})"
            case MarkerKind.END:
                return ""

    def marker_in(self, hidden: str) -> Marker | None:
        """Return the marker that a hidden text consists of, if it is one."""
        found = self._pattern.fullmatch(hidden.strip())
        marker = self._fields[int(found[1])] if found else None
        return marker if isinstance(marker, Marker) else None

    def markers_in(self, hidden: str) -> list[tuple[int, str]]:
        """Return the markers that a hidden text consists of, with their places; none if it has
        anything else than spaces between them."""
        found = list(self._pattern.finditer(hidden))
        if self._pattern.sub("", hidden).strip() or None in [self.marker_in(e[0]) for e in found]:
            return []
        return [(each.start(), each[0]) for each in found]

    def _as_comment(self, found: re.Match[str]) -> str:
        is_marker = isinstance(self._fields[int(found[2])], Marker)
        return f"<!--{found[1]}-->" if is_marker else found[0]

    def show(self, document: str) -> str:
        """Return HTML or MJML with the fields in place of their words."""
        return self._pattern.sub(lambda found: self._written(int(found[1])), document)

    def show_in_text(self, text: str) -> str:
        """Return plain text with the fields in place of their words."""
        return self._pattern.sub(lambda found: html.unescape(self._written(int(found[1]))), text)

    def _written(self, number: int) -> str:
        field = self._fields[number]
        if isinstance(field, Marker):
            return written_marker(field)
        if field.default is None:
            return f"{{{{ {field.name} }}}}"
        return f"{{{{ {field.name} | default: &quot;{html.escape(field.default)}&quot; }}}}"
