"""Markdown (CommonMark with tables and strikethrough) to HTML and to blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from postroom.composing.blocks.blocks import (
    VERSION,
    Block,
    BlockDocument,
    Divider,
    Heading,
    PictureBlock,
    Quote,
    Text,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SMALLEST_HEADING: Final = 3


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(
        ["table", "strikethrough"]
    )


def markdown_to_html(source: str) -> str:
    """Return the HTML of Markdown, not sanitised."""
    rendered: str = _parser().render(source)
    return rendered


def markdown_to_blocks(source: str, condition_of: Callable[[str], str | None]) -> BlockDocument:
    """Return blocks that say the same: headings, pictures, quotes and lines become blocks of their
    own, everything else text. `condition_of` returns the condition that a comment begins: "" for
    none, and None if it is another comment."""
    blocks: list[Block] = []
    run: list[Token] = []
    condition = ""

    def add(*more: Block) -> None:
        blocks.extend(
            msgspec.structs.replace(each, condition=condition) if condition else each
            for each in more
        )

    for group in _groups(_parser().parse(source)):
        begun = condition_of(group[0].content) if group[0].type == "html_block" else None
        block = _block(group)
        if begun is None and block is None:
            run += group
            continue
        add(*_text(run))
        run = []
        if block is not None:
            add(block)
        condition = condition if begun is None else begun
    add(*_text(run))
    return BlockDocument(VERSION, tuple(blocks))


def _groups(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens of each outer element."""
    groups: list[list[Token]] = []
    level = 0
    for token in tokens:
        if level == 0:
            groups.append([])
        groups[-1].append(token)
        level += token.nesting
    return groups


def _block(group: list[Token]) -> Block | None:
    first = group[0]
    if first.type == "hr":
        return Divider()
    inline = group[1] if len(group) > 1 else first
    if first.type == "heading_open" and _is_plain(inline):
        level = min(int(first.tag[1]), _SMALLEST_HEADING)
        return Heading(_plain(inline), level=level)  # type: ignore[arg-type]
    if first.type == "paragraph_open" and len(inline.children or []) == 1:
        [child] = inline.children or []
        if child.type == "image":
            return PictureBlock(str(child.attrs.get("src", "")), alt=child.content)
    if first.type == "blockquote_open":
        inlines = [token for token in group if token.type == "inline"]
        if len(inlines) == 1 and _is_plain(inlines[0]):
            return Quote(_plain(inlines[0]))
    return None


def _is_plain(inline: Token) -> bool:
    return all(child.type in ("text", "softbreak") for child in inline.children or [])


def _plain(inline: Token) -> str:
    return " ".join(child.content for child in inline.children or [] if child.type == "text")


def _text(tokens: list[Token]) -> list[Block]:
    if not tokens:
        return []
    parser = _parser()
    rendered: str = parser.renderer.render(tokens, parser.options, {})
    return [Text(rendered.strip())]
