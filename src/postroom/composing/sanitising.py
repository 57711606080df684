"""Removes everything from a piece of HTML that is not content: scripts, styles, frames, forms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from postroom.composing.content_findings import Findings
from postroom.mail.bodies.web_addresses import scheme_of

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]*)")
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
# The next one ends these, so authors need not close them.
_CLOSE_THEMSELVES: Final = frozenset(
    {"dd", "dt", "li", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr"}
)
_DEEPEST: Final = 100
_MOST_TAGS: Final = 200_000


TAGS: Final = frozenset(
    {"a", "abbr", "address", "b", "bdi", "bdo", "big", "blockquote", "br", "caption"}
    | {"center", "cite", "code", "col", "colgroup", "dd", "del", "dfn", "div", "dl", "dt", "em"}
    | {"figcaption", "figure", "font", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header"}
    | {"hr", "i", "img", "ins", "kbd", "li", "main", "mark", "ol", "p", "pre", "q", "s", "samp"}
    | {"section", "small", "span", "strike", "strong", "sub", "sup", "table", "tbody", "td"}
    | {"tfoot", "th", "thead", "time", "tr", "tt", "u", "ul", "var", "wbr"}
)
_ATTRIBUTES: Final = {
    "*": frozenset({"align", "class", "dir", "height", "id", "lang", "role", "style", "title"})
    | frozenset({"valign", "width", "bgcolor", "aria-label", "aria-hidden"}),
    "a": frozenset({"href", "name", "target"}),
    "img": frozenset({"alt", "border", "src", "srcset"}),
    "ol": frozenset({"start", "type"}),
    "td": frozenset({"colspan", "rowspan"}),
    "th": frozenset({"colspan", "rowspan", "scope"}),
    "table": frozenset({"border", "cellpadding", "cellspacing"}),
    "font": frozenset({"color", "face", "size"}),
}
# None of these can load anything.
_STYLES: Final = frozenset(
    {"background-color", "border", "border-bottom", "border-collapse", "border-color"}
    | {"border-left", "border-radius", "border-right", "border-spacing", "border-style"}
    | {"border-top", "border-width", "box-sizing", "clear", "color", "direction", "display"}
    | {"float", "font", "font-family", "font-size", "font-style", "font-variant", "font-weight"}
    | {"height", "letter-spacing", "line-height", "list-style-type", "margin", "margin-bottom"}
    | {"margin-left", "margin-right", "margin-top", "max-height", "max-width", "min-height"}
    | {"min-width", "opacity", "overflow", "overflow-wrap", "padding", "padding-bottom"}
    | {"padding-left", "padding-right", "padding-top", "table-layout", "text-align"}
    | {"text-decoration", "text-indent", "text-transform", "vertical-align", "white-space"}
    | {"width", "word-break", "word-spacing", "word-wrap"}
)
SCHEMES: Final = frozenset({"http", "https", "mailto", "tel", "sms"})
_IN_SRCSET: Final = frozenset({"", "http", "https"})
_IN_TABLE = re.compile(r"\s*<(?:tr|tbody|thead|tfoot|caption|colgroup)\b", re.IGNORECASE)


class Sanitised(msgspec.Struct, frozen=True):
    """Clean HTML, and the names of removed tags with the index of the first of each.

    `excess` is where HTML was too deeply nested to be read; there is none then.
    """

    html: str
    removed: tuple[tuple[str, int], ...] = ()
    excess: int | None = None

    def report(self, findings: Findings, begin: int = 0) -> None:
        """Add what was removed to the findings about a source in which this HTML begins there."""
        if self.excess is not None:
            findings.error(
                "too-complex",
                "there are too many tags, or they are nested too deeply: use fewer",
                begin + self.excess,
            )
        for name, at in self.removed:
            findings.warn("removed", f"<{name}> is not allowed in emails: removed", begin + at)


def sanitise(html: str) -> Sanitised:
    """Return well-formed HTML without scripts and the like."""
    if "<" not in html and "&" not in html:
        return Sanitised(html)
    if (excess := _find_excess(html)) is not None:
        return Sanitised("", excess=excess)
    in_table = _IN_TABLE.match(html) is not None
    cleaned = _clean(f"<table>{html}</table>" if in_table else html)
    if in_table:
        cleaned = cleaned.removeprefix("<table>").removesuffix("</table>")
    return Sanitised(cleaned, tuple(_removed(html, cleaned)))


def _find_excess(html: str) -> int | None:
    """Return where HTML becomes too deep or too large to be read safely; None if it does not.

    The libraries that read it build trees by recursion, so that a few hundred kilobytes of unclosed
    tags would end the whole process, and unclosed tags such as `<b>` are repeated in every
    following paragraph.
    """
    open_tags: Counter[str] = Counter()
    depth = size = 0
    for found in _TAG.finditer(html):
        name = found[2].lower()
        if name in _VOID or name in _CLOSE_THEMSELVES:
            size += 1 + depth
        elif not found[1]:
            open_tags[name] += 1
            depth += 1
            size += 1 + depth
        elif open_tags[name]:
            open_tags[name] -= 1
            depth -= 1
        if depth > _DEEPEST or size > _MOST_TAGS:
            return found.start()
    return None


def _clean(html: str) -> str:
    import nh3

    return nh3.clean(
        html,
        tags=set(TAGS),
        attributes={name: set(each) for name, each in _ATTRIBUTES.items()},
        clean_content_tags={"script", "style", "title", "svg", "math", "template", "noscript"},
        url_schemes=set(SCHEMES),
        filter_style_properties=set(_STYLES),
        attribute_filter=_checked_srcset if "srcset" in html.lower() else None,
        link_rel=None,
    )


def _checked_srcset(_: str, name: str, value: str) -> str | None:
    """Leave out a list of pictures with a scheme that is not allowed; nh3 does not look into it."""
    schemes = (scheme_of(each) for each in value.split(","))
    return None if name == "srcset" and any(each not in _IN_SRCSET for each in schemes) else value


def _removed(before: str, after: str) -> list[tuple[str, int]]:
    kept = {name for name, _ in _opened(after)}
    removed: dict[str, int] = {}
    for name, at in _opened(before):
        if name not in TAGS and name not in kept:
            removed.setdefault(name, at)
    return list(removed.items())


def _opened(html: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each tag that begins an element, and where it is."""
    for found in _TAG.finditer(html):
        if not found[1]:
            yield found[2].lower(), found.start()
