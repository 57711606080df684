"""Which sites pictures are loaded from, and light and dark previews."""

from __future__ import annotations

import pytest

from postroom.web.rendering.picture_sites import is_public_site, picture_sites
from postroom.web.rendering.sandbox import with_theme


def test_the_sites_of_a_document_are_found_once_each() -> None:
    document = """<img src="https://cdn.example.com/a.png"><img src='https://cdn.example.com/b.png'>
        <td style="background: url(http://pictures.example.org:8080/c.png)">
        <img src="http://127.0.0.1:9/x.png"><img src=http://localhost/y.png>"""
    assert picture_sites(document) == [
        "https://cdn.example.com",
        "http://pictures.example.org:8080",
    ]


def test_links_leave_the_pictures_their_place() -> None:
    links = "".join(f'<a href="https://site{number}.example.com/">x</a>' for number in range(80))
    document = f'{links}<img srcset="https://cdn.example.com/a.png 2x">'
    assert picture_sites(document) == ["https://cdn.example.com"]


def test_hostile_documents_are_searched_in_linear_time() -> None:
    document = "<meta " * 100_000 + 'src="' * 100_000  # minutes, if every place were searched again
    assert with_theme(document, is_dark=True) == document
    assert picture_sites(document) == []


@pytest.mark.parametrize(
    "site",
    [
        "http://127.0.0.1",
        "http://127.1",
        "http://2130706433",
        "http://0x7f.1",
        "http://10.0.0.8:8080",
        "http://192.168.1.1",
        "http://169.254.169.254",
        "http://[::1]",
        "http://[::ffff:127.0.0.1]",
        "http://localhost",
        "http://printer",
        "http://printer.local",
        "http://app.localhost.",
        "http://a@127.0.0.1",
        "https://*",
        "file:///etc/passwd",
        "https://example.com; script-src *",
        "https://example.com:\u0663",  # a digit, but not of this alphabet
        "",
    ],
)
def test_private_and_odd_sites_are_not_public(site: str) -> None:
    assert not is_public_site(site)
    assert site not in picture_sites(f'<img src="{site}/x.png">')


def test_a_document_is_shown_light_or_dark_whatever_the_screen_is() -> None:
    document = (
        '<meta name="color-scheme" content="light dark">'
        "<style>@media (prefers-color-scheme: dark) { p { color: white } }</style>"
    )
    dark, light = with_theme(document, is_dark=True), with_theme(document, is_dark=False)
    assert "@media (min-width: 0) {" in dark
    assert 'content="dark"' in dark
    assert "@media (max-width: 0) {" in light
    assert 'content="light"' in light
