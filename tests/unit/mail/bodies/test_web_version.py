"""A message as a web page: nothing in it belongs to a subscriber."""

import pytest

from postroom.domain.errors import Invalid
from postroom.mail.web_version import WebValues, check_publishable, web_document, web_line

VALUES = WebValues("News & <more>", "https://x.example/archive/news/1", "https://x.example/join")


def document(html: str | None, text: str | None = None) -> str:
    return web_document(html, text, VALUES, title="A title", language="fr")


def test_merge_fields_show_their_defaults_escaped_for_their_places() -> None:
    shown = document(
        '<p>Hi {{ first_name | default: "<friend>" }} of {{ list_description }}</p>'
        '<a href="https://x.example/?for={{ email | default: "a b&c" }}">x</a>'
        "<a href='{{ site | default: \"javascript:alert(1)\" }}'>y</a>"
        '<a href="{{ unsubscribe_url }}">Leave</a> <a href={{ web_url }}>here</a>'
    )
    assert "<p>Hi &lt;friend&gt; of News &amp; &lt;more&gt;</p>" in shown
    assert 'href="https://x.example/?for=a%20b%26c"' in shown
    assert "javascript:" not in shown
    assert 'href="https://x.example/join"' in shown
    assert "href=https://x.example/archive/news/1>" in shown
    assert "{{" not in shown


def test_a_fragment_becomes_a_document_and_a_document_stays_one() -> None:
    assert '<html lang="fr">' in document("<p>Hello</p>")
    whole = "<!DOCTYPE html><html><body><p>Hello</p></body></html>"
    assert document(whole) == whole


def test_a_text_is_shown_with_links_and_never_as_html() -> None:
    shown = document(None, "Hi <b>you</b>, see https://x.example/a?b=1&c=2.\nBye {{ email }}!")
    assert "Hi &lt;b&gt;you&lt;/b&gt;" in shown
    assert '<a href="https://x.example/a?b=1&amp;c=2">' in shown
    assert "Bye !" in shown


def test_lines_show_defaults_too() -> None:
    assert web_line('{{ name | default: "You" }}: {{ list_description }}', VALUES) == (
        "You: News & <more>"
    )


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("subject", "For {{ email }}", '{{ email | default: "…" }} in the subject'),
        ("html", "<p>{{ first_name }}</p>", '{{ first_name | default: "…" }} in the message'),
        ("text", "{{plan}}", '{{ plan | default: "…" }} in the message'),
    ],
)
def test_a_field_without_default_cannot_be_published(name: str, text: str, place: str) -> None:
    with pytest.raises(Invalid) as raised:
        check_publishable({name: text})
    assert raised.value.field == "published"
    assert raised.value.problem.endswith(place)


def test_what_needs_no_subscriber_can_be_published() -> None:
    check_publishable(
        {"subject": "{{ list_description }}", "html": "{{ unsubscribe_url }} {{ web_url }}",
         "preheader": '{{ email | default: "" }}', "text": None}
    )  # fmt: skip
