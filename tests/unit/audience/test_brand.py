"""A list's brand: its links, and a letter for a missing logo."""

import pytest

from postroom.domain.audience.lists.brand import (
    FONT_LABELS,
    FONTS,
    Brand,
    BrandLink,
    initial_of,
    parse_social_links,
    parse_website,
)
from postroom.domain.errors import Invalid


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", ""),
        ("  ", ""),
        ("www.example.com", "https://www.example.com"),
        (" https://example.com/a?b=c&d#e ", "https://example.com/a?b=c&d#e"),
        ("http://bücher.example:8080/ä", "http://bücher.example:8080/ä"),
    ],
)
def test_a_website_has_its_scheme(text: str, url: str) -> None:
    assert parse_website(text) == url
    assert parse_website(url) == url


@pytest.mark.parametrize(
    "text",
    [
        "example",
        "javascript:alert(1)",
        "ftp://example.com",
        "data:text/html,x",
        "https://",
        "https://user:hush@example.com",
        "https://example.com:0",
        "https://example.com:x",
        "https://[::1",
        'https://example.com/"onclick=x',
        "https://example.com/<b>",
        "https://example.com/a b",
        "https://exam\nple.com",
        "https://example.com/" + "x" * 300,
        "\u202ehttps://example.com",
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    for parse, field in ((parse_website, "website"), (parse_social_links, "social_links")):
        if "\n" in text and parse is parse_social_links:
            continue  # two lines
        with pytest.raises(Invalid) as refused:
            parse(text)
        assert refused.value.field == field


def test_social_links_are_one_per_line_and_each_once() -> None:
    typed = "x.com/a\r\n\r\nhttps://x.com/a\nhttps://de.linkedin.com/in/a"
    assert parse_social_links(typed) == "https://x.com/a\nhttps://de.linkedin.com/in/a"
    with pytest.raises(Invalid, match="at most 8 links, not 9"):
        parse_social_links("\n".join(f"x.com/{number}" for number in range(9)))


def test_links_have_a_name() -> None:
    brand = Brand(
        website="https://www.contoso.example/en",
        social_links="https://de.linkedin.com/in/a\nhttps://x.com/a\nhttps://notx.com/a",
    )
    assert brand.links == [
        BrandLink("https://www.contoso.example/en", "contoso.example"),
        BrandLink("https://de.linkedin.com/in/a", "LinkedIn"),
        BrandLink("https://x.com/a", "X"),
        BrandLink("https://notx.com/a", "notx.com"),
    ]
    assert Brand().links == []


def test_a_letter_stands_for_a_missing_logo() -> None:
    assert [initial_of(name) for name in ("news", "“Ärzte”", "ß", "뉴스", "42 ways", "…")] == [
        *("N", "Ä", "S", "뉴", "4", ""),
    ]


def test_every_font_has_a_label_and_fits_an_attribute() -> None:
    assert list(FONT_LABELS) == list(FONTS)
    assert not [stack for stack in FONTS.values() if '"' in stack or ";" in stack]
