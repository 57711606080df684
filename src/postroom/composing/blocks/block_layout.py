"""Blocks become sections of MJML."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Final, TypeVar, assert_never

import msgspec

from postroom.composing.blocks.blocks import (
    Block,
    BlockDocument,
    Button,
    ColumnsBlock,
    Divider,
    Footer,
    Heading,
    InColumn,
    PictureBlock,
    Post,
    Posts,
    Quote,
    RawHtml,
    Social,
    Spacer,
    Text,
)
from postroom.domain.audience.lists.appearance import Colour, text_on
from postroom.mail.personal.merge_fields import with_quotes_escaped

T = TypeVar("T", bound=Block)

_SECTION: Final = "<mj-section><mj-column>{}</mj-column></mj-section>\n"
_IN_COLUMN: Final = ' padding-left="16px" padding-right="16px"'
_SIZES: Final = {1: "30px", 2: "23px", 3: "18px"}


def to_sections(document: BlockDocument, *, with_footer: bool = True) -> list[str]:
    """Return the sections of each block, as parts of a template. Their HTML is as the author wrote
    it: not yet checked. If the template has a footer, only the text of one is left: a block
    without any is empty."""
    return [_guarded(block, _section(block, with_footer=with_footer)) for block in document.blocks]


def without_conditions(document: BlockDocument) -> BlockDocument:
    """Return a document whose blocks are shown to everyone."""
    return msgspec.structs.replace(document, blocks=tuple(map(_unguarded, document.blocks)))


def conditions_of(document: BlockDocument) -> Iterator[tuple[str, str]]:
    """Yield the conditions of blocks, each with the path of its block."""
    for number, block in enumerate(document.blocks):
        path = f"$.blocks[{number}]"
        if block.condition and block.condition.strip():
            yield path, block.condition
        for column, inner in enumerate(block.columns if isinstance(block, ColumnsBlock) else ()):
            for place, each in enumerate(inner):
                if each.condition and each.condition.strip():
                    yield f"{path}.columns[{column}][{place}]", each.condition


def _unguarded(block: T) -> T:
    if isinstance(block, ColumnsBlock):
        columns = tuple(tuple(map(_unguarded, column)) for column in block.columns)
        return msgspec.structs.replace(block, columns=columns, condition=msgspec.UNSET)
    return msgspec.structs.replace(block, condition=msgspec.UNSET)


def _guarded(block: Block, source: str) -> str:
    """Return the source of a block between the markers of its condition, if it has one."""
    if not source or not block.condition or not block.condition.strip():
        return source
    rule = _escaped(block.condition.strip())
    return f"<mj-raw>{{% if {rule} %}}</mj-raw>\n{source}<mj-raw>{{% end %}}</mj-raw>\n"


def _section(block: Block, *, with_footer: bool) -> str:
    match block:
        case ColumnsBlock():
            return _columns(block)
        case Posts():
            return "".join(map(_post, block.posts))
        case Footer():
            footer = "{% footer %}\n" if with_footer else ""
            return f"{_footer_note(block.text)}{footer}"
        case _:
            return _SECTION.format(_component(block))


def _columns(block: ColumnsBlock) -> str:
    columns = "".join(
        f"<mj-column>{''.join(_guarded(each, _component(each, _IN_COLUMN)) for each in column)}"
        "</mj-column>"
        for column in block.columns
    )
    return f'<mj-section css-class="columns" padding="0 16px">{columns}</mj-section>\n'


def _component(block: InColumn, inset: str = "") -> str:
    match block:
        case Heading():
            size = _SIZES[block.level]
            return (
                f'<mj-text css-class="text heading" align="{block.align}" font-size="{size}"'
                f' line-height="1.25" font-weight="700" padding-top="8px"{inset}>'
                f"<h{block.level}>{_escaped(block.text)}</h{block.level}></mj-text>"
            )
        case Text():
            return (
                f'<mj-text css-class="text" align="{block.align}"{inset}>{_html(block.html)}'
                "</mj-text>"
            )
        case PictureBlock():
            return _picture(block, inset)
        case Button():
            colour = _button_colour(Colour(block.colour)) if block.colour else ""
            return (
                f'<mj-button css-class="button" href="{_escaped(block.link)}"'
                f' align="{block.align}"{colour}{inset}>{_escaped(block.text)}</mj-button>'
            )
        case Divider():
            return f'<mj-divider css-class="rule"{inset} />'
        case Spacer():
            return f'<mj-spacer height="{block.height}px" />'
        case Quote():
            source = f"<p>— {_escaped(block.source)}</p>" if block.source else ""
            return (
                f'<mj-text css-class="text quote"{inset}><blockquote>'
                f"<p>{_escaped(block.text)}</p></blockquote>{source}</mj-text>"
            )
        case Social():
            links = " &nbsp;·&nbsp; ".join(
                f'<a href="{_escaped(link.url)}">{_escaped(link.name)}</a>' for link in block.links
            )
            return (
                f'<mj-text css-class="text links" align="{block.align}"'
                f' padding-bottom="16px"{inset}>'
                f"{links or '{% brand links %}'}</mj-text>"
            )
        case RawHtml():
            return f'<mj-text css-class="text"{inset}>{_html(block.html)}</mj-text>'
        case _:
            assert_never(block)


def _button_colour(colour: Colour) -> str:
    return f' background-color="{colour}" color="{text_on(colour)}"'


def _picture(block: PictureBlock, inset: str) -> str:
    link = f' href="{_escaped(block.link)}"' if block.link else ""
    width = f' width="{block.width}px"' if block.width else ' fluid-on-mobile="true"'
    return (
        f'<mj-image css-class="picture" src="{_escaped(block.src)}" alt="{_escaped(block.alt)}"'
        f' align="{block.align}"{link}{width}{inset} />'
    )


def _footer_note(text: str) -> str:
    if not text:
        return ""
    return _SECTION.format(
        '<mj-text css-class="text small" align="center" font-size="13px" color="#6a6f76">'
        f"<p>{_escaped(text)}</p></mj-text>"
    )


def _post(post: Post) -> str:
    title = _escaped(post.title)
    if post.link:
        title = f'<a href="{_escaped(post.link)}">{title}</a>'
    text = f"<p>{_escaped(post.text)}</p>" if post.text else ""
    words = f'<mj-text css-class="text post" padding-bottom="8px"><h2>{title}</h2>{text}</mj-text>'
    if not post.picture:
        return f"<mj-section><mj-column>{words}</mj-column></mj-section>\n"
    link = f' href="{_escaped(post.link)}"' if post.link else ""
    return (
        '<mj-section css-class="post-row">'
        f'<mj-column width="32%"><mj-image css-class="post-picture" src="{_escaped(post.picture)}"'
        f' alt="{_escaped(post.alt)}"{link} align="left" fluid-on-mobile="true"'
        ' padding="4px 0 16px 32px" />'
        f'</mj-column><mj-column width="68%">{words}</mj-column></mj-section>\n'
    )


def _escaped(text: str) -> str:
    return html.escape(text)


def _html(source: str) -> str:
    """Return HTML that cannot end the tag around it."""
    return with_quotes_escaped(source).replace("</mj-", "&lt;/mj-")
