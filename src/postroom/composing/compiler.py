"""`compile_source` turns what an author wrote into the HTML and the text of an email."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Final

import msgspec

from postroom.composing.blocks.block_layout import to_sections
from postroom.composing.blocks.blocks import BlockDocument, find_path, parse_blocks
from postroom.composing.brand import EmailBrand, brand_values
from postroom.composing.content_findings import ContentFinding, Findings, Level
from postroom.composing.layouts import (
    Filling,
    Layout,
    LayoutFormat,
    check_slots,
    masked,
    partial,
    split_front_matter,
)
from postroom.composing.markdown import markdown_to_html
from postroom.composing.mjml import markup as mjml
from postroom.composing.mjml.branches import Branches
from postroom.composing.mjml.tree import CONTENT_TAG, Node, parse
from postroom.composing.protection import HiddenFields
from postroom.composing.sanitising import Sanitised, sanitise
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.bodies.documents import framed, is_document
from postroom.mail.bodies.hostile_content import hostile_content
from postroom.mail.bodies.plaintext import text_from_html
from postroom.mail.personal.field_contexts import (
    check_marker_places,
    check_outside_rows,
    check_places,
)
from postroom.mail.personal.merge_fields import RULES, FieldRule, check_fields

POSITION: Final = re.compile(r"line (\d+), column (\d+): ")
"""Where a refused merge field is, at the beginning of its problem."""

_COLOR_SCHEME: Final = (
    '<head><meta name="color-scheme" content="light dark">'
    '<meta name="supported-color-schemes" content="light dark">'
)
_NO_TITLE: Final = "<title></title>"
LARGEST_SOURCE: Final = 500_000
"""Characters. Gmail shows 102 KB of an email; authors of HTML may exceed that, if they must."""

_BRACES: Final = re.compile(r"\{\{[^{}\r\n]*\}\}|\{%[^{}\r\n]*%\}")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_INLINED: Final = re.compile(r'<mj-style inline="inline">(.*?)</mj-style>', re.DOTALL)


class Compiled(msgspec.Struct, frozen=True):
    """The bodies of an email with its merge fields, and what was found on the way. With an error
    among the findings there are no bodies."""

    html: str = ""
    text: str = ""
    findings: tuple[ContentFinding, ...] = ()

    @property
    def errors(self) -> list[ContentFinding]:
        return [each for each in self.findings if each.level is Level.ERROR]


def compile_source(
    source: str,
    format: MessageFormat,
    brand: EmailBrand,
    layout: Layout | None = None,
    rules: Mapping[str, FieldRule] = RULES,
) -> Compiled:
    """Compile a source, within a template if there is one. Never raises for a bad source. `rules`
    are the merge fields that may be used."""
    return Compilation(source, format, brand, layout, rules).run()


class Compilation:
    """One source on its way to an email."""

    def __init__(
        self,
        source: str,
        format: MessageFormat,
        brand: EmailBrand,
        layout: Layout | None,
        rules: Mapping[str, FieldRule],
    ) -> None:
        self._rules = rules
        self._source = source
        self._format = format
        self._brand = brand
        self._layout = layout
        self._fields = HiddenFields(rules)
        self._index: Callable[[int], int] = lambda at: at
        self._findings = Findings(source, lambda at: self._index(at))

    def run(self) -> Compiled:
        try:
            document = self._document()
        except Invalid as exc:  # a merge field that is refused
            self._add_field_problem(exc)
            document = ""
        findings = self._findings.sorted()
        if self._findings.has_errors:
            return Compiled(findings=findings)
        shown = self._fields.show(document)
        try:
            check_marker_places(shown)
        except Invalid as exc:  # a template and its message can be wrong together only
            self._refused(POSITION.sub("", exc.problem))
            return Compiled(findings=self._findings.sorted())
        return Compiled(shown, text_from_html(shown), findings)

    def _document(self) -> str:
        if self._format is not MessageFormat.HTML and not self._is_readable():
            return ""
        match self._format:
            case MessageFormat.BLOCKS:
                return self._blocks()
            case MessageFormat.HTML if self._layout is None:
                # Authors of HTML are their own designers: only scripts and the like are removed,
                # when the message is sent.
                check_fields("html", self._source, self._rules)
                check_places(self._source, self._rules)
                return self._source  # `compile_mailing` makes a document of a fragment
            case _:
                return self._written()

    def _is_readable(self) -> bool:
        if len(self._source) > LARGEST_SOURCE:
            self._refused(
                f"must have at most {LARGEST_SOURCE:,} characters, not {len(self._source):,}"
            )
            return False
        if found := _CONTROL.search(self._source):
            text = f"contains a character that is not allowed: U+{ord(found[0]):04X}"
            self._findings.error("character", text, found.start())
            return False
        return True

    def _blocks(self) -> str:
        document = self._parsed()
        if document is None:
            return ""
        layout = self._layout or Layout(partial("blank"))
        if layout.format is not LayoutFormat.MJML:
            return self._refused("blocks need a template in MJML")
        slots = self._slots(document)
        filling = Filling(self._brand, slots)
        content: list[Node] = []
        for number, section in enumerate(to_sections(document, with_footer=not layout.has_footer)):
            at = find_path(self._source, f"$.blocks[{number}]")
            content += self._block(number, filling.fill(section, self._findings), at)
        return self._in_layout(layout, filling, content)

    def _parsed(self) -> BlockDocument | None:
        return parse_blocks(self._source, self._findings)

    def _slots(self, document: BlockDocument) -> Mapping[str, str]:
        if self._layout:
            check_slots(self._layout, document.slots, self._findings)
        return document.slots

    def _block(self, number: int, section: str, at: int) -> list[Node]:
        """Return the checked nodes of one block. Whatever is found is reported at its beginning."""
        problems = Findings(section)
        try:
            check_outside_rows("body", section)
            part = parse(self._fields.hide(section).text, problems)
        except Invalid as exc:
            self._findings.error("merge-field", POSITION.sub("", exc.problem), at)
            return []
        mjml.check(part, problems, within="mj-body")
        for finding in problems.sorted():
            self._findings.add(finding.level, finding.code, finding.text, at)
        return part.children

    def _written(self) -> str:
        """Compile Markdown, MJML, or HTML within a template."""
        slots: dict[str, str] = {}
        begin = 0
        if self._layout:
            slots, begin = split_front_matter(self._source, self._findings)
            check_slots(self._layout, slots, self._findings)
        try:
            check_fields("body", self._source, self._rules)  # where the author sees them
            check_outside_rows("body", self._source)
        except Invalid:
            if self._format is MessageFormat.MJML:
                self._report_unknown_tags(begin)
            raise
        hidden = self._fields.hide(self._source[begin:])
        self._index = lambda at: begin + hidden.original_index(at)
        if self._format is MessageFormat.MJML:
            return self._mjml(hidden.text, slots)
        return self._html_content(hidden.text, slots)

    def _mjml(self, text: str, slots: Mapping[str, str]) -> str:
        tree = parse(text, self._findings, self._fields)
        if self._layout is None:
            mjml.check(tree, self._findings)
            return "" if self._findings.has_errors else self._to_html(tree)
        if self._layout.format is not LayoutFormat.MJML:
            return self._refused("MJML needs a template in MJML")
        mjml.check(tree, self._findings, within="mj-body")
        return self._in_layout(self._layout, Filling(self._brand, slots), tree.children)

    def _report_unknown_tags(self, begin: int) -> None:
        """Report the unknown tags of MJML whose merge fields are refused: authors see both."""
        source = _BRACES.sub(lambda found: "x" * len(found[0]), self._source)
        problems = Findings(source, lambda at: begin + at)
        within = "mj-body" if self._layout else ""
        mjml.check(parse(source[begin:], problems), problems, within=within)
        for each in problems.sorted():
            if each.code == mjml.UNKNOWN_TAG:
                self._findings.add_at(each.level, each.code, each.text, each.line, each.column)

    def _html_content(self, text: str, slots: Mapping[str, str]) -> str:
        if self._format is MessageFormat.HTML and is_document(text):
            return self._refused("a whole HTML document cannot be put into a template")
        in_markdown = self._format is MessageFormat.MARKDOWN
        html = text
        if in_markdown:
            html = self._fields.uncommented(markdown_to_html(self._fields.marker_lines(text)))
        clean = sanitise(html)
        if in_markdown:  # positions in its HTML are not the author's
            places = {name: max(0, text.lower().find(f"<{name}")) for name, _ in clean.removed}
            excess = None if clean.excess is None else 0
            clean = Sanitised(clean.html, tuple(places.items()), excess)
        clean.report(self._findings)
        if self._findings.has_errors:
            return ""
        if self._layout is None:
            css = Filling(self._brand, {}).fill(_text_css(), self._findings)
            content = f'<div class="text">\n{clean.html}</div>'
            document = framed(
                content,
                language=self._brand.language,
                title=self._brand.name,
                font=self._brand.font,
                link_on_dark=brand_values(self._brand)["colour_on_dark"],
            )
            return mjml.inline_styles(document, css)
        if self._layout.format is LayoutFormat.HTML:
            filling = Filling(self._brand, slots, content=clean.html)
            hidden = self._fields.hide(filling.fill(self._layout.source, Findings("")))
            return hidden.text
        words = Node("mj-text", 0, {"css-class": "text"}, text=clean.html)
        section = Node("mj-section", 0, children=[Node("mj-column", 0, children=[words])])
        return self._in_layout(self._layout, Filling(self._brand, slots), [section])

    def _in_layout(self, layout: Layout, filling: Filling, content: list[Node]) -> str:
        if self._findings.has_errors:
            return ""
        problems = Findings(layout.source)
        tree = layout_tree(layout, filling, content, self._fields, problems)
        mjml.check(tree, problems)
        for finding in problems.sorted():
            if finding.level is Level.ERROR:
                self._refused(f"the template has an error: {finding.text}")
        return "" if self._findings.has_errors else self._to_html(tree)

    def _to_html(self, tree: Node) -> str:
        branches = Branches(self._fields.marker_in)
        branches.take_markers(tree)
        for node in tree.walk():
            if node.name == "mj-raw":  # which may be where only rows of a table are allowed
                node.text = self._fields.marker_lines(node.text)
        try:
            document = branches.put_back(mjml.to_html(tree))
        except ValueError as exc:
            return self._refused(f"the MJML cannot be compiled: {exc}")
        title = escape(self._brand.name).replace("{", "&#123;")
        document = document.replace(_NO_TITLE, f"<title>{title}</title>", 1)
        if "prefers-color-scheme" in document:
            document = document.replace("<head>", _COLOR_SCHEME, 1)
        return document

    def _refused(self, problem: str) -> str:
        self._index = lambda at: at
        self._findings.error("source", problem, 0)
        return ""

    def _add_field_problem(self, exc: Invalid) -> None:
        found = POSITION.match(exc.problem)
        text = exc.problem[found.end() :] if found else exc.problem
        line, column = (int(found[1]), int(found[2])) if found else (0, 0)
        self._findings.add_at(Level.ERROR, "merge-field", text, line, column)


def check_layout(layout: Layout) -> list[ContentFinding]:
    """Return the errors of a template, at their positions in its source."""
    findings = Findings(layout.source)
    try:
        check_fields("template", layout.source)
    except Invalid as exc:
        found = POSITION.match(exc.problem)
        line, column = (int(found[1]), int(found[2])) if found else (0, 0)
        text = POSITION.sub("", exc.problem)
        findings.add_at(Level.ERROR, "merge-field", text, line, column)
        return list(findings.sorted())
    source = masked(layout, EmailBrand(), findings)
    if layout.format is LayoutFormat.MJML:
        fields = HiddenFields()
        hidden = fields.hide(source)
        findings.use_index(hidden.original_index)
        mjml.check(parse(hidden.text, findings, fields), findings, content_tag=True)
    else:
        for each in hostile_content(source, own_host=""):
            findings.error("hostile", f"{each.what} is not allowed in emails", each.start)
    return [each for each in findings.sorted() if each.level is Level.ERROR]


def layout_tree(
    layout: Layout, filling: Filling, content: list[Node], fields: HiddenFields, problems: Findings
) -> Node:
    """Return the tree of a template, filled and with the content in its place."""
    source = fields.hide(filling.fill(layout.source, problems)).text
    tree = parse(source, problems, fields)
    root = tree.find("mjml")
    if root is not None and root.find("mj-head") is None:
        head = parse(filling.fill(partial("head"), problems), problems)
        root.children[:0] = head.children
    for node in list(tree.walk()):
        node.children = [
            inner
            for child in node.children
            for inner in (content if child.name == CONTENT_TAG else [child])
        ]
    filling.drop_empty(tree, problems)
    return tree


def _text_css() -> str:
    found = _INLINED.search(partial("head"))
    return found[1] if found else ""
