"""Conditions in messages: `{% if city = "Berlin" %} … {% else %} … {% end %}`.

The rule is one of the rule language of segments. `{% else %}` and its part are optional, and
conditions do not nest: a rule can say `and`, `or` and `not` instead. A condition selects the same
subscribers as a segment with its rule. It is evaluated once for each recipient when the recipients
are planned.

Without a subscriber, on the web for instance, every field counts as empty.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.rules import (
    Rule,
    RuleError,
    check_rule,
    compile_rule,
    fields_of,
    parse_rule,
    text_of,
    with_field_renamed,
)
from postroom.domain.audience.rules.evaluating import Row, Selects
from postroom.domain.errors import Invalid
from postroom.mail.personal.positions import position_of

HOLDS: Final = "1"
"""The value of a condition that holds for a recipient; otherwise it is empty."""

MOST_CONDITIONS: Final = 50
LONGEST_RULE: Final = 2000
_LONGEST_IN_TOTAL: Final = 20_000  # characters: they are one property of the message's row

MARKER: Final = re.compile(r"\{%[ \t\xa0]*+(?:if|else|end)(?![A-Za-z0-9_])[^{}]*+(?<=%)\}")
"""A marker, right or wrong."""

_LOOKS_LIKE_ONE: Final = re.compile(
    r"\{%(-?)[ \t\xa0]*+(if|elif|elsif|elseif|else|endif|end)(?![A-Za-z0-9_])([^{}]*+)"
)
_ENTITY: Final = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});|.", re.DOTALL)
_AS_TYPED: Final = str.maketrans("“”„\xa0", '""" ')
_POSITION: Final = re.compile(r"line \d+, column \d+: ")
_BLANK_LINE: Final = re.compile(r"[ \t]*\n")
_LONGEST_SHOWN: Final = 60


class MarkerKind(StrEnum):
    IF = "if"
    ELSE = "else"
    END = "end"


class Marker(msgspec.Struct, frozen=True, gc=False):
    """A marker with its place in the text, and the rule of its condition in its usual spelling."""

    kind: MarkerKind
    condition: str
    start: int
    end: int


def find_markers(
    field: str, text: str, types: Mapping[str, FieldType] | None = None
) -> list[Marker]:
    """Return the markers in order. `Invalid` for the first that is malformed, unbalanced or nested,
    or whose rule is wrong. `types` are those of the fields that rules may name; None accepts any.
    """
    markers: list[Marker] = []
    opened: Marker | None = None
    for found in _LOOKS_LIKE_ONE.finditer(text) if "{%" in text else ():
        marker = _marker(field, text, found, opened, types)
        problem = _imbalance(marker, opened, markers)
        if problem:
            raise Invalid(field, f"{position_of(text, marker.start)}: {problem}")
        opened = None if marker.kind is MarkerKind.END else opened or marker
        markers.append(marker)
    if opened is not None:
        where = position_of(text, opened.start)
        raise Invalid(field, f"{where}: {shown_marker(opened)} has no {{% end %}}")
    return markers


def conditions_in(*texts: str | None) -> tuple[str, ...]:
    """Return the rules of all conditions in some texts, each once. `Invalid`."""
    found = dict.fromkeys(
        marker.condition for text in texts if text for marker in find_markers("html", text)
    )
    if len(found) > MOST_CONDITIONS:
        problem = f"must have at most {MOST_CONDITIONS} different conditions, not {len(found)}"
        raise Invalid("html", problem)
    if (length := sum(map(len, found))) > _LONGEST_IN_TOTAL:
        problem = f"must have at most {_LONGEST_IN_TOTAL:,} characters in all conditions"
        raise Invalid("html", f"{problem}, not {length:,}")
    return tuple(found)


