"""How columns of a CSV file fill the fields of a list."""

import io
import json

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import BUILT_IN, Field, Fields, parse_value, value_text
from postroom.domain.errors import Invalid
from postroom.services.audience.files.columns.columns import ColumnPlan
from postroom.services.audience.files.columns.field_columns import BUILT_IN_NAMES
from postroom.services.audience.files.columns.meanings import Meaning
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.subscriber_lines import SubscriberFile

FIELDS = Fields(
    [
        Field("city", label={"en": "City", "de": "Stadt"}, max_length=20),
        Field("age", FieldType.INTEGER),
        Field("score", FieldType.NUMBER),
        Field("member", FieldType.BOOLEAN),
        Field("birthday", FieldType.DATE),
        Field("plan", FieldType.CHOICE, choices=("free", "pro")),
        Field("topics", FieldType.CHOICES, choices=("News", "Food, drink", "Art")),
    ]
)


def opened(text: str, fields: Fields = FIELDS, *, create: bool = False) -> SubscriberFile:
    plan = ColumnPlan(fields=fields, create_fields=create)
    return SubscriberFile(io.BytesIO(text.encode()), plan=plan)


def only(text: str, fields: Fields = FIELDS, *, create: bool = False) -> Chunk:
    [chunk] = opened(text, fields, create=create).chunks(1000)
    return chunk


def described(chunk: Chunk) -> dict[str, dict[str, object]]:
    return {key: json.loads(each) for key, each in chunk.attributes.items()}


def test_columns_with_the_name_or_a_label_of_a_field_fill_it() -> None:
    file = opened("E-Mail;STADT;Age;Vorname;Shoe size;city\na@b.org;Bern;42;Zoé;44;Ulm\n")
    assert [(each.meaning, each.field) for each in file.columns] == [
        (Meaning.ADDRESS, ""),
        (Meaning.FIELD, "city"),
        (Meaning.FIELD, "age"),
        (Meaning.FIELD, "first_name"),
        (Meaning.UNUSED, ""),
        (Meaning.UNUSED, ""),  # a second column for the same field
    ]
    [chunk] = file.chunks(10)
    assert described(chunk) == {"a@b.org": {"city": "Bern", "age": 42, "first_name": "Zoé"}}


def test_the_names_in_five_languages_belong_to_fields_that_every_list_has() -> None:
    assert set(BUILT_IN_NAMES) == set(BUILT_IN)
    for field, names in BUILT_IN_NAMES.items():
        for name in names:
            [_, column] = opened(f"email,{name.title()}\n", Fields()).columns
            assert column.field == field, name


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("city", " '=cmd() ", "'=cmd()"),
        ("city", "'=cmd()", "=cmd()"),
        ("age", "042", 42),
        ("score", "-1.5", -1.5),
        ("member", "Yes", True),
        ("birthday", "2000-02-29", "2000-02-29"),
        ("birthday", "2000-02-29 10:00:00", "2000-02-29"),
        ("birthday", "29.2.2000", "2000-02-29"),
        ("birthday", "2000/2/29", "2000-02-29"),
        ("plan", "PRO", "pro"),
        ("topics", "news, art", ["News", "Art"]),
        ("topics", "Food, drink", ["Food, drink"]),
        ("topics", "News|Food, drink", ["News", "Food, drink"]),
    ],
)
def test_values_are_read_by_type(column: str, cell: str, value: object) -> None:
    assert described(only(f'email,{column}\na@b.org,"{cell}"\n')) == {"a@b.org": {column: value}}


