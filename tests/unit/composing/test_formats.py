"""Four formats become HTML and text; what is wrong with them has a line and column."""

import json

import msgspec
import pytest

from postroom.composing.brand import EmailBrand
from postroom.composing.builtin import BUILT_IN
from postroom.composing.compiler import LARGEST_SOURCE, compile_source
from postroom.composing.content_findings import ContentFinding, Level
from postroom.composing.format_conversions import convert
from postroom.composing.layouts import Layout, LayoutFormat
from postroom.domain.audience.lists.appearance import Colour
from postroom.domain.audience.lists.brand import Brand
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.bodies.branded_frame import BrandedFrame
from postroom.mail.personal.merge_fields import check_fields
from tests.unit.composing.samples import BRAND, EVERY_BLOCK, MARKDOWN

HTML, MARKDOWN_, MJML, BLOCKS = (
    MessageFormat.HTML,
    MessageFormat.MARKDOWN,
    MessageFormat.MJML,
    MessageFormat.BLOCKS,
)
SECTION = "<mj-section><mj-column>{}</mj-column></mj-section>"
WHOLE = f"<mjml><mj-body>{SECTION}</mj-body></mjml>"
DOCUMENT = "<!doctype html>\n<html><body bgcolor=red><p>Mine</body></html>"


def found(source: str, format: MessageFormat, layout: Layout | None = None) -> list[ContentFinding]:
    return list(compile_source(source, format, BRAND, layout).findings)


def places(source: str, format: MessageFormat) -> list[tuple[str, int, int]]:
    return [(each.code, each.line, each.column) for each in found(source, format)]


# -- HTML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document", [DOCUMENT, "<body>Mine</body>", "<!-- a -->\n<!DOCTYPE html><p>x", "<HTML><p>x"]
)
def test_a_whole_document_stays_as_it_is(document: str) -> None:
    assert compile_source(document, HTML, BRAND).html == document


# -- merge fields ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "format"),
    [
        ("<p>{{ email | default: 'you' }}</p><a href='{{ unsubscribe_url }}'>x</a>", HTML),
        ("{{ email | default: 'you' }} [x]({{ unsubscribe_url }})", MARKDOWN_),
        (
            WHOLE.format(
                "<mj-text>{{ email | default: 'you' }}</mj-text>"
                '<mj-button href="{{ unsubscribe_url }}">x</mj-button>'
            ),
            MJML,
        ),
        (
            json.dumps(
                {
                    "version": 1,
                    "blocks": [
                        {"type": "heading", "text": '{{ email | default: "you" }}'},
                        {"type": "button", "text": "x", "link": "{{ unsubscribe_url }}"},
                    ],
                }
            ),
            BLOCKS,
        ),
    ],
)
def test_fields_survive_every_format(source: str, format: MessageFormat) -> None:
    compiled = compile_source(source, format, BRAND)
    assert not compiled.findings
    check_fields("html", compiled.html)
    assert compiled.html.count("{{ email | default: ") == 1
    assert compiled.html.replace("'", '"').count('href="{{ unsubscribe_url }}"') == 1
    assert "{{ unsubscribe_url }}" in compiled.text
    assert 'default: "you" }}' in compiled.text


@pytest.mark.parametrize("format", [HTML, MARKDOWN_, MJML])
def test_an_unknown_field_is_refused_with_its_position(format: MessageFormat) -> None:
    [finding] = found("one\ntwo {{ nope }}", format)
    assert (finding.level, finding.code) == (Level.ERROR, "merge-field")
    assert (finding.line, finding.column) == (2, 5)
    assert finding.text.startswith("there is no merge field {{ nope }}")


