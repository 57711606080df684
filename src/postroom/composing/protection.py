"""Merge fields on their way through parsers that would mangle them.

`[x]({{ unsubscribe_url }})` is no link in Markdown, and quotes in a default would end an attribute.
So every field is a single word while a source is compiled.
"""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from postroom.mail.merge_fields import ANY_FIELD, FieldRule, MergeField, find_fields


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
        self._prefix = f"field{secrets.token_hex(6)}n"  # nobody can write it by chance
        self._pattern = re.compile(rf"{self._prefix}(\d+)z", re.IGNORECASE)
        self._fields: Final[list[MergeField]] = []

    def hide(self, text: str) -> HiddenText:
        """Replace the merge fields by words. `Invalid` for a field that is refused."""
        pieces: list[str] = []
        ends: list[tuple[int, int]] = []
        done = length = 0
        for found in self._find(text):
            word = f"{self._prefix}{len(self._fields)}z"
            self._fields.append(found)
            pieces += [text[done : found.start], word]
            length += found.start - done + len(word)
            ends.append((length, found.end))
            done = found.end
        return HiddenText("".join([*pieces, text[done:]]), ends)

    def _find(self, text: str) -> Iterable[MergeField]:
        return find_fields("body", text, self._rules)

    def show(self, document: str) -> str:
        """Return HTML or MJML with the fields in place of their words."""
        return self._pattern.sub(lambda found: self._written(int(found[1])), document)

    def show_in_text(self, text: str) -> str:
        """Return plain text with the fields in place of their words."""
        return self._pattern.sub(lambda found: html.unescape(self._written(int(found[1]))), text)

    def _written(self, number: int) -> str:
        field = self._fields[number]
        if field.default is None:
            return f"{{{{ {field.name} }}}}"
        return f"{{{{ {field.name} | default: &quot;{html.escape(field.default)}&quot; }}}}"
