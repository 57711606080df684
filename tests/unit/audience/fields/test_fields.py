"""Fields of a list and the values that they accept."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_declarations import parse_fields
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field, Fields
from postroom.domain.audience.rules import parse_rule
from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.errors import Invalid

FIELDS = Fields(
    parse_fields(
        [
            Field("city", max_length=10),
            Field("age", FieldType.INTEGER),
            Field("score", FieldType.NUMBER),
            Field("vip", FieldType.BOOLEAN),
            Field("birthday", FieldType.DATE),
            Field("plan", FieldType.CHOICE, choices=("Free", "Pro")),
            Field("topics", FieldType.CHOICES, choices=("News", "Events")),
        ]
    )
)


def test_values_are_stored_as_json_has_them() -> None:
    given = {
        "first_name": " Ann ",
        "city": "Bern",
        "age": 30.0,
        "score": 1.5,
        "vip": False,
        "birthday": "2000-02-29",
        "plan": "pro",
        "topics": ["events", "EVENTS"],
        "last_name": "",
        "source": None,
    }
    checked = FIELDS.check(given)
    assert checked == {
        "first_name": "Ann",
        "city": "Bern",
        "age": 30,
        "score": 1.5,
        "vip": False,
        "birthday": "2000-02-29",
        "plan": "Pro",
        "topics": ["Events"],
    }
    values = FIELDS.values(Address("a@b.org"), datetime(2026, 1, 2, tzinfo=UTC), checked)
    assert values["birthday"] == date(2000, 2, 29)
    assert (values["email"], values["joined"]) == ("a@b.org", date(2026, 1, 2))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("town", "Bern", "is not a field of this list; the fields are first_name, last_name,"
                         " language, source, city, age, score, vip, birthday, plan, topics"),
        ("email", "a@b.org", "is not a field of this list; the fields are first_name, last_name,"
                         " language, source, city, age, score, vip, birthday, plan, topics"),
        ("city", 3, "must be a text, not 3"),
        ("city", "x" * 11, "must have at most 10 characters, not 11"),
        ("city", "a\0b", "contains a character that is not allowed: U+0000"),
        ("age", "30", "must be a whole number, not '30'"),
        ("age", 1.5, "must be a whole number, not 1.5"),
        ("age", True, "must be a whole number, not True"),
        ("age", 10**16, "must be between -9007199254740992 and 9007199254740992, not"
                        " 10000000000000000"),
        ("score", float("nan"), "must be a number, not nan"),
        ("vip", "yes", "must be true or false, not 'yes'"),
        ("birthday", "2001-02-29", "must be a date such as 2026-01-31, not '2001-02-29'"),
        ("birthday", "20010203", "must be a date such as 2026-01-31, not '20010203'"),
        ("plan", "Team", "must be one of Free, Pro, not 'Team'"),
        ("topics", "News", "must be several of News, Events, not 'News'"),
        ("topics", ["Sport"], "must be one of News, Events, not 'Sport'"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        FIELDS.check({name: value})
    assert (caught.value.field, caught.value.problem) == (f"attributes.{name}", problem)


def test_attributes_have_a_largest_size() -> None:
    fields = Fields(parse_fields([Field(f"f{number}") for number in range(20)]))
    with pytest.raises(Invalid, match="attributes: must be at most 16,384 bytes, not 20,1"):
        fields.check({f"f{number}": "x" * 1000 for number in range(20)})


def test_a_value_of_an_earlier_type_counts_as_empty() -> None:
    values = FIELDS.values(
        Address("a@b.org"),
        datetime(2026, 1, 2, tzinfo=UTC),
        {"age": "old", "birthday": "soon", "vip": 1, "topics": "News", "gone": 1, "city": ["x"]},
    )
    assert set(values.values()) == {"a@b.org", date(2026, 1, 2), None}
    assert "gone" not in values


def test_a_list_declares_the_names_of_subscribers_as_it_needs_them() -> None:
    declared = Field("first_name", label="Vorname", required=True, public=True, default="you")
    fields = Fields(parse_fields([declared, Field("city")]))
    assert fields.get("first_name") == declared
    assert [each.name for each in fields.all].count("first_name") == 1
    assert [each.name for each in fields.public] == ["first_name", "last_name"]
    assert fields.check({"first_name": " Ann "}) == {"first_name": "Ann"}
    with pytest.raises(Invalid, match="is required"):
        fields.check_complete({"city": "Bern"})


@pytest.mark.parametrize(
    ("fields", "where", "problem"),
    [
        ([Field("City")], "0.name", "must have 1 to 40 of a-z, 0-9 and _, beginning with a letter,"
                                    " not 'City'"),
        ([Field("a"), Field("a")], "1.name", "a is declared twice"),
        ([Field("email")], "0.name", "email is built in: choose another name"),
        ([Field("source")], "0.name", "source is built in: choose another name"),
        ([Field("first_name", FieldType.DATE)], "0.type", "must be text, because first_name is"
                                                          " built in, not date"),
        ([Field("web_url")], "0.name", "web_url is built in: choose another name"),
        ([Field("within")], "0.name", "within is a reserved word in rules: choose another name"),
        ([Field("a", FieldType.CHOICE)], "0.choices", "must have 1 to 100 choices, not 0"),
        ([Field("a", choices=("x",))], "0.choices", "must be left out: a field of the type text has"
                                                    " no choices"),
        ([Field("a", FieldType.CHOICE, choices=("x", "X"))], "0.choices", "must differ in more than"
                                                                          " upper and lower case"),
        ([Field("a", FieldType.INTEGER, default="x")], "0.default", "must be a whole number, not"
                                                                    " 'x'"),
        ([Field("a", max_length=0)], "0.max_length", "must be between 1 and 1000, not 0"),
        ([Field("a", label="a\nb")], "0.label", "contains a character that is not allowed: U+000A"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_declared(fields: list[Field], where: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_fields(fields)
    assert (caught.value.field, caught.value.problem) == (f"fields.{where}", problem)


@pytest.mark.parametrize("word", ["and", "in", "is", "not", "or", "within"])
def test_the_words_of_the_rules_cannot_name_a_field(word: str) -> None:
    with pytest.raises(RuleError):
        parse_rule(f"{word} = 1")
    with pytest.raises(Invalid):
        parse_fields([Field(word)])
