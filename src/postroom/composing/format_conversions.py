"""From one format to another: Markdown to blocks, blocks to MJML, MJML to HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from postroom.composing.blocks.block_layout import to_sections
from postroom.composing.blocks.blocks import BlockDocument, parse_blocks, write_blocks
from postroom.composing.brand import EmailBrand
from postroom.composing.compiler import compile_source, layout_tree
from postroom.composing.content_findings import Findings
from postroom.composing.layouts import Filling, Layout, partial, split_front_matter
from postroom.composing.markdown import markdown_to_blocks
from postroom.composing.mjml import markup as mjml
from postroom.composing.mjml.tree import parse, written
from postroom.composing.protection import HiddenFields
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.personal.merge_fields import ANY_FIELD, RULES, FieldRule

NEXT: Final = {
    MessageFormat.MARKDOWN: MessageFormat.BLOCKS,
    MessageFormat.BLOCKS: MessageFormat.MJML,
    MessageFormat.MJML: MessageFormat.HTML,
}
"""Into which format each can be converted."""


def convert(
    source: str,
    given: MessageFormat,
    brand: EmailBrand,
    layout: Layout | None = None,
    rules: Mapping[str, FieldRule] = RULES,
) -> tuple[MessageFormat, str]:
    """Return the source in its next format. `Invalid` for one with errors, or in HTML.

    MJML and HTML contain the template; blocks still need it.
    """
    if given not in NEXT:
        raise Invalid("format", "HTML cannot be converted to another format")
    compiled = compile_source(source, given, brand, layout, ANY_FIELD)
    if compiled.errors:
        raise Invalid("body", str(compiled.errors[0]))
    match given:
        case MessageFormat.MARKDOWN:
            return MessageFormat.BLOCKS, _to_blocks(source, with_slots=layout is not None)
        case MessageFormat.BLOCKS:
            return MessageFormat.MJML, _to_mjml(source, brand, layout)
        case _:
            return MessageFormat.HTML, compiled.html


def _to_blocks(source: str, *, with_slots: bool) -> str:
    slots, begin = split_front_matter(source, Findings(source)) if with_slots else ({}, 0)
    fields = HiddenFields()
    hidden = fields.marker_lines(fields.hide(source[begin:]).text)
    document = markdown_to_blocks(hidden, fields.condition_begun)
    shown = msgspec.convert(_shown(msgspec.to_builtins(document), fields), BlockDocument)
    return write_blocks(msgspec.structs.replace(shown, slots=slots))


def _shown(value: Any, fields: HiddenFields, *, in_html: bool = False) -> Any:
    """Return the value with its merge fields."""
    if isinstance(value, dict):
        return {key: _shown(each, fields, in_html=key == "html") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each, fields) for each in value]
    if isinstance(value, str):
        return fields.show(value) if in_html else fields.show_in_text(value)
    return value


def _to_mjml(source: str, brand: EmailBrand, layout: Layout | None) -> str:
    findings = Findings(source)
    document = parse_blocks(source, findings)
    if document is None:
        raise Invalid("body", str(findings.sorted()[0]))
    fields = HiddenFields()
    layout = layout or Layout(partial("blank"))
    filling = Filling(brand, document.slots)
    sections = "".join(to_sections(document, with_footer=not layout.has_footer))
    part = parse(fields.hide(filling.fill(sections, findings)).text, findings)
    tree = layout_tree(layout, filling, part.children, fields, findings)
    mjml.check(tree, findings)
    return fields.show(written(tree))