# -- MJML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<mjml>\n<mj-body>\n <mj-foo /></mj-body></mjml>", [("mjml-tag", 3, 2)]),
        ("<mjml><mj-body><mj-text>x</mj-text></mj-body></mjml>", [("mjml-place", 1, 16)]),
        ('<mjml><mj-body><mj-include path="/etc/passwd" /></mj-body></mjml>',
         [("mjml-include", 1, 16)]),
        (WHOLE.format("hello"), [("mjml-text", 1, 39)]),
        (WHOLE.format("<mj-image src=x />"), [("mjml-attribute", 1, 49)]),
        (WHOLE.format("\n<mj-text>x"), [("mjml-unclosed", 2, 1)]),
        ("<mjml><mj-body></mj-section></mj-body></mjml>", [("mjml-unopened", 1, 16)]),
        ("<mjml></mjml>", [("mjml-root", 1, 1)]),
        ("<p>x</p>", [("mjml-text", 1, 4), ("mjml-tag", 1, 1), ("mjml-root", 1, 1)]),
        (WHOLE.format("{{ email }} <mj-bar />"), [("mjml-text", 1, 39), ("mjml-tag", 1, 51)]),
        (WHOLE.format('<mj-button href="javascript:x">x</mj-button>'), [("link-scheme", 1, 39)]),
        (WHOLE.format('<mj-image src="file:///etc/passwd" />'), [("link-scheme", 1, 39)]),
        (WHOLE.format("a\x01"), [("character", 1, 40)]),
        (WHOLE.format("<mj-text>{{ nope }}</mj-text>\n<mj-buton />"),
         [("merge-field", 1, 48), ("mjml-tag", 2, 1)]),
    ],
)  # fmt: skip
def test_mistakes_in_mjml_have_their_position(
    source: str, expected: list[tuple[str, int, int]]
) -> None:
    assert sorted(places(source, MJML)) == sorted(expected)
    assert not compile_source(source, MJML, BRAND).html


@pytest.mark.parametrize(
    "css",
    ["@import url(https://x);", "p{background:url(file:///x)}", "p{x:url( '//h/x')}", "</style>x"],
)
def test_a_style_loads_nothing_but_pictures(css: str) -> None:
    source = f"<mjml><mj-head><mj-style>{css}</mj-style></mj-head><mj-body></mj-body></mjml>"
    assert [each.code for each in found(source, MJML)] == ["css-loads"]


def test_styles_marked_as_inline_are_inlined() -> None:
    head = '<mj-head><mj-style inline="inline">.a p { color: red }</mj-style></mj-head>'
    body = SECTION.format('<mj-text css-class="a"><p>x</p></mj-text>')
    compiled = compile_source(f"<mjml>{head}<mj-body>{body}</mj-body></mjml>", MJML, BRAND)
    assert '<p style="color: red;">x</p>' in compiled.html
    assert "@media only screen" in compiled.html, "the styles of MJML itself stay"


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{", ("blocks-json", 1, 2)),
        ("[" * 100_000, ("blocks-schema", 1, 1)),
        ('{"version": 2, "blocks": []}', ("blocks-schema", 1, 13)),
        ('{"version": 1, "blocks": [\n  {"type": "nope"}]}', ("blocks-schema", 2, 12)),
        ('{"version": 1, "blocks": [\n  {"type": "heading"}]}', ("blocks-schema", 2, 3)),
        ('{"version": 1, "blocks": [\n{"type": "divider", "x": 1}]}', ("blocks-schema", 2, 1)),
        ('{"version": 1, "blocks": [\n\n{"type": "text", "html": "{{ x }}"}]}',
         ("merge-field", 3, 1)),
        ('{"version": 1, "blocks": [{"type": "divider"},\n {"type": "button", "text": "x",'
         ' "link": "javascript:alert(1)"}]}', ("link-scheme", 2, 2)),
        ('{"version": 1, "blocks": [{"type": "divider"},\n {"type": "html", "html":'
         ' "<iframe src=x></iframe>"}]}', ("removed", 2, 2)),
    ],
)  # fmt: skip
def test_mistakes_in_blocks_have_their_position(
    source: str, expected: tuple[str, int, int]
) -> None:
    assert places(source, BLOCKS) == [expected]


# -- templates -------------------------------------------------------------------------------------

OWN = Layout(
    '<mjml><mj-body>{% slot content %}<mj-section when="slot more"><mj-column>'
    "<mj-text>{% slot more %}: {% slot name %}</mj-text></mj-column></mj-section></mj-body></mjml>"
)


def test_a_template_of_mjml_gets_content_in_any_format() -> None:
    for source, format in (
        ("---\nname: <Ann>\n---\n**Hi**", MARKDOWN_),
        ("---\nname: <Ann>\nmore: Yes\n---\n<strong>Hi</strong>", HTML),
        (f"---\nname: <Ann>\n---\n{SECTION.format('<mj-text>Hi</mj-text>')}", MJML),
        (
            '{"version": 1, "slots": {"name": "<Ann>"}, "blocks":'
            ' [{"type": "text", "html": "Hi"}]}',
            BLOCKS,
        ),
    ):
        compiled = compile_source(source, format, BRAND, OWN)
        assert not compiled.findings
        assert "Hi" in compiled.html
        assert ("Yes: &lt;Ann&gt;" in compiled.html) == ("more: Yes" in source)


