"""Plain text out of HTML: what a reader without HTML should see."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.mail.bodies.plaintext import text_from_html
from postroom.mail.personal.merge_fields import check_fields


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("just text", "just text\n"),
        ("<p>One\n  and <b>two</b></p><p>three", "One and two\n\nthree\n"),
        ("a<br>b<br/><br />c", "a\nb\n\nc\n"),
        ("<h1>Big</h1><p>x</p><h2>Less</h2>y", "Big\n===\n\nx\n\nLess\n----\n\ny\n"),
        ("<h3>Small</h3>z", "Small\n\nz\n"),
        ("<ul><li>one<li><p>two</p></ul>x", "- one\n- two\n\nx\n"),
        ("<ol><li>a</li><li>b<ul><li>c</ul></ol>", "1. a\n2. b\n  - c\n"),
        ('<a href="https://x.org/?a=1&amp;b=2">page</a>.', "page (https://x.org/?a=1&b=2).\n"),
        ("<a href=https://x.org>https://x.org</a>", "https://x.org\n"),
        ("<a href='mailto:a@b.org'>a@b.org</a>", "a@b.org\n"),
        ('<a href="#top">up</a> <a>none</a>', "up none\n"),
        ('<a title="a > b" href="u">x</a>', "x (u)\n"),
        ('<a href="u"><img alt="Logo" src="x"></a>', "Logo (u)\n"),
        ('<a href="u"><img src="x"></a>', "u\n"),
        ("&lt;b&gt; &amp; &eacute;&#8364;&nbsp;x", "<b> & é€\xa0x\n"),
        ("<title>T</title><style>p{}</style>a<script>b</script>c<!-- d -->e", "ace\n"),
        ("a<script>never closed", "a\n"),
        ("a<!-- never closed", "a\n"),
        ("a<b never closed", "a\n"),
        ("1 < 2 <3 <![CDATA[x]]> </> y", "1 < 2 <3 y\n"),
        ("<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>", "1 2\n3\n"),
        ("<pre>a  b\n   c\n</pre>d", "a  b\n   c\n\nd\n"),
        ("a<hr>b", "a\n\n--------------------\n\nb\n"),
        ('<a href="{{ unsubscribe_url }}">Leave</a>', "Leave ({{ unsubscribe_url }})\n"),
        ("&#123;&#123; name }}, {{ email }}", "{ { name }}, {{ email }}\n"),
    ],
)
def test_html_becomes_readable_text(html: str, text: str) -> None:
    assert text_from_html(html) == text


pieces_of_markup = st.sampled_from(
    [
        *(
            "<p>",
            "</p>",
            "<a ",
            "<a\thref='x'>",
            '"',
            "'",
            ">",
            "<",
            "&",
            "</",
            "<!",
            "<!--",
            "-->",
        ),
        *("<pre>", "</h1>", "<h1>", "<ol>", "<li>", "</ol>", "{{", "x", "&#123;", " ", "\n"),
    ]
)


@given(st.lists(pieces_of_markup))
def test_any_markup_is_read_and_leaves_no_broken_field(pieces: list[str]) -> None:
    check_fields("text", text_from_html("".join(pieces)))


@pytest.mark.parametrize(
    "piece",
    ["<a ", "<!--", "<a b='", "<", "&", "<script", "<ul><li>", "x</h1>", "</body ", "<p '>"],
)
def test_a_broken_document_takes_no_longer_than_another(piece: str) -> None:
    before = time.process_time()
    text_from_html(piece * (500_000 // len(piece)))
    assert time.process_time() - before < 10  # quadratic would be minutes
