"""The confirmation email: a link, no unsubscribe link, in several languages."""

from datetime import timedelta

import pytest

from postroom.translations import Translator
from tests.unit.mail.mailings import DATE, GUID, confirmation, recipient
from tests.unit.mail.strict import bodies, parse, read_headers

LINK = f"https://lists.example.com/confirm?id={GUID}&listName=contoso1"


def test_the_headers_are_those_of_an_automatic_answer() -> None:
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
        assert "{" not in body


def test_a_description_is_shown_not_run() -> None:
    both = bodies(parse(confirmation(description="<b>{{ x }}</b> {0}").mail(recipient())))
    assert "&lt;b&gt;{{ x }}&lt;/b&gt; {0}" in both["text/html"]
    assert "<b>{{ x }}</b> {0}" in both["text/plain"]


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