def test_the_text_of_a_footer_is_kept_in_a_template_that_has_a_footer() -> None:
    source = json.dumps({"version": 1, "blocks": [{"type": "footer", "text": "Just reply."}]})
    compiled = compile_source(source, MessageFormat.BLOCKS, BRAND, BUILT_IN["letter"].layout)
    assert compiled.text.count("Just reply.") == 1
    assert compiled.html.count("{{ unsubscribe_url }}") == 1


def test_a_template_of_html_gets_markdown_or_html() -> None:
    layout = Layout("<html><h1>{% slot title %}</h1>{% slot content %}</html>", LayoutFormat.HTML)
    compiled = compile_source("---\ntitle: A & B\n---\n*x* {{ email }}", MARKDOWN_, BRAND, layout)
    assert compiled.html == "<html><h1>A &amp; B</h1><p><em>x</em> {{ email }}</p>\n</html>"
    [finding] = found(EVERY_BLOCK, BLOCKS, layout)
    assert finding.text == "blocks need a template in MJML"


@pytest.mark.parametrize(
    ("source", "code", "line"),
    [
        ("Hi", "slot-missing", 1),
        ("---\nname: x\nother: y\n---\nHi", "slot-unknown", 1),
        ("---\nname: x\n?\n---\nHi", "front-matter", 3),
        ("---\nname: x\n---\n\n{{ nope }}", "merge-field", 5),
    ],
)
def test_what_a_template_lacks_is_found(source: str, code: str, line: int) -> None:
    [finding] = found(source, MARKDOWN_, OWN)
    assert (finding.code, finding.line) == (code, line)


# -- conversions -----------------------------------------------------------------------------------


def test_a_message_can_be_converted_step_by_step() -> None:
    source = f"# For {{{{ email | default: 'you' }}}}\n\n![Hills](https://example.com/x.png)\n\n{MARKDOWN}"
    format, blocks = convert(source, MARKDOWN_, BRAND)
    assert format is BLOCKS
    document = json.loads(blocks)
    assert document["blocks"][0] == {
        "type": "heading",
        "text": 'For {{ email | default: "you" }}',
        "level": 1,
        "align": "left",
    }
    assert [each["type"] for each in document["blocks"][1:5]] == [
        "picture",
        "text",
        "heading",
        "text",
    ]
    assert "quote" in {each["type"] for each in document["blocks"]}
    texts = [compile_source(blocks, format, BRAND).text]
    source = blocks
    for expected in (MJML, HTML):
        format, source = convert(source, format, BRAND)
        assert format is expected
        compiled = compile_source(source, format, BRAND)
        assert not compiled.findings
        texts.append(compiled.text)
    assert texts[0] == texts[1] == texts[2]
    with pytest.raises(Invalid, match="HTML cannot be converted"):
        convert(source, HTML, BRAND)


def test_tables_and_code_become_parts_of_text_blocks() -> None:
    source = "Prices:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx = 1\n```"
    [block] = json.loads(convert(source, MARKDOWN_, BRAND)[1])["blocks"]
    assert block["type"] == "text"
    assert block["html"].startswith("<p>Prices:</p>\n<table>")
    assert block["html"].endswith("<pre><code>x = 1\n</code></pre>")


def test_a_source_with_errors_is_not_converted() -> None:
    with pytest.raises(Invalid, match="body: line 2, column 1: the merge field"):
        convert("Hi\n{{ nope", MARKDOWN_, BRAND)


def test_a_source_may_not_be_too_large() -> None:
    [finding] = found("x" * (LARGEST_SOURCE + 1), MARKDOWN_)
    assert finding.text == "must have at most 500,000 characters, not 500,001"


def test_buttons_have_a_separate_colour_if_the_brand_has_one() -> None:
    source = json.dumps(
        {"version": 1, "blocks": [{"type": "button", "text": "Go", "link": "https://x.example"}]}
    )

    def compiled(brand: EmailBrand) -> str:
        return compile_source(source, MessageFormat.BLOCKS, brand).html

    same = msgspec.structs.replace(BRAND, button_colour=BRAND.colour)
    assert compiled(BRAND) == compiled(same)
    yellow = compiled(msgspec.structs.replace(BRAND, button_colour=Colour("#ffcc00")))
    button = yellow.partition('href="https://x.example"')[2].partition(">")[0]
    assert "#ffcc00" in button
    assert "color:#000000" in button.replace(" ", "")
    framed = BrandedFrame(Brand(colour=Colour("#0b6e4f"), button_colour=Colour("#ffcc00")))
    assert "background:#ffcc00" in framed.button("Go", "https://x.example")
    plain = BrandedFrame(Brand(colour=Colour("#0b6e4f")))
    assert "background:#0b6e4f" in plain.button("Go", "https://x.example")
