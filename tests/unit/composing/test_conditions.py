"""Conditions in all formats: in text, around blocks, around sections of MJML."""

import json
import re

import pytest

from postroom.composing.blocks.canvas import compile_canvas
from postroom.composing.brand import EmailBrand
from postroom.composing.compiler import Compiled, compile_source
from postroom.composing.format_conversions import convert
from postroom.composing.layouts import Layout
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.bodies.html import HtmlTag, tokens
from postroom.mail.personal.content_conditions import resolved

GERMAN = 'language = "de"'
BLOCKS = {
    "version": 1,
    "blocks": [
        {"type": "text", "html": "<p>Start</p>"},
        {"type": "posts", "posts": [{"title": "Eins"}, {"title": "Zwei"}], "condition": GERMAN},
        {
            "type": "columns",
            "columns": [
                [{"type": "heading", "text": "Links", "condition": GERMAN}],
                [{"type": "text", "html": f"<p>A{{% if {GERMAN} %}}B{{% else %}}C{{% end %}}</p>"}],
            ],
        },
        {"type": "button", "text": "Go", "link": "https://x.example", "condition": f"not {GERMAN}"},
    ],
}
MARKDOWN = f"""\
Start

{{% if {GERMAN} %}}
# Titel
- Eins
{{% else %}}
Title
{{% end %}}
- End
"""
MJML = f"""\
<mjml><mj-body><mj-wrapper>
<mj-section><mj-column>
<mj-raw>{{% if {GERMAN} %}}</mj-raw><mj-text>Eins</mj-text><mj-raw>{{% end %}}</mj-raw>
<mj-text>Start</mj-text></mj-column></mj-section>
<mj-raw>{{% if {GERMAN} %}}</mj-raw>
<mj-section><mj-column><mj-text>Zwei</mj-text></mj-column></mj-section>
<mj-raw>{{% else %}}</mj-raw>
<mj-section css-class="x"><mj-column><mj-text>Two</mj-text></mj-column></mj-section>
<mj-raw>{{% end %}}</mj-raw>
</mj-wrapper></mj-body></mjml>
"""


def compiled(source: str, format: MessageFormat, layout: Layout | None = None) -> Compiled:
    return compile_source(source, format, EmailBrand(), layout)


def words(document: str) -> list[str]:
    return re.sub(r"<!--.*?-->|<head>.*?</head>|<[^>]*>", " ", document, flags=re.DOTALL).split()


def is_balanced(document: str) -> bool:
    """Whether every tag is closed in its order, for Outlook, too."""
    for seen in (document, re.sub(r"<!--\[if mso \| IE\]>|<!\[endif\]-->", "", document)):
        opened: list[str] = []
        for token in tokens(seen, "div", "table", "tbody", "tr", "td"):
            if not isinstance(token, HtmlTag):
                continue
            if not token.closes:
                opened.append(token.name)
            elif not opened or opened.pop() != token.name:
                return False
        if opened:
            return False
    return True


@pytest.mark.parametrize(
    ("source", "format", "for_germans", "for_others"),
    [
        (
            json.dumps(BLOCKS),
            MessageFormat.BLOCKS,
            "Start Eins Zwei Links AB",
            "Start AC Go",
        ),
        (MARKDOWN, MessageFormat.MARKDOWN, "Start Titel Eins End", "Start Title End"),
        (MJML, MessageFormat.MJML, "Eins Start Zwei", "Start Two"),
        (
            f"<p>Start</p>{{% if {GERMAN} %}}<p>Eins</p>{{% end %}}",
            MessageFormat.HTML,
            "Start Eins",
            "Start",
        ),
    ],
)
def test_conditions_surround_the_same_content_in_every_format(
    source: str, format: MessageFormat, for_germans: str, for_others: str
) -> None:
    found = compiled(source, format)
    assert found.findings == ()
    for is_german, expected in ((True, for_germans), (False, for_others)):
        holding = {GERMAN} if is_german else {f"not {GERMAN}", f"not ({GERMAN})"}
        document = resolved(found.html, holding.__contains__, in_html=True)
        assert words(document) == expected.split()
        assert is_balanced(document)
    holds_text = resolved(found.text, lambda rule: not rule.startswith("not"), in_html=False)
    assert re.findall(r"[A-Z][a-z]*", holds_text)[:2] == for_germans.split()[:2]


