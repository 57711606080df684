"""Whether a reader sees anything of a body."""

import time

import pytest

from postroom.domain.messages.messages import LARGEST_BODY
from postroom.mail.bodies.html import shows_html, shows_text


@pytest.mark.parametrize("text", ["", "  \n", "\t\r\n\u00a0\u2003", "\u200b\ufeff\u00ad\n", "\x0c"])
def test_blank_text_shows_nothing(text: str) -> None:
    assert not shows_text(text)
    assert not shows_html(text)


@pytest.mark.parametrize("text", ["a", "\n.\n", "안", "😀", "{{ email }}"])
def test_one_visible_character_is_enough(text: str) -> None:
    assert shows_text(text)
    assert shows_html(f"<p>{text}</p>")


@pytest.mark.parametrize(
    "html",
    [
        "<p>&nbsp;</p>",
        "<p>&#8203;&zwnj; &#160;</p><br><hr>",
        "<!doctype html><html><head><title>News</title><style>p {}</style></head><body></body>",
        "<!-- News --><script>'News'</script>",
        "<a href='https://example.com'></a>",
        "<p title='News'",
    ],
)
def test_html_without_text_and_pictures_shows_nothing(html: str) -> None:
    assert not shows_html(html)


@pytest.mark.parametrize(
    "html",
    [
        "<img src='https://example.com/a.png'>",
        "<td background='https://example.com/a.png'></td>",
        "<div style='background:url(https://example.com/a.png)'></div>",
        "<svg></svg>",
        "<title>x</title>x",
        "2 < 3",
    ],
)
def test_a_picture_is_content(html: str) -> None:
    assert shows_html(html)


def test_a_large_body_that_shows_nothing_is_read_in_linear_time() -> None:
    began = time.process_time()
    assert not shows_html("<p>&nbsp;</p>" * (LARGEST_BODY // 20 // 13))
    assert time.process_time() - began < 5
