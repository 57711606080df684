"""Conditions in messages: found, checked, and spliced into each recipient's email."""

import email
import email.policy
from email.message import EmailMessage
from typing import cast

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.errors import Invalid
from postroom.mail.mailing import Mailing, Recipient, SplicedMailing
from postroom.mail.personal.content_conditions import HOLDS, conditions_in, find_markers
from postroom.mail.personal.field_contexts import check_outside_rows, check_places
from postroom.mail.personal.merge_fields import FieldRule, check_fields
from postroom.mail.web_version import WebValues, web_document, web_line
from tests.unit.mail.mailings import mailing, recipient

RULES = {
    "email": FieldRule(type=FieldType.TEXT),
    "city": FieldRule(type=FieldType.TEXT),
    "age": FieldRule(type=FieldType.INTEGER),
}
BERLIN = 'city = "Berlin"'
IF = f"{{% if {BERLIN} %}}"


def read(message: Mailing, to: Recipient) -> EmailMessage:
    return email.message_from_bytes(message.mail(to), policy=email.policy.default)


def body(found: EmailMessage, kind: str) -> str:
    part = found.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\n {% if town = 1 %}x{% end %}", "line 2, column 8: there is no field town"),
        ('{% if age = "x" %}x{% end %}', "line 1, column 7: age must be compared with a whole"),
        ('{% if city = "B &amp;&quot; and ag = 1 %}{% end %}', "column 33: there is no field ag;"),
        ("{% if city = %}x{% end %}", "line 1, column 13: the rule ends too early"),
        ("{% if %}x{% end %}", 'write a rule such as city = "Berlin"'),
        (f"x {IF}y", 'line 1, column 3: {% if city = "Berlin" %} has no {% end %}'),
        ("x {% end %}", "line 1, column 3: {% end %} has no {% if … %} before it"),
        ("{% else %}", "line 1, column 1: {% else %} has no {% if … %} before it"),
        (f"{IF}{{% else %}}{{% else %}}{{% end %}}", "column 35: {% if city"),
        (f"{IF}\n{{% if age > 3 %}}", "line 2, column 1: {% if age > 3 %} is inside {% if city"),
        (f"{IF}x{{% endif %}}", "write {% end %}, not {% endif %}"),
        (f"{IF}x{{% elif age > 3 %}}", "{% elif %} is not supported"),
        ("{% if city", "{% if is not closed with '%}'"),
        ("{%- if age = 1 %}", "without a dash"),
        (f"{IF}{{% end if %}}", "write {% end %} without 'if'"),
    ],
)
def test_a_wrong_condition_is_refused_at_its_place(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_fields("html", text, RULES)
    assert problem in caught.value.problem


def test_the_same_rule_is_one_condition_however_an_editor_has_written_it() -> None:
    texts = (
        IF + "{% end %}",
        "{% if city  =&nbsp;&quot;Berlin&quot; %}{% end %}",
        "{%if CITY = “Berlin”%}{%end%}",
    )
    assert conditions_in(*texts) == (BERLIN,)
    assert [each.kind for each in find_markers("html", texts[0])] == ["if", "end"]


@pytest.mark.parametrize(
    "html",
    [
        f'<p title="{IF}a{{% end %}}">x</p>',
        f"<style>{IF}a{{% end %}}</style>",
        f"<p {IF}{{% end %}}>",
    ],
)
def test_conditions_are_for_text_not_for_tags(html: str) -> None:
    with pytest.raises(Invalid, match="cannot be used in a tag, a script or a style"):
        check_places(html, RULES)


def test_conditions_between_the_cells_of_a_table_are_refused_where_html_is_tidied_up() -> None:
    check_outside_rows("body", f"{IF}<table><tr><td>a</td></tr></table>{{% end %}}")
    check_outside_rows("body", f"<table><tr><td>{IF}a{{% end %}}</td></tr></table>")
    with pytest.raises(Invalid, match=r"line 1, column 8: .* between the cells of a table"):
        check_outside_rows("body", f"<table>{IF}<tr><td>a</td></tr>{{% end %}}</table>")


def test_each_recipient_gets_the_parts_whose_conditions_hold() -> None:
    message = mailing(
        subject=f"{IF}Hallo{{% else %}}Hello{{% end %}} {{{{ name }}}}",
        html=f"<p>Dear {IF}Ünal {{{{ name }}}}{{% else %}}guest of {{{{ email }}}}{{% end %}}!</p>",
        text=f"Hi\n\n{IF}\n\nBerlin: {{{{ name }}}}\n\n{{% end %}}\n\n.Bye",
        fields=["name"],
        conditions=[BERLIN],
    )
    there = read(message, recipient(values=("Zoë", HOLDS)))
    elsewhere = read(message, recipient(values=("Zoë", "")))
    assert (there["Subject"], elsewhere["Subject"]) == ("Hallo Zoë", "Hello Zoë")
    assert "<p>Dear Ünal Zoë!</p>" in body(there, "html")
    assert "<p>Dear guest of anna@example.org!</p>" in body(elsewhere, "html")
    assert body(there, "plain").startswith("Hi\n\nBerlin: Zoë\n\n.Bye\n")
    assert body(elsewhere, "plain").startswith("Hi\n\n.Bye\n")


@pytest.mark.parametrize(
    ("subject", "holding", "otherwise"),
    [
        (f"News {IF}of Berlin{{% end %}}", "News of Berlin", "News"),
        (f"{IF}Für {{{{ email }}}}: {{% end %}}News", "Für anna@example.org: News", "News"),
        (f"{IF}A{{% else %}}B{{% end %}}{IF}c{{% else %}}d{{% end %}}", "Ac", "Bd"),
        (f"{{{{ name }}}}{IF}, b{{% end %}}", "Zoë, b", "Zoë"),
    ],
)
def test_a_subject_with_conditions_is_one_valid_header(
    subject: str, holding: str, otherwise: str
) -> None:
    message = mailing(subject=subject, fields=["name"], conditions=[BERLIN])
    assert read(message, recipient(values=("Zoë", HOLDS)))["Subject"].strip() == holding
    assert read(message, recipient(values=("Zoë", "")))["Subject"].strip() == otherwise
    for values in (("Zoë", HOLDS), ("Zoë", ""), ("", "")):
        head = message.mail(recipient(values=values)).partition(b"\r\n\r\n")[0]
        assert all(line.strip() for line in head.split(b"\r\n"))


def test_an_unsubscribe_link_that_only_some_get_does_not_replace_the_footer() -> None:
    link = '<a href="{{ unsubscribe_url }}">leave</a>'
    message = mailing(
        html=f"<p>{IF}{link}{{% end %}}</p>",
        text=f"{IF}{{{{ unsubscribe_url }}}}{{% end %}}",
        conditions=[BERLIN],
    )
    found = read(message, recipient(values=("",)))
    assert "/unsubscribe?id=" in body(found, "html")
    assert "/unsubscribe?id=" in body(found, "plain")


def test_an_email_provider_gets_a_text_for_each_combination_of_conditions() -> None:
    message = cast(
        SplicedMailing,
        mailing(
            subject=f"{IF}Hallo{{% else %}}Hello{{% end %}}",
            text=f"{IF}Berlin, {{{{ name }}}}{{% else %}}Elsewhere{{% end %}}",
            fields=["name"],
            conditions=[BERLIN],
        ),
    )
    there, elsewhere = recipient(values=("Zoë", HOLDS)), recipient(values=("Zoë", ""))
    assert message.variant(there) is message.variant(there)
    parts = message.variant(there).parts(), message.variant(elsewhere).parts()
    assert [each.subject for each in parts] == ["Hallo", "Hello"]
    assert parts[0].text.startswith("Berlin, ")
    assert parts[1].text.startswith("Elsewhere")
    assert "Zoë" in message.variant(there).values(there).values()
    plain = cast(SplicedMailing, mailing())
    assert plain.variant(there) is plain


def test_the_web_version_reads_as_for_someone_of_whom_nothing_is_known() -> None:
    values = WebValues("News", "https://x.example/view", "https://x.example/subscribe")
    html = (
        f"<p>{IF}secret{{% else %}}open{{% end %}}{{% if city is empty %}}, stranger{{% end %}}</p>"
    )
    assert web_line(f"{IF}A{{% else %}}B{{% end %}}", values) == "B"
    document = web_document(html, None, values, title="t", language="en")
    assert "<p>open, stranger</p>" in document
    assert "secret" not in document
    assert "{%" not in document
