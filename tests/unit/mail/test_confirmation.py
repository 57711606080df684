"""The confirmation email: a link, no unsubscribe link, in several languages."""

import html
import re
from datetime import timedelta

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.appearance import Colour, contrast
from postroom.domain.audience.lists.brand import Brand
from postroom.domain.audience.lists.lists import ListName
from postroom.mail.system_mail import compile_changes
from postroom.translations import Translator
from tests.unit.mail.mailings import DATE, GUID, confirmation, recipient
from tests.unit.mail.strict import bodies, parse, read_headers

LINK = f"https://lists.example.com/confirm?id={GUID}&listName=contoso1"


def test_the_headers_are_those_of_an_automatic_reply() -> None:
    headers = read_headers(confirmation().mail(recipient()))
    assert headers["auto-submitted"] == b"auto-generated"
    assert headers["subject"] == b"Please confirm your subscription to Contoso news"
    assert not [name for name in headers if name.startswith("list-")]


@pytest.mark.parametrize("language", ["en", "fr", "de", "ko", "ru"])
def test_both_bodies_have_the_link_and_nothing_to_unsubscribe(language: str) -> None:
    message = parse(confirmation(language=language).mail(recipient("o'brien&co@example.org")))
    both, link = bodies(message), f"{LINK}&lang={language}"
    assert list(both) == ["text/plain", "text/html"]
    assert f"\n{link}\n" in both["text/plain"]
    assert f'href="{link.replace("&", "&amp;")}"' in both["text/html"]
    assert "o'brien&co@example.org" in both["text/plain"]
    assert "o&#x27;brien&amp;co@example.org" in both["text/html"]
    assert f'<html lang="{language}">' in both["text/html"]
    for body in both.values():
        assert "unsubscribe" not in body.lower()
        assert "{" not in re.sub("<style>.*</style>", "", body, flags=re.DOTALL)


@pytest.mark.parametrize("language", ["en", "fr", "de", "ko", "ru"])
def test_the_question_about_changes_has_its_own_link_in_every_language(language: str) -> None:
    mailing = compile_changes(
        list_name=ListName("contoso1"),
        description="Contoso news",
        from_address=Address("news@contoso.example"),
        base_url="https://lists.example.com",
        date=DATE,
        changes="0123abcd",
        language=language,
    )
    both = bodies(parse(mailing.mail(recipient())))
    link = f"https://lists.example.com/confirm/changes?id={GUID}&listName=contoso1&changes=0123abcd"
    assert f"\n{link}&lang={language}\n" in both["text/plain"]
    assert Translator(language)("Confirm changes") in both["text/html"]
    assert (Translator(language)("Confirm changes") == "Confirm changes") is (language == "en")


def test_a_description_is_shown_not_run() -> None:
    both = bodies(parse(confirmation(description="<b>{{ x }}</b> {0}").mail(recipient())))
    assert "&lt;b&gt;{{ x }}&lt;/b&gt; {0}" in both["text/html"]
    assert "<b>{{ x }}</b> {0}" in both["text/plain"]


def test_the_brand_is_in_both_bodies() -> None:
    brand = Brand(
        colour=Colour("#ffd400"),
        font="serif",
        website="https://contoso.example/?a=1&b=2",
        social_links="https://www.linkedin.com/company/contoso",
        footer_text="<b>{{ x }}</b> {0}",
        postal_address="1 Main Street\nDublin",
    )
    both = bodies(parse(confirmation(brand=brand).mail(recipient())))
    text, document = both["text/plain"], both["text/html"]
    for each in ("https://contoso.example/?a=1&b=2", "<b>{{ x }}</b> {0}", "1 Main Street\nDublin"):
        assert each in text
    assert 'href="https://contoso.example/?a=1&amp;b=2"' in document
    assert ">LinkedIn</a>" in document
    assert html.escape(brand.footer_text) in document
    assert "1 Main Street<br>\nDublin" in document
    assert "Georgia, serif" in document
    assert 'aria-hidden="true">C</span>Contoso news' in document
    [style] = re.findall(r'<a href="[^"]*/confirm\?[^"]*" style="([^"]*)"', document)
    assert "color:#000000" in style, "black on yellow"
    assert "background:#ffd400" in document
    # Links in the colour are darker on paper, and the colour itself is readable in dark mode.
    [colour] = set(re.findall(r'class="link"[^>]*style="color:(#\w{6})', document))
    assert contrast(Colour(colour), Colour("#f6f4ef")) >= 4.5
    assert ".link { color: #ffd400 !important; }" in document


def test_the_logo_of_the_list_is_shown_if_subscribers_can_load_it() -> None:
    brand = Brand(logo="contoso1,3f09.png")
    document = bodies(parse(confirmation(brand=brand).mail(recipient())))["text/html"]
    [logo] = re.findall(r'<img src="([^"]*)" alt=""[^>]*>Contoso news', document)
    assert logo == "https://lists.example.com/logo/contoso1?v=3f09"
    assert ">C</span>" not in document, "the initial stands for a logo"


def test_the_email_says_how_it_is_to_be_shown() -> None:
    document = bodies(parse(confirmation().mail(recipient())))["text/html"]
    assert document.startswith("<!DOCTYPE html>")
    for meta in (
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
    ):
        assert meta in document
    assert "@media (prefers-color-scheme: dark)" in document
    assert "src=" not in document, "nothing is loaded"
    text = bodies(parse(confirmation().mail(recipient())))["text/plain"]
    assert "--------" not in text, "without a footer, there is no line above it"


def test_a_retry_is_the_same_email_and_a_new_request_another() -> None:
    first = confirmation().message_id(recipient())
    assert first == confirmation().message_id(recipient())
    assert first != confirmation(date=DATE + timedelta(seconds=1)).message_id(recipient())
    assert first != confirmation().message_id(recipient("bert@example.org"))


@pytest.mark.parametrize("language", ["", "xx", "\r\nBcc: x@example.com"])
def test_without_a_known_language_the_link_leaves_it_to_the_browser(language: str) -> None:
    both = bodies(parse(confirmation(language=language).mail(recipient())))
    assert f"\n{LINK}\n" in both["text/plain"]
    assert '<html lang="en">' in both["text/html"]


def test_without_a_known_language_the_email_is_in_the_lists_language() -> None:
    both = bodies(parse(confirmation(language="xx", list_language="de").mail(recipient())))
    assert f"\n{LINK}\n" in both["text/plain"]
    assert '<html lang="de">' in both["text/html"]
    known = bodies(parse(confirmation(language="ko", list_language="de").mail(recipient())))
    assert '<html lang="ko">' in known["text/html"]


def test_an_unknown_language_is_english_and_a_region_is_its_language() -> None:
    assert Translator("xx").language == "en"
    assert Translator("").language == "en"
    assert Translator("FR-ca").language == "fr"
