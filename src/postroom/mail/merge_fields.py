"""Merge fields: `{{ email }}`, `{{ unsubscribe_url }}` and `{{ list_description }}`.

Spaces inside the braces are optional. Anything else that begins with `{{` is refused when a message
is saved, or subscribers would see it in the email. To show two braces, HTML uses `&#123;&#123;`.

A subject may contain `{{ email }}` and `{{ list_description }}`, but no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from postroom.domain.errors import Invalid


class Field(StrEnum):
    EMAIL = "email"
    UNSUBSCRIBE_URL = "unsubscribe_url"
    LIST_DESCRIPTION = "list_description"


IN_BODY: Final = frozenset(Field)
IN_SUBJECT: Final = frozenset({Field.EMAIL, Field.LIST_DESCRIPTION})

FIELD: Final = re.compile(r"\{\{[ \t]*(email|unsubscribe_url|list_description)[ \t]*\}\}")
_LOOKS_LIKE_ONE = re.compile(r"\{\{(?:([^{}\r\n]{0,100})(\}\})?)?")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LONGEST_SHOWN = 40


def check_fields(field: str, text: str) -> None:
    """Raise `Invalid` for the first merge field that is unknown, malformed or not allowed in this
    field (`subject` allows fewer)."""
    for _ in split_fields(field, text):
        pass


def split_fields(field: str, text: str) -> Iterator[str | Field]:
    """Yield static text and merge fields in order."""
    allowed = IN_SUBJECT if field == "subject" else IN_BODY
    done = 0
    while (start := text.find("{{", done)) >= 0:
        found = FIELD.match(text, start)
        if found is None or Field(found[1]) not in allowed:
            raise Invalid(field, _problem(text, start, allowed))
        if start > done:
            yield text[done:start]
        yield Field(found[1])
        done = found.end()
    if done < len(text):
        yield text[done:]


def _problem(text: str, start: int, allowed: frozenset[Field]) -> str:
    line = 1 + len(_LINE_END.findall(text, 0, start))
    found = _LOOKS_LIKE_ONE.match(text, start)
    name, closed = (found[1] or "", found[2]) if found else ("", None)
    shown = _shown(name)
    if closed is None:
        return f"line {line}: the merge field '{{{{ {shown}' is not closed with '}}}}'"
    known = ", ".join(f"{{{{ {each} }}}}" for each in Field if each in allowed)
    return f"line {line}: there is no merge field {{{{ {shown} }}}} here, only {known}"


def _shown(name: str) -> str:
    """Return what the author wrote, on one line and shortened."""
    words = "".join(each if each.isprintable() else " " for each in name).split()
    short = " ".join(words)
    return short if len(short) <= _LONGEST_SHOWN else f"{short[:_LONGEST_SHOWN]}…"
