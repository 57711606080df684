"""The canvas of the editor: the email itself, with marks and placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from postroom.composing.brand import EmailBrand
from postroom.composing.builtin import BUILT_IN
from postroom.composing.canvas import compile_canvas
from postroom.composing.compiler import compile_source
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.plaintext import text_from_html

BRAND = EmailBrand(name="Garden club")
PLACEHOLDER = "/static/placeholder.svg"
BLOCKS = [
    {"type": "heading", "text": "Hello"},
    {"type": "text", "html": "<p>Dear <b>{{ email }}</b></p>"},
    {
        "type": "columns",
        "columns": [
            [{"type": "text", "html": "<p>Left</p>"}, {"type": "spacer"}, {"type": "divider"}],
            [],
        ],
    },
    {"type": "posts", "posts": [{"title": "One"}, {"title": "Two"}]},
]


def canvas_of(blocks: Sequence[object], template: str = "") -> str:
    source = json.dumps({"version": 1, "blocks": blocks})
    layout = BUILT_IN[template].layout if template else None
    made = compile_canvas(source, BRAND, layout, PLACEHOLDER)
    assert made.errors == []
    return made.html


def marks_in(html: str) -> list[str]:
    shown = re.sub(r"<!--.*?-->", "", html, flags=re.DOTALL)
    return re.findall(r"pr-block-([\d-]+)", shown)


def test_every_block_and_column_has_a_mark() -> None:
    assert marks_in(canvas_of(BLOCKS)) == [
        "0", "1", "2", "2-0", "2-0-0", "2-0-1", "2-0-2", "2-1", "3", "3",
    ]  # fmt: skip


def test_the_canvas_shows_what_the_email_shows() -> None:
    source = json.dumps({"version": 1, "blocks": BLOCKS})
    email = compile_source(source, MessageFormat.BLOCKS, BRAND)
    assert text_from_html(canvas_of(BLOCKS)) == email.text


def test_text_is_free_of_inlined_styles_so_that_it_can_be_edited() -> None:
    assert "<p>Dear <b>{{ email }}</b></p>" in canvas_of(BLOCKS)


def test_what_is_missing_has_a_placeholder() -> None:
    empty = [{"type": "picture", "src": "", "alt": ""}]
    assert f'src="{PLACEHOLDER}"' in canvas_of(empty)
    assert "<h1>Title</h1>" in canvas_of([], "newsletter")
    assert compile_canvas("", BRAND, None, PLACEHOLDER).errors == []


def test_scripts_never_reach_the_canvas() -> None:
    hostile = "<p onclick='x()'>Hi<script>x()</script><svg onload=x()></svg></p>"
    html = canvas_of([{"type": "html", "html": hostile}, {"type": "text", "html": hostile}])
    assert "<script" not in html
    assert "<svg" not in html
    assert "x()" not in html