def test_conversions_keep_conditions() -> None:
    brand = EmailBrand()
    format, blocks = convert(MARKDOWN, MessageFormat.MARKDOWN, brand)
    conditions = [each.get("condition") for each in json.loads(blocks)["blocks"]]
    assert conditions == [None, GERMAN, GERMAN, f"not ({GERMAN})", None]
    _, mjml = convert(blocks, format, brand)
    found = compiled(mjml, MessageFormat.MJML)
    document = resolved(found.html, lambda rule: not rule.startswith("not"), in_html=True)
    assert words(document) == ["Start", "Titel", "Eins", "End"]


@pytest.mark.parametrize(
    ("source", "format", "problem"),
    [
        (
            MARKDOWN.replace("language", "town"),
            MessageFormat.MARKDOWN,
            "line 3, column 7: there is no field town",
        ),
        (
            MARKDOWN.replace("{% end %}", ""),
            MessageFormat.MARKDOWN,
            'line 3, column 1: {% if language = "de" %} has no {% end %}',
        ),
        (
            json.dumps(BLOCKS, indent=1).replace("not language", "town"),
            MessageFormat.BLOCKS,
            "line 38, column 3: there is no field town",
        ),
        (
            f'<a href="https://x.example/{{% if {GERMAN} %}}a{{% end %}}">x</a>',
            MessageFormat.HTML,
            "cannot be used in a tag",
        ),
        (
            f"[x](https://x.example/{{% if {GERMAN} %}}a{{% end %}})",
            MessageFormat.MARKDOWN,
            "cannot be used in a tag",
        ),
        (
            f"<mjml><mj-body><mj-raw>{{% if {GERMAN} %}}</mj-raw><mj-section><mj-column>"
            "<mj-raw>{% end %}</mj-raw></mj-column></mj-section></mj-body></mjml>",
            MessageFormat.MJML,
            "must be in the same tag of MJML",
        ),
    ],
)
def test_a_condition_that_cannot_be_used_is_an_error_at_its_place(
    source: str, format: MessageFormat, problem: str
) -> None:
    [found] = compiled(source, format).errors
    assert problem in str(found)


def test_markers_may_be_between_the_tags_of_mjml() -> None:
    bare = re.sub("</?mj-raw>", "", MJML)
    assert "mj-raw" not in bare
    assert compiled(bare, MessageFormat.MJML) == compiled(MJML, MessageFormat.MJML)
    inner = re.sub("</?(mjml|mj-body|mj-wrapper)>", "", bare)
    layout = Layout("<mjml><mj-body>{% slot content %}</mj-body></mjml>")
    html = compiled(inner, MessageFormat.MJML, layout).html
    german = resolved(html, GERMAN.__eq__, in_html=True)
    assert words(german)[:3] == ["Eins", "Start", "Zwei"]
    assert "Two" not in german


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (MJML.replace("<mj-text>Start</mj-text>", "\n{{ email }}"), "the text '{{ email }}' must"),
        (
            MJML.replace("<mj-text>Start</mj-text>", f"{{% if {GERMAN} %}}x{{% end %}}"),
            "the text '{% if language = \"de\" %}x{% en' must",
        ),
        (f"{{% if {GERMAN} %}}<mjml><mj-body></mj-body></mjml>{{% end %}}", "within <mj-body>"),
    ],
)
def test_other_words_between_the_tags_of_mjml_are_named_as_they_were_written(
    source: str, problem: str
) -> None:
    assert problem in compiled(source, MessageFormat.MJML).errors[0].text


def test_a_template_may_not_put_a_condition_around_conditions() -> None:
    layout = Layout(
        f"<mjml><mj-body><mj-raw>{{% if {GERMAN} %}}</mj-raw>{{% slot content %}}"
        "<mj-raw>{% end %}</mj-raw></mj-body></mjml>"
    )
    assert compiled("plain", MessageFormat.MARKDOWN, layout).errors == []
    [found] = compiled(MARKDOWN, MessageFormat.MARKDOWN, layout).errors
    assert "conditions cannot be nested" in found.text


def test_the_canvas_shows_blocks_with_conditions_and_reports_wrong_rules() -> None:
    source = json.dumps(BLOCKS).replace("not language", "town")
    found = compile_canvas(source, EmailBrand(), None, "placeholder.svg")
    assert "Zwei" in found.html
    assert "Go" in found.html
    assert "pr-block-2-0-0" in found.html
    [problem] = found.findings
    assert problem.text.startswith("the condition: there is no field town")