def compared_fields(conditions: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the fields that conditions compare, each once."""
    return tuple(
        dict.fromkeys(name for each in conditions for name in sorted(fields_of(_rule(each))))
    )


def values_of(conditions: Sequence[str], row: Row, today: date) -> tuple[str, ...]:
    """Return for each condition whether it holds for a subscriber with these values."""
    return tuple(HOLDS if compile_rule(_rule(each), today)(row) else "" for each in conditions)


def check_conditions(conditions: Sequence[str], fields: Fields) -> None:
    """Raise `Invalid` if a list whose fields have changed rules out a condition."""
    for each in conditions:
        try:
            check_rule(_with_present_names(each, fields), fields.types)
        except RuleError as exc:
            problem = _POSITION.sub("", exc.problem)
            raise Invalid("html", f"its condition {each} no longer works: {problem}") from exc


def compiled_conditions(
    conditions: Sequence[str], fields: Fields, today: date
) -> tuple[Selects, ...]:
    """Return for each condition a function that says whether it holds for a subscriber."""
    return tuple(compile_rule(_with_present_names(each, fields), today) for each in conditions)


def _with_present_names(condition: str, fields: Fields) -> Rule:
    rule = _rule(condition)
    for field in fields.declared:
        if field.formerly:
            rule = with_field_renamed(rule, field.formerly, field.name)
    return rule


class ConditionalPart(msgspec.Struct, frozen=True, gc=False):
    """A part of a text: for everyone, or for recipients that meet a condition, or do not."""

    text: str
    condition: str | None = None
    is_else: bool = False

    def is_for(self, holds: Callable[[str], bool]) -> bool:
        return self.condition is None or holds(self.condition) is not self.is_else


def parts_of(text: str, *, in_html: bool) -> Iterator[ConditionalPart]:
    """Yield the parts of a text, without the markers between them. `Invalid`."""
    part, done = ConditionalPart(""), 0
    for marker in find_markers("html" if in_html else "text", text):
        start, end = (marker.start, marker.end) if in_html else line_span(text, marker)
        yield msgspec.structs.replace(part, text=text[done:start])
        done = end
        part = ConditionalPart("")
        if marker.kind is not MarkerKind.END:
            part = ConditionalPart("", marker.condition, is_else=marker.kind is MarkerKind.ELSE)
    yield msgspec.structs.replace(part, text=text[done:])


def resolved(text: str, holds: Callable[[str], bool], *, in_html: bool) -> str:
    """Return a text as read by recipients that meet these conditions. `Invalid`."""
    if "{%" not in text:
        return text
    return "".join(part.text for part in parts_of(text, in_html=in_html) if part.is_for(holds))


def for_everybody(text: str, *, in_html: bool) -> str:
    """Return only what every recipient reads. `Invalid`."""
    if "{%" not in text:
        return text
    parts = parts_of(text, in_html=in_html)
    return "".join(part.text for part in parts if part.condition is None)


def without_markers(text: str, *, in_html: bool) -> str:
    """Return all parts of a text together. `Invalid`."""
    if "{%" not in text:
        return text
    return "".join(part.text for part in parts_of(text, in_html=in_html))


def longer_branches(text: str) -> frozenset[str]:
    """Return the conditions that make an HTML text longer where they hold. `Invalid`."""
    gains: Counter[str] = Counter()
    for part in parts_of(text, in_html=True) if "{%" in text else ():
        if part.condition is not None:
            gains[part.condition] += -len(part.text) if part.is_else else len(part.text)
    return frozenset(condition for condition, gain in gains.items() if gain > 0)


def may_be_blank(text: str) -> bool:
    """Return whether some recipients would read nothing. `Invalid`."""
    if for_everybody(text, in_html=False).strip():
        return False
    said = {
        (part.condition, part.is_else)
        for part in parts_of(text, in_html=False)
        if part.text.strip()
    }
    return not any((condition, not is_else) in said for condition, is_else in said)


def holds_without_values(condition: str) -> bool:
    """Return whether a condition holds for someone without any values."""
    return bool(values_of([condition], {}, date.min)[0])


def line_span(text: str, marker: Marker) -> tuple[int, int]:
    """Return what a marker takes up in a plain text. One that is alone on its line takes up the
    line, and one that is a paragraph also the empty line after it, so that no gap is left."""
    start = text.rfind("\n", 0, marker.start) + 1
    line_end = _BLANK_LINE.match(text, marker.end)
    if text[start : marker.start].strip() or not line_end:
        return marker.start, marker.end
    is_paragraph = start == 0 or text.endswith("\n\n", 0, start)
    following = _BLANK_LINE.match(text, line_end.end()) if is_paragraph else None
    return start, (following or line_end).end()


def shown_marker(marker: Marker) -> str:
    """Return a marker as it is written, shortened."""
    if marker.kind is not MarkerKind.IF:
        return f"{{% {marker.kind} %}}"
    rule = marker.condition
    short = rule if len(rule) <= _LONGEST_SHOWN else f"{rule[:_LONGEST_SHOWN]}…"
    return f"{{% if {short} %}}"


def written_marker(marker: Marker) -> str:
    """Return a marker as it is written in HTML."""
    if marker.kind is not MarkerKind.IF:
        return f"{{% {marker.kind} %}}"
    return f"{{% if {html.escape(marker.condition)} %}}"


@lru_cache(256)
def _rule(text: str) -> Rule:
    return parse_rule(text)


def _marker(
    field: str,
    text: str,
    found: re.Match[str],
    opened: Marker | None,
    types: Mapping[str, FieldType] | None,
) -> Marker:
    """Read a marker. `Invalid`."""
    where = position_of(text, found.start())
    word, raw = found[2], found[3]
    if not raw.endswith("%") or not text.startswith("}", found.end()):
        raise Invalid(field, f"{where}: {{% {word} is not closed with '%}}'")
    if found[1]:
        raise Invalid(field, f"{where}: write {{% {word} … %}} without a dash")
    match word:
        case "endif":
            raise Invalid(field, f"{where}: write {{% end %}}, not {{% endif %}}")
        case "elif" | "elsif" | "elseif":
            advice = "end the condition and begin another one"
            raise Invalid(field, f"{where}: {{% {word} %}} is not supported: {advice}")
        case "if":
            condition = _condition(field, text, raw[:-1], found.start(3), types)
            return Marker(MarkerKind.IF, condition, found.start(), found.end() + 1)
    if extra := raw[:-1].strip():
        short = extra[:_LONGEST_SHOWN]
        raise Invalid(field, f"{where}: write {{% {word} %}} without {short!r}")
    condition = opened.condition if opened else ""
    return Marker(MarkerKind(word), condition, found.start(), found.end() + 1)


def _condition(
    field: str, text: str, raw: str, start: int, types: Mapping[str, FieldType] | None
) -> str:
    """Return the rule of a marker in its usual spelling. `Invalid` at its place in the message."""
    pieces = [(html.unescape(each[0]), start + each.start()) for each in _ENTITY.finditer(raw)]
    written = "".join(each for each, _ in pieces).translate(_AS_TYPED)
    places = [place for each, place in pieces for _ in each]
    if len(written) > LONGEST_RULE:
        problem = f"a condition must have at most {LONGEST_RULE:,} characters, not {len(written):,}"
        raise Invalid(field, f"{position_of(text, start)}: {problem}")
    try:
        rule = parse_rule(written)
        if types is not None:
            check_rule(rule, types)
    except RuleError as exc:
        lines = written.split("\n")
        index = sum(len(each) + 1 for each in lines[: exc.line - 1]) + exc.column - 1
        place = places[index] if index < len(places) else start + len(raw)
        raise Invalid(
            field, f"{position_of(text, place)}: {_POSITION.sub('', exc.problem)}"
        ) from exc
    return text_of(rule)


def _imbalance(marker: Marker, opened: Marker | None, before: list[Marker]) -> str:
    match marker.kind:
        case MarkerKind.IF if opened is not None:
            return (
                f"{shown_marker(marker)} is inside {shown_marker(opened)}: conditions cannot be"
                " nested; write one with and, or, not"
            )
        case MarkerKind.ELSE | MarkerKind.END if opened is None:
            return f"{shown_marker(marker)} has no {{% if … %}} before it"
        case MarkerKind.ELSE if before[-1].kind is MarkerKind.ELSE:
            return f"{shown_marker(opened or marker)} has two {{% else %}}"
    return ""
