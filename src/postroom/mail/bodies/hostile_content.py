"""Removes from an HTML body what would run code or load something from the recipient's own machine.

Authors of HTML are their own designers, so everything else stays as it is, byte for byte. Email
programs ignore scripts, and spam filters punish them; but a message is also shown in the preview
and in the web archive.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from postroom.mail.bodies.html import ATTRIBUTE, HtmlTag, tokens
from postroom.mail.bodies.style_sheets import loaded_by, plain_css, runs_programs
from postroom.mail.bodies.web_addresses import may_be_loaded, scheme_of

_TAGS: Final = frozenset(
    {"applet", "base", "embed", "frame", "frameset", "iframe", "object", "portal"}
)
_LOADS: Final = frozenset({"background", "data", "dynsrc", "lowsrc", "poster", "src", "xlink:href"})
_LEADS: Final = frozenset({"action", "formaction", "href", "ping"})
_LINK_TAGS: Final = frozenset({"a", "area", "form", "button", "input"})
_PROGRAMS: Final = frozenset({"data", "file", "javascript", "livescript", "vbscript"})
_HIDDEN: Final = re.compile(r"<(script|style)\b([^>]*+)>", re.IGNORECASE)
# Structured data for Gmail and the like: read, never run.
_DATA: Final = re.compile(r"\btype\s*=\s*[\"']?application/ld\+json\b", re.IGNORECASE)
_CONDITIONAL: Final = "<!--[if"
_LONGEST_SHOWN: Final = 60


class Removal(msgspec.Struct, frozen=True):
    """A part of a document that is not sent, and what it is called."""

    start: int
    end: int
    what: str


def without_hostile_content(document: str, own_host: str) -> str:
    """Return a document without scripts and other hostile content."""
    pieces, done = [], 0
    for each in hostile_content(document, own_host):
        pieces.append(document[done : each.start])
        done = each.end
    return "".join([*pieces, document[done:]]) if pieces else document


def hostile_content(document: str, own_host: str) -> Iterator[Removal]:
    """Yield what is removed. `own_host` is where Postroom's own pictures are, which may be the
    reader's own machine during a trial."""
    for begin, piece in _scanned(document):
        if isinstance(piece, str) and piece[: len(_CONDITIONAL)].lower() == _CONDITIONAL:
            inner = begin + len("<!--")  # Outlook reads these comments
            for at, hidden in _scanned(piece[len("<!--") :]):
                yield from _in_piece(hidden, own_host, inner, inner + at)
        else:
            yield from _in_piece(piece, own_host, 0, begin)


def _scanned(document: str) -> Iterator[tuple[int, str | HtmlTag]]:
    """Yield the tags, and what is hidden between them: comments, scripts, style sheets."""
    done = 0
    for token in tokens(document):
        if token.start > done:
            yield done, document[done : token.start]
        done = token.end
        if isinstance(token, HtmlTag):
            yield token.start, token
    if done < len(document):
        yield done, document[done:]


def _in_piece(
    piece: str | HtmlTag, own_host: str, document_begin: int, begin: int
) -> Iterator[Removal]:
    if isinstance(piece, HtmlTag):
        yield from _in_tag(piece, own_host, document_begin)
    else:
        yield from _in_hidden(piece, own_host, begin)


def _in_hidden(piece: str, own_host: str, begin: int) -> Iterator[Removal]:
    """Look at a script or a style sheet."""
    found = _HIDDEN.match(piece)
    if found is None:
        return
    name = found[1].lower()
    if name == "script":
        if not _DATA.search(found[2]):
            yield Removal(begin, begin + len(piece), "<script>")
    elif (what := _hostile_style(piece[found.end() :], own_host)) is not None:
        yield Removal(begin, begin + len(piece), f"<style> with {what}")


def _in_tag(tag: HtmlTag, own_host: str, begin: int) -> Iterator[Removal]:
    is_refresh = (
        tag.name == "meta"
        and "http-equiv" in tag.raw.lower()
        and (tag.attributes.get("http-equiv", "").strip().lower() == "refresh")
    )
    if tag.name in _TAGS or is_refresh:
        what = '<meta http-equiv="refresh">' if is_refresh else f"<{tag.name}>"
        yield Removal(begin + tag.start, begin + tag.end, what)
        return
    if tag.closes:
        return
    attributes_begin = begin + tag.end - len(tag.raw)
    for found in ATTRIBUTE.finditer(tag.raw):
        value = html.unescape(found[2] or found[3] or found[4] or "")
        refused = _hostile_attribute(tag.name, found[1].lower(), value, own_host)
        if refused:
            begin = attributes_begin + found.start()
            yield Removal(begin, attributes_begin + found.end(), refused)


def _hostile_attribute(tag: str, name: str, value: str, own_host: str) -> str | None:
    """Return what is hostile about an attribute, if anything is."""
    if (name.startswith("on") and name[2:].isalpha()) or name == "srcdoc":
        return f"{name} of <{tag}>"
    if name == "style":
        found = _hostile_style(value, own_host)
        return found and f"style of <{tag}> with {found}"
    if name in _LEADS and tag in _LINK_TAGS:
        return _short(value) if scheme_of(value) in _PROGRAMS else None
    if name in _LOADS or name in _LEADS:
        return None if may_be_loaded(value, own_host) else _short(value)
    if name == "srcset":
        refused = (each for each in _sources(value) if not may_be_loaded(each, own_host))
        return next((_short(each) for each in refused), None)
    return None


def _sources(srcset: str) -> list[str]:
    """Return the URLs of a `srcset`: what is before each space, and after each comma."""
    return [each.strip().split()[0] for each in srcset.split(",") if each.strip()]


def _hostile_style(css: str, own_host: str) -> str | None:
    plain = plain_css(css)
    if runs_programs(plain):
        return "a program"
    refused = (each for each in loaded_by(plain) if not may_be_loaded(each.strip(), own_host))
    return next((_short(each) for each in refused), None)


def _short(url: str) -> str:
    url = url.strip()
    return url if len(url) <= _LONGEST_SHOWN else f"{url[:_LONGEST_SHOWN]}…"
