"""The canvas of the editor: blocks as the email shows them, with marks by which they are found.

The document is made by the same steps as the email. It differs in five ways: every block has a
class that names its place, styles are not inlined (so that text which is edited there stays free of
them), what is still missing is replaced by a placeholder, and blocks and parts of the template with
a condition are shown. Finally, a merge field that is refused is shown as it was written: its author
is still at work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from postroom.composing.blocks.block_layout import conditions_of, without_conditions
from postroom.composing.blocks.blocks import BlockDocument, find_path
from postroom.composing.brand import EmailBrand
from postroom.composing.compiler import POSITION, Compilation, Compiled
from postroom.composing.content_findings import Findings
from postroom.composing.layouts import Layout, slots_of
from postroom.composing.mjml import tags as mjml_tags
from postroom.composing.mjml.tree import Node
from postroom.composing.protection import HiddenFields
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.personal.content_conditions import MARKER, Marker, find_markers
from postroom.mail.personal.merge_fields import (
    FIELD,
    RULES,
    FieldRule,
    MergeField,
    compared_types,
    unquoted,
)

MARK: Final = "pr-block"
_EMPTY: Final = '{"version": 1, "blocks": []}'


def compile_canvas(
    source: str,
    brand: EmailBrand,
    layout: Layout | None,
    placeholder: str,
    rules: Mapping[str, FieldRule] = RULES,
) -> Compiled:
    """Return the document of the canvas. A block has the classes `pr-block` and `pr-block-2`; one
    in a column `pr-block-2-0-1`, and its column `pr-block-2-0`. `placeholder` is the URL of what
    stands for a picture that is not chosen yet. Merge fields that are refused are errors among the
    findings, but there is a document all the same."""
    return _Canvas(source.strip() or _EMPTY, brand, layout, placeholder, rules).run()


class _Canvas(Compilation):
    def __init__(
        self,
        source: str,
        brand: EmailBrand,
        layout: Layout | None,
        placeholder: str,
        rules: Mapping[str, FieldRule],
    ) -> None:
        if layout is not None:
            layout = msgspec.structs.replace(layout, source=MARKER.sub("", layout.source))
        super().__init__(source, MessageFormat.BLOCKS, brand, layout, rules)
        self._placeholder = placeholder
        self._fields = _WrittenFields(rules, self._refuse_field)
        self._refused_fields = Findings(source)
        self._block_at = 0

    def run(self) -> Compiled:
        made = super().run()
        found = (*self._refused_fields.sorted(), *made.findings)
        return msgspec.structs.replace(made, findings=found)

    def _refuse_field(self, exc: Invalid) -> None:
        problem = POSITION.sub("", exc.problem)
        self._refused_fields.error("merge-field", problem, self._block_at)

    def _parsed(self) -> BlockDocument | None:
        document = super()._parsed()
        if document is None:
            return None
        for path, rule in conditions_of(document):
            try:
                find_markers("body", f"{{% if {rule} %}}{{% end %}}", compared_types(self._rules))
            except Invalid as exc:
                problem = f"the condition: {POSITION.sub('', exc.problem)}"
                self._refused_fields.error("merge-field", problem, find_path(self._source, path))
        return without_conditions(document)

    def _slots(self, document: BlockDocument) -> Mapping[str, str]:
        if self._layout is None:
            return document.slots
        missing = {
            slot.name: slot.name.replace("_", " ").capitalize()
            for slot in slots_of(self._layout)
            if slot.is_required
        }
        given = {name: value for name, value in document.slots.items() if value.strip()}
        return {**missing, **given}

    def _block(self, number: int, section: str, at: int) -> list[Node]:
        section = section or _note("The footer of the template is shown instead of this block.")
        self._block_at = at
        nodes = super()._block(number, section, at)
        self._block_at = 0
        for node in nodes:
            _mark(node, f"{number}")
            if "columns" in node.attributes.get("css-class", "").split():
                _mark_columns(node, number)
            for inner in node.walk():
                if inner.name == "mj-image" and not inner.attributes.get("src", "").strip():
                    inner.attributes["src"] = self._placeholder
                if "links" in inner.attributes.get("css-class", "").split() and not inner.text:
                    inner.text = "The links of the list are shown here. It has none yet."
        return nodes

    def _to_html(self, tree: Node) -> str:
        for node in tree.walk():
            if node.name == mjml_tags.STYLE:
                node.attributes.pop("inline", None)
        return super()._to_html(tree)


class _WrittenFields(HiddenFields):
    """Reports the first field of a text that is refused, and hides all that can be read. Anything
    else that begins with `{{` stays part of the text, and is checked as such."""

    def __init__(self, rules: Mapping[str, FieldRule], report: Callable[[Invalid], None]) -> None:
        super().__init__(rules)
        self._report = report

    def _find(self, text: str) -> Iterator[MergeField | Marker]:
        try:
            yield from list(super()._find(text))
        except Invalid as exc:
            self._report(exc)
            for found in FIELD.finditer(text):
                default = None if found[2] is None else unquoted(found[2])
                yield MergeField(found[1], default, found.start(), found.end())


def _note(text: str) -> str:
    """Return a section that stands for a block of which the email shows nothing."""
    words = f'<mj-text css-class="text small" align="center" font-size="13px">{text}</mj-text>'
    return f"<mj-section><mj-column>{words}</mj-column></mj-section>"


def _mark_columns(section: Node, number: int) -> None:
    for column, node in enumerate(section.children):
        _add_class(node, f"pr-column {MARK}-{number}-{column}")
        for place, block in enumerate(node.children):
            _mark(block, f"{number}-{column}-{place}")


def _mark(node: Node, place: str) -> None:
    _add_class(node, f"{MARK} {MARK}-{place}")


def _add_class(node: Node, name: str) -> None:
    node.attributes["css-class"] = f"{node.attributes.get('css-class', '')} {name}".strip()
