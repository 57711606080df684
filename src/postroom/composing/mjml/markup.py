"""MJML: checked and sanitised by us, then compiled to HTML.

Checks concern the tree, so everything that is found has a line and column. The compiler gets what
we write ourselves: known tags, quoted attributes, clean HTML, and no includes.
"""

from __future__ import annotations

import re
from typing import Final

from postroom.composing.content_findings import Findings
from postroom.composing.mjml import tags as mjml_tags
from postroom.composing.mjml.tree import CONTENT_TAG, Node, written
from postroom.composing.sanitising import SCHEMES, sanitise
from postroom.mail.bodies.style_sheets import plain_css

UNKNOWN_TAG: Final = "mjml-tag"
"""The code of the finding that there is no such tag."""

_LINKS: Final = re.compile(r"href|src|.*-url")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_IGNORED_IN_URLS: Final = re.compile(r"[\x00-\x20]+")
_CSS_LOADS: Final = re.compile(
    r"@import\b|expression\s*\(|behavior\s*:|-moz-binding|</|<!--|\bsrc\("
    r"|image-set\([^;}]*[\"']|url\(\s*[\"']?(?!https://|data:image/)",
    re.IGNORECASE,
)
_STYLE_TAG: Final = re.compile(r"<style\b[^>]*>.*?</style>", re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_KEPT_STYLE: Final = "<!--postroom-style-{}-->"
# Not a height that HTML has; the style of the picture says the same.
_NO_HEIGHT: Final = re.compile(r'(<img\b[^<>]*?) height="auto"')
# The compiler writes the name of the style at the cell of a button.
_CELL_ALIGNMENT: Final = re.compile(r'(<td\b[^<>]*?) vertical-align="')
# Fonts that the compiler would load from Google if they are named: nothing is loaded automatically.
_NO_FONTS: Final[dict[str, str]] = {}


def check(root: Node, findings: Findings, *, within: str = "", content_tag: bool = False) -> None:
    """Find unknown and misplaced tags, includes, and links that are not allowed; sanitise content.

    `within` names the tag in which the source will be placed: `mj-body` for a part of a message.
    With `content_tag`, it may contain the place of a message, where sections are allowed.
    """
    if content_tag:
        _check_content_places(root, findings)
    _check_children(root, within, findings)
    if not within:
        mjml = root.find("mjml")
        if mjml is None:
            findings.error("mjml-root", "the message must begin with <mjml>", 0)
        elif mjml.find("mj-body") is None:
            findings.error("mjml-root", "<mjml> must contain an <mj-body>", mjml.start)


def _check_children(node: Node, name: str, findings: Findings) -> None:
    allowed = mjml_tags.CHILDREN.get(name, frozenset())
    for child in node.children:
        if child.name == "mj-include":
            findings.error("mjml-include", "includes are not supported", child.start)
        elif name == mjml_tags.ATTRIBUTES:
            if child.name not in mjml_tags.DEFAULTS_FOR:
                findings.error(UNKNOWN_TAG, f"there is no tag <{child.name}>", child.start)
        elif child.name not in mjml_tags.KNOWN and child.name not in mjml_tags.CHILDREN:
            text = f"there is no tag <{child.name}>{_hint(child)}"
            findings.error(UNKNOWN_TAG, text, child.start)
        elif child.name not in allowed:
            findings.error("mjml-place", _misplaced(child, name), child.start)
        _check_attributes(child, findings)
        _check_content(child, findings)
        _check_children(child, child.name, findings)


def _check_content_places(root: Node, findings: Findings) -> None:
    for node in root.walk():
        for child in node.children:
            if child.name == CONTENT_TAG and node.name not in ("mj-body", "mj-wrapper"):
                findings.error(
                    "content",
                    "{% slot content %} must be directly in <mj-body> or <mj-wrapper>",
                    child.start,
                )
        if CONTENT_TAG in node.text:
            findings.error(
                "content",
                "{% slot content %} must be directly in <mj-body> or <mj-wrapper>",
                node.text_start + node.text.index(f"<{CONTENT_TAG}"),
            )
        node.children = [child for child in node.children if child.name != CONTENT_TAG]


def _hint(node: Node) -> str:
    return "" if node.name.startswith("mj-") else ": HTML must be in an <mj-text> or <mj-raw>"


def _misplaced(node: Node, parent: str) -> str:
    name = node.name
    if node.text and node.start == node.text_start:
        return "a condition must be within <mj-body>"
    places = sorted(each for each, tags in mjml_tags.CHILDREN.items() if name in tags and each)
    where = " or ".join(f"<{each}>" for each in places) or "the beginning of the message"
    here = f"<{parent}>" if parent else "the beginning of the message"
    return f"<{name}> cannot be in {here}, only in {where}"


def _check_attributes(node: Node, findings: Findings) -> None:
    for name, value in node.attributes.items():
        if _LINKS.fullmatch(name) and not is_allowed_link(value):
            findings.error(
                "link-scheme",
                f"{name} must begin with https://, http://, mailto: or tel:, not {value[:40]!r}",
                node.start,
            )


def is_allowed_link(link: str) -> bool:
    """Return whether a link has a scheme that emails may use, or none."""
    found = _SCHEME.match(_IGNORED_IN_URLS.sub("", link))
    return found is None or found[1].lower() in SCHEMES


def _check_content(node: Node, findings: Findings) -> None:
    if node.name in mjml_tags.HTML_CONTENT:
        clean = sanitise(node.text)
        clean.report(findings, node.text_start)
        node.text = clean.html
    elif node.name in mjml_tags.TEXT_CONTENT:
        node.text = _as_text(node.text)
    elif node.name == mjml_tags.STYLE:
        _check_style(node, findings)


def _check_style(node: Node, findings: Findings) -> None:
    plain = plain_css(node.text)
    if found := _CSS_LOADS.search(node.text) or _CSS_LOADS.search(plain):
        findings.error(
            "css-loads",
            f"{found[0]!r} is not allowed in a style: only pictures can be loaded, by url(https://…)",
            node.text_start + (found.start() if found.string is node.text else 0),
        )


def _as_text(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def to_html(root: Node, *, more_css: str = "") -> str:
    """Compile a checked tree, and inline `more_css` and all `<mj-style inline="inline">`."""
    import mjml

    inlined = [more_css]
    for node in root.walk():
        inlined += [
            style.text
            for style in node.children
            if style.name == mjml_tags.STYLE and style.attributes.get("inline") == "inline"
        ]
        node.children = [
            each
            for each in node.children
            if each.name != mjml_tags.STYLE or each.attributes.get("inline") != "inline"
        ]
    compiled = mjml.mjml2html(written(root), fonts=_NO_FONTS)
    compiled = _NO_HEIGHT.sub(r"\1", compiled)
    compiled = _CELL_ALIGNMENT.sub(r'\1 valign="', compiled)
    return inline_styles(compiled, "\n".join(each for each in inlined if each))


def inline_styles(document: str, css: str) -> str:
    """Return the document with these styles at each tag. Its own `<style>` tags stay as they are,
    and nothing is ever read from a file or a network."""
    if not css:
        return document
    import css_inline

    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return _KEPT_STYLE.format(len(kept) - 1)

    pieces, done = [], 0
    for comment in _COMMENT.finditer(document):  # styles in comments are for Outlook
        pieces += [_STYLE_TAG.sub(keep, document[done : comment.start()]), comment[0]]
        done = comment.end()
    pieces.append(_STYLE_TAG.sub(keep, document[done:]))
    inliner = css_inline.CSSInliner(load_remote_stylesheets=False, extra_css=css)
    inlined = inliner.inline("".join(pieces))
    for number, style in enumerate(kept):
        inlined = inlined.replace(_KEPT_STYLE.format(number), style, 1)
    return inlined
