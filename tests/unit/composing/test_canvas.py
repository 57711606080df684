"""The canvas of the editor: the email itself, with marks and placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from postroom.composing.blocks.canvas import compile_canvas
from postroom.composing.brand import EmailBrand
from postroom.composing.builtin import BUILT_IN
from postroom.composing.compiler import compile_source
from postroom.composing.layouts import Layout
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.bodies.plaintext import text_from_html

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


def test_parts_of_a_template_with_a_condition_are_shown_without_its_markers() -> None:
    section = "<mj-section><mj-column><mj-text>{}</mj-text></mj-column></mj-section>"
    layout = Layout(
        '<mjml><mj-body>{% slot content %}<mj-raw>{% if language = "de" %}</mj-raw>'
        + section.format("Guten Tag")
        + "<mj-raw>{% else %}</mj-raw>"
        + section.format('Hello {% if language = "fr" %}là{% end %}')
        + "<mj-raw>{% end %}</mj-raw></mj-body></mjml>"
    )
    source = json.dumps({"version": 1, "blocks": BLOCKS})
    made = compile_canvas(source, BRAND, layout, PLACEHOLDER)
    assert made.errors == []
    assert "{%" not in made.html
    assert text_from_html(made.html).endswith("Guten Tag\n\nHello là\n")


def test_a_block_of_which_the_email_shows_nothing_is_still_there_to_be_selected() -> None:
    shown = canvas_of([{"type": "social"}, {"type": "footer"}], "letter")
    assert marks_in(shown) == ["0", "1"]
    assert "It has none yet." in shown
    assert "The footer of the template is shown instead" in shown


def test_text_is_free_of_inlined_styles_so_that_it_can_be_edited() -> None:
    assert "<p>Dear <b>{{ email }}</b></p>" in canvas_of(BLOCKS)


def test_what_is_missing_has_a_placeholder() -> None:
    empty = [{"type": "picture", "src": "", "alt": ""}]
    assert f'src="{PLACEHOLDER}"' in canvas_of(empty)
    assert "<h1>Title</h1>" in canvas_of([], "newsletter")
    assert compile_canvas("", BRAND, None, PLACEHOLDER).errors == []


@pytest.mark.parametrize(
    "written",
    [
        "{{ first_name }}",
        "{{ foo }}",
        "{{ x",
        "{{{ email }}",
        '<a href="{{ foo }}">x</a>',
        '<a href="{{ foo">x</a>',
    ],
)
def test_a_merge_field_that_is_refused_is_shown_as_it_was_written(written: str) -> None:
    blocks = [
        {"type": "text", "html": f"<p>{written} {{{{ email }}}}</p>"},
        {"type": "heading", "text": "Next"},
    ]
    source = json.dumps({"version": 1, "blocks": blocks})
    made = compile_canvas(source, BRAND, None, PLACEHOLDER)
    assert [each.code for each in made.errors] == ["merge-field"]
    assert marks_in(made.html) == ["0", "1"]
    assert f"<p>{written} {{{{ email }}}}</p>" in made.html
    assert compile_source(source, MessageFormat.BLOCKS, BRAND).html == "", "never sent"


def test_a_merge_field_that_is_refused_in_a_slot_is_shown_as_it_was_written() -> None:
    source = json.dumps({"version": 1, "blocks": [], "slots": {"title": "Dear {{ foo }}"}})
    layout = BUILT_IN["newsletter"].layout
    made = compile_canvas(source, BRAND, layout, PLACEHOLDER)
    assert [each.code for each in made.errors] == ["merge-field"]
    assert "<h1>Dear {{ foo }}</h1>" in made.html


def test_scripts_never_reach_the_canvas() -> None:
    hostile = "<p onclick='x()'>Hi<script>x()</script><svg onload=x()></svg></p>"
    blocks = [{"type": kind, "html": hostile} for kind in ("html", "text")]
    assert_harmless(canvas_of(blocks))
    within_field = f"{{{{ {hostile} }}}} {{{{ foo | default: '{hostile}' }}}}"
    blocks = [{"type": kind, "html": within_field} for kind in ("html", "text")]
    source = json.dumps({"version": 1, "blocks": blocks})
    assert_harmless(compile_canvas(source, BRAND, None, PLACEHOLDER).html)


def assert_harmless(html: str) -> None:
    assert html
    assert "<script" not in html
    assert "<svg" not in html
    assert "x()" not in html
