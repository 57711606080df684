"""Hostile sources: nothing of them runs, nothing is fetched, and nothing ends the process."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.composing.compiler import check_layout, compile_source
from postroom.composing.content_findings import Level
from postroom.composing.layouts import Layout, LayoutFormat
from postroom.composing.mjml.markup import inline_styles
from postroom.composing.sanitising import sanitise
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.bodies.html import HtmlTag, tokens
from tests.unit.composing.samples import BRAND
from tests.unit.mail.mailings import mailing, recipient
from tests.unit.mail.strict import bodies, parse

SECTION = "<mjml><mj-body><mj-section><mj-column>{}</mj-column></mj-section></mj-body></mjml>"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<svg onload="alert(1)"><script>alert(1)</script></svg>',
    '<a href="javascript:alert(1)">x</a>',
    '<a href=" java\tscript:alert(1)">x</a>',
    '<a href="data:text/html,<script>alert(1)</script>">x</a>',
    '<img src="file:///etc/passwd">',
    '<iframe src="http://127.0.0.1/"></iframe>',
    '<object data="http://127.0.0.1/"></object>',
    '<link rel="stylesheet" href="http://127.0.0.1/x.css">',
    "<style>@import url(http://127.0.0.1/x.css)</style>",
    '<p style="background:url(http://127.0.0.1/x)">x</p>',
    '<p style="background-image:url(file:///etc/passwd)">x</p>',
    "</p></div></td></table></body></html><script>alert(1)</script>",
    "<base href='http://127.0.0.1/'><form action='http://127.0.0.1/'><input></form>",
    '<math><mtext></form><form><mglyph><style></math><img src onerror="alert(1)">',
    "<!--[if mso]><script>alert(1)</script><![endif]-->",
    '<meta http-equiv="refresh" content="0;url=http://127.0.0.1/">',
]
_ACTIVE = {"script", "iframe", "object", "embed", "form", "link", "base", "svg", "math"}


@pytest.mark.parametrize("html", HOSTILE)
@pytest.mark.parametrize("format", ["markdown", "mjml", "mj-raw", "blocks"])
def test_no_active_content_is_left(html: str, format: str) -> None:
    if format == "blocks":
        block = {"type": "html", "html": html}
        source, chosen = json.dumps({"version": 1, "blocks": [block]}), MessageFormat.BLOCKS
    elif format == "markdown":
        source, chosen = f"Hello\n\n{html}\n", MessageFormat.MARKDOWN
    else:
        tag = "mj-text" if format == "mjml" else "mj-raw"
        source, chosen = SECTION.format(f"<{tag}>{html}</{tag}>"), MessageFormat.MJML
    compiled = compile_source(source, chosen, BRAND)
    assert compiled.html, compiled.findings
    assert "alert(1)" not in compiled.html
    assert "127.0.0.1" not in compiled.html
    assert "file:" not in compiled.html
    for token in tokens(compiled.html):
        if isinstance(token, HtmlTag):
            assert token.name not in _ACTIVE
            assert not any(name.startswith("on") for name in token.attributes)
            assert "script:" not in token.attributes.get("href", "").lower()


@pytest.mark.parametrize("attribute", ["css-class", "padding", "background-color", "align"])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_attributes_of_mjml_cannot_break_out(attribute: str, quote: str) -> None:
    value = '"><script>alert(1)</script><!-- --> ]]>'.replace(quote, "&#34;")
    source = SECTION.format(f"<mj-text {attribute}={quote}{value}{quote}>x</mj-text>")
    compiled = compile_source(source, MessageFormat.MJML, BRAND)
    assert "<script" not in compiled.html


DEEP = {
    "formatting": ("<b>" * 150_000, MessageFormat.MARKDOWN),
    "boxes": ("<div>" * 90_000, MessageFormat.MARKDOWN),
    "in MJML": (SECTION.format(f"<mj-text>{'<i>' * 90_000}</mj-text>"), MessageFormat.MJML),
    "MJML": ("<mj-section>" * 40_000, MessageFormat.MJML),
    "quotes": (">" * 100_000, MessageFormat.MARKDOWN),
    "lists": ("- " * 10_000, MessageFormat.MARKDOWN),
    "links": ("[a](" * 20_000, MessageFormat.MARKDOWN),
    "angles": ("<" * 400_000, MessageFormat.MJML),
    "attributes": ('<mjml "' * 60_000, MessageFormat.MJML),
    "repeated": (
        "".join(f"<b id=a{number}>" for number in range(90)) + "<p>" * 100_000,
        MessageFormat.MARKDOWN,
    ),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused_before_a_library_sees_it(name: str) -> None:
    source, format = DEEP[name]
    began = time.process_time()
    compile_source(source, format, BRAND)
    assert time.process_time() - began < 10


@given(
    st.text(alphabet='<>/"=&;! abmjtexsrp-\n{}[]()*#', max_size=200),
    st.sampled_from([MessageFormat.MARKDOWN, MessageFormat.MJML, MessageFormat.BLOCKS]),
)
def test_no_source_raises_anything(source: str, format: MessageFormat) -> None:
    inner = SECTION.format(f"<mj-text>{source}</mj-text>")
    for each in (source, inner if format is MessageFormat.MJML else source):
        compiled = compile_source(each, format, BRAND)
        assert bool(compiled.html) != any(
            finding.level is Level.ERROR for finding in compiled.findings
        )


def test_inlining_styles_reads_no_file(tmp_path: Path) -> None:
    css = tmp_path / "style.css"
    css.write_text("p { color: #123456 }")
    document = (
        f'<html><head><link rel="stylesheet" href="{css.as_uri()}">'
        f'<link rel="stylesheet" href="{css}"></head><body><p>x</p></body></html>'
    )
    inlined = inline_styles(document, "p { margin: 0 }")
    assert "margin: 0" in inlined
    assert "#123456" not in inlined


def test_table_rows_survive() -> None:
    rows = "<tr><td>a</td></tr>"
    assert rows in sanitise(rows).html


def test_processes_that_do_not_compose_do_not_load_the_libraries() -> None:
    """They would make senders start later, and larger."""
    program = (
        "import sys, postroom.hosted, postroom.sender, postroom.wiring, postroom.web.app,"
        " postroom.composing.compiler, postroom.composing.format_conversions;"
        " print([name for name in ('nh3', 'mjml', 'css_inline', 'markdown_it')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    "css",
    [
        "@im\\port url(http://127.0.0.1/x.css);",
        "p { background: u\\72l(http://127.0.0.1/x) }",
        "p { background: ur/**/l(file:///etc/passwd) }",
        'p { background: image-set("http://127.0.0.1/x" 1x) }',
        'p { background: image-set(url(https://a.example/x) 1x, "http://127.0.0.1/x" 2x) }',
        'p { background: src("file:///etc/passwd") }',
    ],
)
def test_styles_of_mjml_load_nothing_however_they_are_written(css: str) -> None:
    head = f"<mj-head><mj-style>{css}</mj-style></mj-head>"
    source = SECTION.format("<mj-text>x</mj-text>").replace("<mj-body>", f"{head}<mj-body>")
    compiled = compile_source(source, MessageFormat.MJML, BRAND)
    assert [each.code for each in compiled.errors] == ["css-loads"]


def test_lists_of_pictures_have_no_local_files() -> None:
    html = '<img src="https://a.example/x.png" srcset="https://a.example/y.png 2x{}" alt="">'
    assert "srcset" in sanitise(html.format("")).html
    assert "srcset" not in sanitise(html.format(", file:///etc/passwd 3x")).html


def test_templates_in_html_have_no_scripts() -> None:
    source = '<html><body onload="x()">{% slot content %}\n<script>x()</script></body></html>'
    found = check_layout(Layout(source, LayoutFormat.HTML))
    assert [(each.line, each.text) for each in found] == [
        (1, "onload of <body> is not allowed in emails"),
        (2, "<script> is not allowed in emails"),
    ]


def test_emails_in_mjml_load_nothing_from_the_readers_machine() -> None:
    head = '<mj-head><mj-font name="X" href="http://127.0.0.1/font.css" /></mj-head>'
    source = SECTION.format(
        '<mj-image src="http://127.0.0.1/a.png" /><mj-text font-family="X">words</mj-text>'
    ).replace("<mj-body>", f"{head}<mj-body>")
    source = source.replace("<mj-section>", '<mj-section background-url="http://127.0.0.1/b.png">')
    compiled = compile_source(source, MessageFormat.MJML, BRAND)
    sent = bodies(parse(mailing(html=compiled.html).mail(recipient())))["text/html"]
    assert "words" in sent
    assert "127.0.0.1" not in sent