def test_a_value_is_read_again_from_its_text() -> None:
    for field, value in (
        (FIELDS.get("topics"), ["News", "Food, drink"]),
        (FIELDS.get("score"), -3.0),
        (FIELDS.get("member"), False),
        (FIELDS.get("birthday"), "2000-02-29"),
    ):
        assert field is not None
        assert parse_value(field, value_text(value)) == value


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("age", "old", "age must be a whole number, not 'old'"),
        ("city", "x" * 21, "city must have at most 20 characters, not 21"),
        ("birthday", "02/03/2000", "birthday must be a date such as 2026-01-31, not '02/03/2000'"),
        ("birthday", "2001-02-29", "birthday must be a date such as 2026-01-31, not '2001-02-29'"),
        ("plan", "gold", "plan must be one of free, pro, not 'gold'"),
        ("city", "a\x00b", "city contains a character that is not allowed: U+0000"),
    ],
)
def test_a_wrong_value_rejects_its_line_with_the_reason(
    column: str, cell: str, reason: str
) -> None:
    chunk = only(f"email,{column}\na@b.org,{cell}\nb@b.org,\n")
    assert [(each.line, each.email, each.reason) for each in chunk.rejected] == [
        (2, "a@b.org", reason)
    ]
    assert list(chunk.wanted) == ["b@b.org"]


def test_a_wrong_value_does_not_keep_an_address_from_being_unsubscribed_or_blocked() -> None:
    chunk = only("email,age,status\na@b.org,old,unsubscribed\nb@b.org,old,cleaned\n")
    assert chunk.rejected == []
    assert list(chunk.unsubscribed) == ["a@b.org"]
    assert list(chunk.blockings) == ["b@b.org"]


def test_empty_cells_say_nothing_and_later_lines_count() -> None:
    chunk = only("email,city,age\na@b.org,Bern,1\nA@b.org,Ulm,\nb@b.org,,\nc@b.org\n")
    assert described(chunk) == {"a@b.org": {"city": "Ulm", "age": 1}}
    assert len(chunk.wanted) == 3


def test_a_line_without_a_required_value_is_marked() -> None:
    fields = Fields([Field("city", required=True)])
    chunk = only("email,city\na@b.org,Bern\nb@b.org,\n", fields)
    assert chunk.incomplete == {"b@b.org": "city"}
    assert only("email\na@b.org\n", fields).incomplete == {"a@b.org": "city"}


def test_unknown_columns_become_fields_with_names_that_are_free() -> None:
    header = "email,Ort/Straße,  ,2nd,도시,AND,Joined,city,created_at,status,Ort Straße"
    file = opened(f"{header}\na@b.org,x,y,z,u,v,w,Bern,t,active,s\n", create=True)
    assert {each.name: each.label for each in file.new_fields} == {
        "ort_strasse": "Ort/Straße",
        "field_2nd": "2nd",
        "field": "도시",
        "and_2": "AND",
        "joined_2": "Joined",
        "ort_strasse_2": "Ort Straße",
    }
    [chunk] = file.chunks(10)
    assert described(chunk)["a@b.org"]["field_2nd"] == "z"
    assert [each.is_new for each in file.columns][:3] == [False, True, False]


def test_a_column_that_is_field_and_status_is_used_as_both() -> None:
    fields = Fields([Field("status")])
    chunk = only("email,status\na@b.org,gold\nb@b.org,unsubscribed\n", fields)
    assert described(chunk) == {"a@b.org": {"status": "gold"}}
    assert list(chunk.unsubscribed) == ["b@b.org"]


def test_attributes_of_a_line_have_a_size_limit() -> None:
    fields = Fields([Field(f"f{n}") for n in range(20)])
    header = ",".join(f"f{n}" for n in range(20))
    chunk = only(f"email,{header}\na@b.org,{','.join(['x' * 1000] * 20)}\n", fields)
    assert chunk.rejected[0].reason.startswith("the fields must be at most 16,384 bytes, not 20,")


@pytest.mark.parametrize("depth", [900, 20_000])
def test_attributes_that_are_nested_too_deeply_are_refused_for_their_line(depth: int) -> None:
    cell = '{""city"": ' + "[" * depth + "]" * depth + "}"
    header = "uuid,email,name,attributes,status,created_at,updated_at\n"
    chunk = only(f'{header},a@b.org,A,"{cell}",enabled,,\n,c@d.org,C,"{{}}",enabled,,\n')
    assert set(chunk.wanted) == {"c@d.org"}
    assert [each.line for each in chunk.rejected] == [2]


def test_a_header_cannot_create_more_fields_than_a_list_can_have() -> None:
    names = ",".join(["email", *["x"] * 30_000])
    with pytest.raises(Invalid, match="more than 100 fields"):
        opened(f"{names}\n", create=True)
