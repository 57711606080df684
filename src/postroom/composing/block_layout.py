"""Blocks become sections of MJML."""

from __future__ import annotations

import html
from typing import Final, assert_never

from postroom.composing.blocks import (
    Block,
    BlockDocument,
    Button,
    Columns,
    Divider,
    Footer,
    Heading,
    InColumn,
    Picture,
    Post,
    Posts,
    Quote,
    RawHtml,
    Social,
    Spacer,
    Text,
)
from postroom.domain.audience.appearance import Colour, text_on
from postroom.mail.merge_fields import with_quotes_escaped

_SECTION: Final = "<mj-section><mj-column>{}</mj-column></mj-section>\n"
_IN_COLUMN: Final = ' padding-left="16px" padding-right="16px"'
_SIZES: Final = {1: "30px", 2: "23px", 3: "18px"}


def to_sections(document: BlockDocument, *, with_footer: bool = True) -> list[str]:
    """Return the sections of each block, as parts of a template. Their HTML is as the author wrote
    it: not yet checked. A footer is left out if the template has one."""
    return [
        _section(block) if with_footer or not isinstance(block, Footer) else ""
        for block in document.blocks
    ]


def _section(block: Block) -> str:
    match block:
        case Columns():
            return _columns(block)
        case Posts():
            return "".join(map(_post, block.posts))
        case Footer():
            return f"{_footer_note(block.text)}{{% footer %}}\n"
        case _:
            return _SECTION.format(_component(block))


def _columns(block: Columns) -> str:
    columns = "".join(
        f"<mj-column>{''.join(_component(each, _IN_COLUMN) for each in column)}</mj-column>"
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
        case Picture():
            return _picture(block, inset)
        case Button():
            colour = ""
            if block.colour:
                colour = (
                    f' background-color="{block.colour}" color="{text_on(Colour(block.colour))}"'
                )
            return (
                f'<mj-button css-class="button" href="{_escaped(block.link)}"'
                f' align="{block.align}"{colour}{inset}>{_escaped(block.text)}</mj-button>'
            )
        case Divider():
            return f'<mj-divider css-class="rule"{inset} />'
        case Spacer():
            return f'<mj-spacer height="{block.height}px" />'
        case Quote():
            source = f"<p>{_escaped(block.source)}</p>" if block.source else ""
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


def _picture(block: Picture, inset: str) -> str:
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
    words = f'<mj-text css-class="text post" padding-bottom="8px"><h3>{title}</h3>{text}</mj-text>'
    if not post.picture:
        return f"<mj-section><mj-column>{words}</mj-column></mj-section>\n"
    link = f' href="{_escaped(post.link)}"' if post.link else ""
    return (
        '<mj-section css-class="post-row">'
        f'<mj-column width="32%"><mj-image css-class="post-picture" src="{_escaped(post.picture)}"'
        f' alt="{_escaped(post.alt)}"{link} align="left" padding="4px 0 16px 32px" />'
        f'</mj-column><mj-column width="68%">{words}</mj-column></mj-section>\n'
    )


def _escaped(text: str) -> str:
    return html.escape(text)


def _html(source: str) -> str:
    """Return HTML that cannot end the tag around it."""
    return with_quotes_escaped(source).replace("</mj-", "&lt;/mj-")
