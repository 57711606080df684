"""Values of subscribers' fields in emails: escaped for their place, whatever they contain."""

import html
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postroom.mail.mailing import SplicedMailing
from tests.unit.mail.mailings import mailing, recipient
from tests.unit.mail.strict import bodies, parse, read_headers, without_frame

FIELDS = ("first_name", "city", "site")
SUBJECT = '{{ first_name | default: "Friend" }}, news from {{ city }}'
HTML = (
    '<p title="{{ city }}">Hello {{ first_name | default: "there" }}</p>'
    '<a href="https://example.com/?c={{ city }}">x</a> <a href="{{ site }}">y</a>'
)
TEXT = 'Hello {{ first_name | default: "there" }},\nhttps://example.com/?c={{ city }} {{ city }}'
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "=cmd()|' /C calc'!A0",
    "Ann\r\nBcc: victim@example.org",
    "Ann\r\n\r\n.\r\nMAIL FROM:<x@example.org>",
    ".\n.",
    "From here",
    "=?utf-8?q?x?=",
    "{{ unsubscribe_url }}",
    "javascript:alert(1)",
    "Zoë 李 🎉 " * 30,
    "x" * 500,
    " ",
]


def made(subject: str = SUBJECT, html_: str = HTML, text: str = TEXT) -> SplicedMailing:
    found = mailing(
        subject=subject, html=html_, text=text, fields=FIELDS, preheader="For {{ city }}"
    )
    assert isinstance(found, SplicedMailing)
    return found


class Tags(HTMLParser):
    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(document: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(tag, tuple(attributes)) for tag, attributes in Tags(document).found]


def test_values_stand_in_subject_preheader_html_and_text() -> None:
    found = parse(
        made().mail(recipient(values=("Zoë & Co", "Bern", "https://zoe.example/?a=1&b=2")))
    )
    assert found["subject"] == "Zoë & Co, news from Bern"
    both = bodies(found)
    assert both["text/plain"].startswith("Hello Zoë & Co,\nhttps://example.com/?c=Bern Bern\n")
    assert "Hello Zoë &amp; Co</p>" in both["text/html"]
    assert "For Bern" in both["text/html"]
    assert 'href="https://example.com/?c=Bern"' in both["text/html"]
    assert 'href="https://zoe.example/?a=1&amp;b=2"' in both["text/html"]


@pytest.mark.parametrize("values", [("", "Bern", ""), ()])
def test_a_default_stands_for_an_empty_value(values: tuple[str, ...]) -> None:
    found = parse(made().mail(recipient(values=values)))
    assert found["subject"].strip() == f"Friend, news from {'Bern' if values else ''}".strip()
    assert "Hello there," in bodies(found)["text/plain"]


@pytest.mark.parametrize("subject", ["{{ first_name }}{{ city }}", "a{{ city }}b", "a{{ city }}"])
@pytest.mark.parametrize("values", [("", ""), ("Ann", ""), ("", "Bern"), ("Ann", "Bern")])
def test_no_line_of_a_subject_is_blank(subject: str, values: tuple[str, ...]) -> None:
    mail = made(subject).mail(recipient(values=(*values, "")))
    head = mail.partition(b"\r\n\r\n")[0]
    assert all(line.strip() for line in head.split(b"\r\n"))
    expected = subject.replace("{{ first_name }}", values[0]).replace("{{ city }}", values[1])
    assert parse(mail)["subject"].strip() == expected


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_do_no_harm(value: str) -> None:
    harmless = made().mail(recipient(values=("Ann", "Bern", "x")))
    mail = made().mail(recipient(values=(value, value, value)))
    assert read_headers(mail).keys() == read_headers(harmless).keys()
    assert not any(line.startswith((b".", b"From ")) for line in mail.split(b"\r\n"))
    assert max(map(len, mail.split(b"\r\n"))) <= 998
    assert b"\n" not in mail.replace(b"\r\n", b"")
    found, before = bodies(parse(mail))["text/html"], bodies(parse(harmless))["text/html"]
    assert tags(found) == tags(before), "a value adds no tag and no attribute"
    for _, attributes in Tags(found).found:
        assert not (attributes.get("href") or "").lower().startswith("javascript:")


characters = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\r\t.=<&\"'")
text = st.text(characters, max_size=90)


@given(text, text)
@example("", "\n.")
@example(".x", "From x")
def test_any_value_arrives_as_it_is(name: str, city: str) -> None:
    mail = made().mail(recipient(values=(name, city, "")))
    shown = name.replace("\r\n", "\n").replace("\r", "\n") or "there"
    shown = shown.replace("\u2028", "").replace("\u2029", "")
    both = bodies(parse(mail))
    link = f"https://example.com/?c={quote(city, safe='')}"
    assert both["text/plain"].startswith(f"Hello {shown},\n{link}")
    assert f"Hello {html.escape(shown)}</p>" in both["text/html"]


@pytest.mark.parametrize("value", ["Zoë", "<b>", "", *HOSTILE])
def test_a_provider_gets_the_same_values(value: str) -> None:
    ours, to = made(), recipient(values=(value, value, value))
    mail = bodies(parse(ours.mail(to)))
    parts = ours.parts()
    values = ours.values(to)

    def filled(text: str) -> str:
        for placeholder, each in values.items():
            text = text.replace(placeholder, each)
        return text

    assert filled(parts.text) == mail["text/plain"]
    assert without_frame(filled(parts.html)) == mail["text/html"]
    assert filled(parts.subject).split() == parse(ours.mail(to))["subject"].split()
