"""Features of HTML and CSS that major email programs lack.

`client_support.json` says which, by the names of caniemail.com; `scripts/trim_caniemail.py` makes
it. Here is how each of them is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from postroom.mail.bodies.html import HtmlTag, tokens

# Nothing is tried twice (`++`), or this could be slow.
_DECLARATION: Final = re.compile(r"(?<![a-z-])([a-z-]{2,40}+)\s*+:\s*+([^;{}]{1,500}+)")
_PICTURE_TYPE: Final = re.compile(r"\.(avif|bmp|heif|heic|svg|tiff?|webp)(?:[?#]|$)", re.IGNORECASE)

Declared = Callable[[str, str], bool]


def _is(*names: str) -> Declared:
    return lambda name, _: name in names


def _has(name: str, *values: str) -> Declared:
    return lambda given, value: given == name and any(each in value.split() for each in values)


def _calls(*functions: str) -> Declared:
    pattern = re.compile(rf"(?<![a-z-])(?:{'|'.join(functions)})\(")
    return lambda _, value: pattern.search(value) is not None


def _measures(unit: str) -> Declared:
    pattern = re.compile(rf"\d{unit}\b")
    return lambda _, value: pattern.search(value) is not None


_DECLARATIONS: Final[Mapping[str, Declared]] = {
    "css-animation": lambda name, _: name.startswith("animation"),
    "css-aspect-ratio": _is("aspect-ratio"),
    "css-backdrop-filter": _is("backdrop-filter"),
    "css-background-image": lambda name, value: (
        name in ("background", "background-image") and "url(" in value
    ),
    "css-clip-path": _is("clip-path"),
    "css-column-count": _is("column-count", "columns"),
    "css-conic-gradient": _calls("conic-gradient"),
    "css-display-flex": _has("display", "flex", "inline-flex"),
    "css-display-grid": _has("display", "grid", "inline-grid"),
    "css-filter": _is("filter"),
    "css-float": _has("float", "left", "right"),
    "css-function-clamp": _calls("clamp"),
    "css-function-max": _calls("max"),
    "css-function-min": _calls("min"),
    "css-gap": _is("gap", "row-gap", "column-gap", "grid-gap"),
    "css-inset": _is("inset"),
    "css-linear-gradient": _calls("linear-gradient"),
    "css-mask-image": _is("mask-image", "mask"),
    "css-mix-blend-mode": _is("mix-blend-mode"),
    "css-modern-color": _calls("lch", "oklch", "lab", "oklab"),
    "css-object-fit": _is("object-fit"),
    "css-position": _has("position", "absolute", "fixed", "sticky"),
    "css-radial-gradient": _calls("radial-gradient"),
    "css-shape-outside": _is("shape-outside"),
    "css-transform": _is("transform"),
    "css-unit-calc": _calls("calc"),
    "css-unit-vh": _measures("vh"),
    "css-unit-vw": _measures("vw"),
    "css-variables": lambda name, value: name.startswith("--") or "var(" in value,
    "css-writing-mode": _is("writing-mode"),
}
_AT_RULES: Final = {"css-at-font-face": "@font-face", "css-at-import": "@import"}
_TAGS: Final = frozenset(
    {"audio", "dialog", "form", "marquee", "meter", "object", "picture", "progress", "select"}
    | {"svg", "textarea", "video"}
)
_PICTURES: Final = {"heic": "heif", "tif": "tiff"}


class Feature(msgspec.Struct, frozen=True):
    """A feature, and the email programs that lack it."""

    slug: str
    title: str
    missing_in: tuple[str, ...]

    @property
    def loses_content(self) -> bool:
        """Whether many readers would miss a part of the message, not only its looks."""
        return self.slug.startswith(("html-", "image-")) and "Gmail" in self.missing_in


def missing_features(html: str) -> list[Feature]:
    """Return the features of a document that some programs lack, in the order of their names."""
    known = _known()
    return [known[slug] for slug in sorted(set(_used(html)) & known.keys())]


def _used(html: str) -> Iterator[str]:
    styles: list[str] = []
    end = 0
    for token in tokens(html):
        styles.append(_style_sheet(html[end : token.start]))
        end = token.end
        if isinstance(token, HtmlTag) and not token.closes:
            attributes = token.attributes
            styles.append(attributes.get("style", ""))
            yield from _of_tag(token.name, attributes)
    css = ";".join(_without_comments(each) for each in styles if each).lower()
    for slug, rule in _AT_RULES.items():
        if rule in css:
            yield slug
    for name, value in dict.fromkeys(_DECLARATION.findall(css)):
        for slug, is_used in _DECLARATIONS.items():
            if is_used(name, value):
                yield slug


def _style_sheet(skipped: str) -> str:
    """Return the style sheet in what `tokens` leaves out at one place: one comment or element."""
    if skipped[:6].lower() != "<style":
        return ""
    return skipped.partition(">")[2].rpartition("</")[0]


def _without_comments(css: str) -> str:
    """Return CSS without comments; one that is not closed goes to the end."""
    kept: list[str] = []
    done = 0
    while (start := css.find("/*", done)) >= 0:
        kept.append(css[done:start])
        done = css.find("*/", start + 2) + 2
        if done < 2:
            return "".join(kept)
    return "".join([*kept, css[done:]])


def _of_tag(name: str, attributes: Mapping[str, str]) -> Iterator[str]:
    if name in _TAGS:
        yield f"html-{name}"
    if name == "link" and "stylesheet" in attributes.get("rel", "").lower():
        yield "html-link"
    if "srcset" in attributes:
        yield "html-srcset"
    if name == "img":
        source = attributes.get("src", "").strip()
        if source.lower().startswith("data:"):
            yield "image-base64"
        elif found := _PICTURE_TYPE.search(source):
            kind = found[1].lower()
            yield f"image-{_PICTURES.get(kind, kind)}"


@cache
def _known() -> Mapping[str, Feature]:
    data = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes())
    return {
        slug: Feature(slug, each["title"], tuple(each["missing_in"]))
        for slug, each in data["features"].items()
    }
