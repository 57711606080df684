"""Blocks: a message as JSON, version 1. The structs here are its schema."""

from __future__ import annotations

import json
import re
from typing import Annotated, Final, Literal

import msgspec

from postroom.composing.content_findings import Findings

VERSION: Final = 1
MOST_BLOCKS: Final = 200

Align = Literal["left", "center", "right"]
Colour = Annotated[str, msgspec.Meta(pattern="^(#[0-9a-fA-F]{6})?$")]
Line = Annotated[str, msgspec.Meta(max_length=1000)]
Rule = Annotated[str, msgspec.Meta(max_length=2000)]
Url = Annotated[str, msgspec.Meta(max_length=4000)]
Html = Annotated[str, msgspec.Meta(max_length=200_000)]


class _Block(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"
):
    condition: Rule | msgspec.UnsetType = msgspec.UNSET
    """The rule that selects who sees the block, such as `city = "Berlin"`."""


class Heading(_Block, frozen=True, tag="heading"):
    text: Line
    level: Literal[1, 2, 3] = 2
    align: Align = "left"


class Text(_Block, frozen=True, tag="text"):
    """Paragraphs, lists and links as HTML."""

    html: Html
    align: Align = "left"


class PictureBlock(_Block, frozen=True, tag="picture"):
    src: Url
    alt: Line = ""
    link: Url = ""
    width: Annotated[int, msgspec.Meta(ge=0, le=600)] = 0
    """In pixels; 0 is as wide as possible."""
    align: Align = "center"


class Button(_Block, frozen=True, tag="button"):
    text: Line
    link: Url
    align: Align = "left"
    colour: Colour = ""
    """Empty: the list's."""


class Divider(_Block, frozen=True, tag="divider"):
    pass


class Spacer(_Block, frozen=True, tag="spacer"):
    height: Annotated[int, msgspec.Meta(ge=4, le=200)] = 24


class Quote(_Block, frozen=True, tag="quote"):
    text: Line
    source: Line = ""


class SocialLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Line
    url: Url


class Social(_Block, frozen=True, tag="social"):
    """Links to other sites; without any, the list's."""

    links: Annotated[tuple[SocialLink, ...], msgspec.Meta(max_length=20)] = ()
    align: Align = "center"


class Post(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Line
    text: Line = ""
    picture: Url = ""
    alt: Line = ""
    link: Url = ""


class Posts(_Block, frozen=True, tag="posts"):
    posts: Annotated[tuple[Post, ...], msgspec.Meta(min_length=1, max_length=50)]


class RawHtml(_Block, frozen=True, tag="html"):
    html: Html


class Footer(_Block, frozen=True, tag="footer"):
    """The list's footer text, links, postal address and the unsubscribe link."""

    text: Line = ""


InColumn = Heading | Text | PictureBlock | Button | Divider | Spacer | Quote | Social | RawHtml
_Column = Annotated[tuple[InColumn, ...], msgspec.Meta(max_length=50)]


class ColumnsBlock(_Block, frozen=True, tag="columns"):
    columns: Annotated[tuple[_Column, ...], msgspec.Meta(min_length=2, max_length=3)]


Block = (
    Heading
    | Text
    | PictureBlock
    | Button
    | ColumnsBlock
    | Divider
    | Spacer
    | Quote
    | Social
    | Posts
    | RawHtml
    | Footer
)


class BlockDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message made of blocks. `slots` fill the template's places other than the content."""

    version: Literal[1]
    blocks: Annotated[tuple[Block, ...], msgspec.Meta(max_length=MOST_BLOCKS)]
    slots: dict[Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]*$")], Line] = {}


def parse_blocks(source: str, findings: Findings) -> BlockDocument | None:
    """Return the document; None, with a finding at its line, if it is not one."""
    try:
        return msgspec.json.decode(source, type=BlockDocument)
    except msgspec.ValidationError as exc:
        problem, _, path = str(exc).partition(" - at `")
        at = find_path(source, path.rstrip("`"))
        findings.error("blocks-schema", f"{problem} (at {path.rstrip('`') or '$'})", at)
    except msgspec.DecodeError:
        try:
            json.loads(source)
            findings.error("blocks-json", "is not valid JSON", 0)
        except (json.JSONDecodeError, RecursionError) as exc:
            at = exc.pos if isinstance(exc, json.JSONDecodeError) else 0
            reason = exc.msg if isinstance(exc, json.JSONDecodeError) else "too deeply nested"
            findings.error("blocks-json", f"is not valid JSON: {reason}", at)
    return None


def write_blocks(document: BlockDocument) -> str:
    """Return a document as JSON, readable by people."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def blocks_schema() -> dict[str, object]:
    """Return the JSON schema of a document."""
    return msgspec.json.schema(BlockDocument)


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_SPACE = re.compile(r"[\s,]*")


def find_path(source: str, path: str) -> int:
    """Return where in valid JSON the value at a path such as `$.blocks[2].text` begins, or as near
    as possible: a missing member is reported at its object."""
    decoder = json.JSONDecoder()
    at = _skip(source, 0)
    for step in _STEP.finditer(path):
        inner = _member(decoder, source, at, step[1] if step[1] is not None else int(step[2]))
        if inner is None:
            break
        at = inner
    return at


def _member(decoder: json.JSONDecoder, source: str, at: int, wanted: str | int) -> int | None:
    if source[at : at + 1] != ("{" if isinstance(wanted, str) else "["):
        return None
    at, number = _skip(source, at + 1), 0
    while source[at : at + 1] not in ("}", "]", ""):
        key: object = number
        if isinstance(wanted, str):
            key, at = decoder.raw_decode(source, at)
            at = _skip(source, source.index(":", at) + 1)
        if key == wanted:
            return at
        at = _skip(source, decoder.raw_decode(source, at)[1])
        number += 1
    return None


def _skip(source: str, at: int) -> int:
    found = _SPACE.match(source, at)
    return found.end() if found else at
