"""A merge field's value is escaped for the place in which it stands."""

import html
import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postroom.domain.errors import Invalid
from postroom.mail.bodies.html import HtmlTag, HtmlText, tokens
from postroom.mail.mail_reader import read_mail
from postroom.mail.personal.field_contexts import FieldPlace, check_places, html_places, text_places
from postroom.mail.personal.merge_fields import FieldRule, check_fields, find_fields
from tests.unit.mail.mailings import GUID, URL, mailing, recipient

FIRST_NAME = {"first_name": FieldRule(may_be_empty=True), "email": FieldRule()}

# Letters that an address may have and that mean something in HTML, in a link, a header or a style.
HOSTILE = "o'&=?{}%+#/_`|!$^~*@example.org"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("<p>{{ email }}</p>", FieldPlace.TEXT),
        ('<a title="for {{ email }}">', FieldPlace.TEXT),
        ("<img alt='{{ email }}'>", FieldPlace.TEXT),
        ("<title>{{ email }}</title>", FieldPlace.TEXT),
        ("<!-- {{ email }} -->", FieldPlace.TEXT),
        ('<a title="a > b" href="https://example.com/?e={{ email }}&a=b">', FieldPlace.IN_LINK),
        ('<a href="mailto:{{ email }}">', FieldPlace.IN_LINK),
        ('<img src="https://example.com/{{ email }}.png">', FieldPlace.IN_LINK),
        ('<a href="{{ email }}">', FieldPlace.LINK_START),
        ("<a href={{ email }}>", FieldPlace.LINK_START),
        ("<p title={{ email }}>", FieldPlace.UNSAFE),
        ("<p {{ email }}>", FieldPlace.UNSAFE),
        ('<p style="width: {{ email }}">', FieldPlace.UNSAFE),
        ("<p onclick=\"go('{{ email }}')\">", FieldPlace.UNSAFE),
        ("<style>p { color: {{ email }} }</style>", FieldPlace.UNSAFE),
        ("<script>go('{{ email }}')</script>", FieldPlace.UNSAFE),
        ('<p title="{{ email | default: "a" }}" lang="en">', FieldPlace.TEXT),
    ],
)
def test_the_place_of_a_field_is_known(document: str, place: FieldPlace) -> None:
    assert html_places(document, list(find_fields("html", document))) == [place]
    if place is FieldPlace.UNSAFE:
        with pytest.raises(Invalid, match=r"html: line 1, column \d+: {{ email }} cannot be used"):
            check_places(document)
    else:
        check_places(document)


def test_links_in_plain_text_are_recognised() -> None:
    text = "For {{ email }}: https://example.com/?a={{ email }}&b={{ email }} {{ email }}"
    places = text_places(text, list(find_fields("text", text)))
    assert places == [FieldPlace.TEXT, FieldPlace.IN_LINK, FieldPlace.IN_LINK, FieldPlace.TEXT]


@pytest.mark.parametrize("name", ["anna+news@example.org", HOSTILE, "зоя@пример.рф"])
def test_an_address_is_escaped_for_each_place(name: str) -> None:
    made = mailing(
        subject="For {{ email }}",
        html='<p title="{{ email }}">{{ email }} <a href="https://example.com/?e={{ email }}">',
        text="{{ email }} https://example.com/?e={{ email }}",
    )
    mail = read_mail(made.mail(recipient(name)))
    assert mail.subject == f"For {name}"
    assert mail.html is not None
    assert mail.text is not None
    escaped, encoded = html.escape(name), quote(name, safe="@")
    assert (
        f'<p title="{escaped}">{escaped} <a href="https://example.com/?e={encoded}">' in mail.html
    )
    assert mail.text.startswith(f"{name} https://example.com/?e={encoded}\r\n")


@given(
    st.text(
        st.characters(exclude_categories=("C", "Z"), exclude_characters='"<>()[],;:\\@'),
        min_size=1,
        max_size=80,
    )
)
@example("'onclick='x")
@example("{}/*{{email}}%22+&quot")
def test_no_value_leaves_its_place(local: str) -> None:
    """The document has the same tags and attributes as with a harmless address."""
    document = (
        '<p title="{{ email }}">{{ email }}</p><p title={{ email }} style="a:{{ email }}">'
        '<a href="https://example.com/{{ email }}">x</a><style>{{ email }}</style>'
    )
    made = mailing(html=document)
    shown = read_mail(made.mail(recipient(f"{local}@example.org"))).html or ""
    plain = read_mail(made.mail(recipient("a@example.org"))).html or ""
    assert _structure(shown) == _structure(plain)
    [link] = [
        token.attributes["href"]
        for token in tokens(shown)
        if isinstance(token, HtmlTag) and token.attributes.get("href", "").startswith("https://ex")
    ]
    assert unquote(link) == f"https://example.com/{local}@example.org"


def _structure(document: str) -> list[object]:
    return [
        (token.name, token.closes, list(token.attributes))
        for token in tokens(document)
        if not isinstance(token, HtmlText)
    ]


def test_our_links_stay_links_and_are_encoded_within_others() -> None:
    made = mailing(
        html='<a href="{{ unsubscribe_url }}">a</a>'
        '<a href="https://example.com/?next={{ unsubscribe_url }}">b</a>'
        '<a href="https://example.com/{{ list_description }}">c</a>',
        description="News & more",
    )
    mail = read_mail(made.mail(recipient()))
    assert mail.html is not None
    links = re.findall('href="([^"]+)"', mail.html)
    assert [html.unescape(each) for each in links] == [
        URL,
        f"https://example.com/?next={quote(URL, safe='')}",
        "https://example.com/News%20%26%20more",
    ]
    assert GUID in links[1]


@pytest.mark.parametrize(
    "written",
    [
        '{{ first_name | default: "there" }}',
        "{{first_name|default:'there'}}",
        "{{ first_name | default: &quot;there&quot; }}",
        "{{ first_name | default: “there” }}",
    ],
)
def test_a_default_may_be_quoted_in_any_usual_way(written: str) -> None:
    [field] = find_fields("html", f"Hi {written}", FIRST_NAME)
    assert (field.name, field.default, field.start) == ("first_name", "there", 3)
    check_fields("subject", f"Hi {written}", FIRST_NAME)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Hi\n {{ first_name }}", "line 2, column 2: {{ first_name }} may be empty: write"),
        ("{{ email | upper }}", "must look like {{ email | default"),
        ('{{ email | default: "a }}', "must look like {{ email | default"),
        ('{{ city | default: "" }}', "there is no merge field"),
    ],
)
def test_a_field_without_a_needed_default_is_refused(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_fields("text", text, FIRST_NAME)
    assert problem in caught.value.problem


def test_a_default_in_an_attribute_does_not_end_it() -> None:
    made = mailing(html='<p title="{{ email | default: "you" }}" lang="en">x</p>', text=None)
    mail = read_mail(made.mail(recipient()))
    assert '<p title="anna@example.org" lang="en">x</p>' in (mail.html or "")
