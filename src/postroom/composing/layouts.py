"""Templates: designs with named slots, into which a message's content is put.

A template is MJML or HTML. It may contain:

| | |
|---|---|
| `{% slot content %}` | the message itself; in MJML directly in `<mj-body>` or `<mj-wrapper>` |
| `{% slot title %}`, `{% slot title \\| default: "News" %}` | a line that the message provides |
| `{% brand colour %}` | a value of the list's brand: see `brand.py` |
| `{% footer %}` | links, postal address and the unsubscribe link, in MJML |
| `when="slot picture"`, `when="brand logo_url"` | on a tag of MJML, left out if that is empty |
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from postroom.composing.brand import EmailBrand, brand_values
from postroom.composing.content_findings import Findings
from postroom.composing.mjml.tree import CONTENT_TAG, Node

CONTENT: Final = "content"
_INSERTED: Final = re.compile(
    r"\{%[ \t]*+(?:(slot|brand)[ \t]++([a-z][a-z0-9_]*+)"
    r"(?:[ \t]*+\|[ \t]*+default[ \t]*+:[ \t]*+\"([^\"\r\n]*+)\")?|(footer))[ \t]*+%\}"
)
_WHEN: Final = re.compile(r"(slot|brand)[ \t]+([a-z][a-z0-9_]*)")


class LayoutFormat(StrEnum):
    MJML = "mjml"
    HTML = "html"


class Layout(msgspec.Struct, frozen=True):
    """The source of a template."""

    source: str
    format: LayoutFormat = LayoutFormat.MJML

    @property
    def has_footer(self) -> bool:
        return any(found[4] for found in _INSERTED.finditer(self.source))


class SlotUse(msgspec.Struct, frozen=True):
    """A slot that a template has, in addition to its content."""

    name: str
    is_required: bool = True
    default: str = ""


@cache
def partial(name: str) -> str:
    """Return a file of this package: a part of built-in templates, or one of them."""
    folder = resources.files("postroom.composing") / "templates"
    return (folder / f"{name}.mjml").read_text(encoding="utf-8")


def slots_of(layout: Layout) -> list[SlotUse]:
    """Return the slots, required ones first. One with a default, or in a tag that is
    left out without it, is optional."""
    guarded = {
        name for kind, name in _WHEN.findall(" ".join(_conditions(layout.source))) if kind == "slot"
    }
    slots: dict[str, SlotUse] = {}
    for found in _INSERTED.finditer(layout.source):
        if found[1] == "slot" and found[2] != CONTENT:
            is_required = found[3] is None and found[2] not in guarded
            slots.setdefault(found[2], SlotUse(found[2], is_required, found[3] or ""))
    return sorted(slots.values(), key=lambda slot: not slot.is_required)


def _conditions(source: str) -> list[str]:
    return re.findall(r"\swhen=[\"']([^\"']*)[\"']", source)


class Filling:
    """Puts slots and brand into templates."""

    def __init__(self, brand: EmailBrand, slots: Mapping[str, str], content: str = "") -> None:
        self._brand = brand_values(brand)
        self._slots = slots
        self._content = content or f"<{CONTENT_TAG} />"

    def fill(self, source: str, findings: Findings) -> str:
        """Return the source with its values, escaped; unknown ones are findings."""

        def value(found: re.Match[str]) -> str:
            kind, name, default = found[1], found[2], found[3]
            if found[4]:
                return self.fill(partial("footer"), findings)
            if kind == "brand":
                if name not in self._brand:
                    known = ", ".join(self._brand)
                    findings.error(
                        "brand", f"there is no {name!r} in a brand, only {known}", found.start()
                    )
                return self._brand.get(name, "")
            if name == CONTENT:
                return self._content
            return html.escape(self._slots.get(name) or default or "")

        return _INSERTED.sub(value, source)

    def drop_empty(self, node: Node, findings: Findings) -> None:
        """Remove tags whose condition does not hold."""
        kept: list[Node] = []
        for child in node.children:
            condition = child.attributes.pop("when", None)
            if condition is None or self._holds(condition, child, findings):
                self.drop_empty(child, findings)
                kept.append(child)
        node.children = kept

    def _holds(self, condition: str, node: Node, findings: Findings) -> bool:
        found = _WHEN.fullmatch(condition.strip())
        if found is None:
            findings.error(
                "condition",
                f'when must look like "slot picture" or "brand logo_url", not {condition!r}',
                node.start,
            )
            return True
        values = self._slots if found[1] == "slot" else self._brand
        return bool(values.get(found[2], "").strip())


def masked(layout: Layout, brand: EmailBrand, findings: Findings) -> str:
    """Return the source of a template with letters for what would be inserted, so that positions
    stay; unknown values of the brand, and a content in a wrong place or missing, are findings."""
    values = brand_values(brand)
    contents = 0

    def mask(found: re.Match[str]) -> str:
        nonlocal contents
        if found[1] == "brand" and found[2] not in values:
            known = ", ".join(values)
            findings.error(
                "brand", f"there is no {found[2]!r} in a brand, only {known}", found.start()
            )
        if found[1] == "slot" and found[2] == CONTENT:
            contents += 1
            tag = f"<{CONTENT_TAG}"
            return f"{tag}{' ' * (len(found[0]) - len(tag) - 2)}/>"
        if found[4]:
            return " " * len(found[0])
        return "x" * len(found[0])

    source = _INSERTED.sub(mask, layout.source)
    if contents != 1:
        findings.error(
            "content", f"a template needs {{% slot content %}} once, not {contents} times", 0
        )
    return source


def check_slots(layout: Layout, slots: Mapping[str, str], findings: Findings) -> None:
    """Find required slots that the message leaves empty, and slots that the template lacks."""
    wanted = slots_of(layout)
    for slot in wanted:
        if slot.is_required and not slots.get(slot.name, "").strip():
            findings.error("slot-missing", f"the template needs {slot.name!r}", 0)
    known = {slot.name for slot in wanted}
    for name in slots:
        if name not in known:
            shown = ", ".join(sorted(known)) or "none"
            findings.warn("slot-unknown", f"the template has no slot {name!r}: it has {shown}", 0)


_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_ENTRY: Final = re.compile(r"([a-z][a-z0-9_]*)[ \t]*:[ \t]*(.*)")


def split_front_matter(source: str, findings: Findings) -> tuple[dict[str, str], int]:
    """Return the slots that a source begins with, and where its content begins:

    ---
    title: What is new in November
    ---
    """
    found = _FRONT_MATTER.match(source)
    if found is None:
        return {}, 0
    slots: dict[str, str] = {}
    at = found.start(1)
    for line in (found[1] or "").splitlines(keepends=True):
        entry = _ENTRY.fullmatch(line.strip())
        if entry:
            slots[entry[1]] = entry[2]
        elif line.strip():
            findings.error("front-matter", "a line between --- must look like name: value", at)
        at += len(line)
    return slots, found.end()
