"""UTM parameters: added to links to websites, and to no others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from postroom.mail.tracking.utm import utm_parameters, with_utm

DAY = datetime(2026, 11, 18, 9, tzinfo=UTC)
BASE = "https://lists.example.com"
ADDED = "utm_source=news&utm_medium=email&utm_campaign=2026-11-18-sale"


@pytest.mark.parametrize(
    ("subject", "campaign"),
    [
        ("Spring sale: 20 %!", "2026-11-18-spring-sale-20"),
        ("Hello {{ first_name }}, news", "2026-11-18-hello-news"),
        ("Привет", "2026-11-18-%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82"),
        ("!!!", "2026-11-18"),
        ("", "2026-11-18"),
    ],
)
def test_the_campaign_is_the_day_and_the_subject(subject: str, campaign: str) -> None:
    expected = f"utm_source=The+news&utm_medium=email&utm_campaign={campaign}"
    assert utm_parameters("The news", subject, DAY) == expected


def test_without_a_source_nothing_is_added() -> None:
    assert utm_parameters("", "Sale", DAY) == ""


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("https://example.com", f"https://example.com?{ADDED}"),
        ("https://example.com/?", f"https://example.com/?{ADDED}"),
        ("https://example.com/a?b=1#c", f"https://example.com/a?b=1&{ADDED}#c"),
        ("https://example.com/?q=a%26b", f"https://example.com/?q=a%26b&{ADDED}"),
    ],
)
def test_parameters_keep_what_a_link_has(link: str, expected: str) -> None:
    shown = expected.replace("&", "&amp;")
    assert with_utm(f'<a href="{link}">x</a>', BASE, ADDED) == f'<a href="{shown}">x</a>'


@pytest.mark.parametrize(
    "link",
    [
        "https://example.com/?utm_source=other",
        "https://example.com/?UTM_Campaign=",
        "https://lists.example.com/view?ref=1",
        "https://lists.example.com/archive/news",
        "https://{{ email }}.example.com/",
        "{{ unsubscribe_url }}",
        "mailto:ann@example.com",
        "tel:+49123",
        "#top",
        "https://example.com:99999/",
    ],
)
def test_other_links_stay_as_they_are(link: str) -> None:
    body = f"<p>{ADDED}</p><a href='{link}'>x</a>"
    assert with_utm(body, BASE, ADDED) == body
