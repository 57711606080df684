"""Fields in imports and exports: what subscribers have afterwards, on SQLite and PostgreSQL."""

import csv
import io
from typing import Any

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.audience.files import reading_ahead
from postroom.services.audience.files.import_report import Existing, ImportReport
from postroom.wiring import Services
from tests.integration.usecases.audience.imports.test_csv_imports import (
    address,
    counts,
    engine,
    exported,
    services,
    store,
)

__all__ = ["address", "engine", "services", "store"]

FIELDS = [
    Field("city"),
    Field("age", FieldType.INTEGER),
    Field("topics", FieldType.CHOICES, choices=("News", "Food, drink")),
]


@pytest.fixture(autouse=True)
async def declared(services: Services) -> None:
    await services.fields.declare("news", FIELDS)


async def take(services: Services, text: str, **options: Any) -> ImportReport:
    return await services.imports.import_csv("news", io.BytesIO(text.encode()), **options)


async def values(services: Services, email: str) -> dict[str, Any]:
    return dict((await services.subscriptions.get("news", email)).attributes)


async def test_new_subscribers_get_the_values_of_their_lines(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 2)
    report = await take(
        services,
        "email,City,age,topics,shoe\n"
        'ann@b.org,"<img onerror=1>",30,News|Food drink,44\n'
        'Bob@b.org,=cmd(),-5,"Food, drink",\n'
        "cid@b.org,Ulm,old,,\n"
        "dan@b.org,,,,\n",
    )
    assert counts(report) == (2, 0, 0, 2)
    assert [(each.line, each.reason) for each in report.errors] == [
        (2, "topics must be one of News, Food, drink, not 'Food drink'"),
        (4, "age must be a whole number, not 'old'"),
    ]
    assert report.ignored_columns == ["shoe"]
    assert await values(services, "bob@b.org") == {
        "city": "=cmd()",
        "age": -5,
        "topics": ["Food, drink"],
    }
    assert await values(services, "dan@b.org") == {}


@pytest.mark.parametrize(
    ("existing", "after"),
    [
        (Existing.OVERWRITE, {"city": "Ulm", "age": 40}),
        (Existing.FILL_GAPS, {"city": "Bern", "age": 40}),
        (Existing.KEEP, {"city": "Bern"}),
    ],
)
async def test_the_caller_decides_about_values_of_existing_subscribers(
    services: Services, existing: Existing, after: dict[str, Any]
) -> None:
    await services.subscriptions.add("news", "ann@b.org", attributes={"city": "Bern"})
    text = "email,city,age\nann@b.org,Ulm,40\nbob@b.org,Ulm,\n"
    changes = existing is not Existing.KEEP
    expected = (1, int(changes), int(not changes), 0)
    assert counts(await take(services, text, existing=existing, dry_run=True)) == expected
    assert counts(await take(services, text, existing=existing)) == expected
    assert await values(services, "ann@b.org") == after
    assert await values(services, "bob@b.org") == {"city": "Ulm"}
    assert counts(await take(services, text, existing=existing)) == (0, 0, 2, 0)
    # Empty cells remove nothing.
    await take(services, "email,city,age\nann@b.org,,\n", existing=existing)
    assert await values(services, "ann@b.org") == after


async def test_a_new_subscriber_needs_the_required_fields_and_an_existing_one_does_not(
    services: Services,
) -> None:
    await services.subscriptions.add("news", "old@b.org")
    await services.fields.declare("news", [Field("city", required=True)])
    report = await take(services, "email,city\nold@b.org,\nnew@b.org,\nann@b.org,Bern\n")
    assert counts(report) == (1, 0, 1, 1)
    assert [(each.line, each.reason) for each in report.errors] == [(3, "city is required")]
    report = await take(services, "email\nold@b.org\nnew@b.org\n")
    assert counts(report) == (0, 0, 1, 1)


async def test_fields_are_created_for_unknown_columns(services: Services) -> None:
    text = "email,Shoe size,city\nann@b.org,44,Bern\n"
    planned = await take(services, text, create_fields=True, dry_run=True)
    assert planned.created_fields == ["shoe_size"]
    assert len((await services.fields.get("news")).fields.declared) == len(FIELDS)
    report = await take(services, text, create_fields=True)
    assert report.created_fields == ["shoe_size"]
    assert await values(services, "ann@b.org") == {"shoe_size": "44", "city": "Bern"}
    declared = (await services.fields.get("news")).fields.declared
    assert [(each.name, each.label) for each in declared][-1] == ("shoe_size", "Shoe size")
    again = await take(services, text, create_fields=True)
    assert (counts(again), again.created_fields) == ((0, 0, 1, 0), [])


@pytest.mark.parametrize("dry_run", [True, False])
async def test_too_many_new_fields_are_refused_before_anything_is_written(
    services: Services, dry_run: bool
) -> None:
    header = ",".join(f"c{n}" for n in range(100))
    with pytest.raises(Invalid, match="at most 100 fields, not 103"):
        await take(services, f"email,{header}\na@b.org\n", create_fields=True, dry_run=dry_run)
    assert (await services.subscriptions.slice("news")).subscribers == []


async def test_values_that_no_longer_fit_next_to_the_others_reject_their_line(
    services: Services,
) -> None:
    await services.fields.declare("news", [Field(f"f{n}") for n in range(18)])
    old = {f"f{n}": "x" * 1000 for n in range(15)}
    await services.subscriptions.add("news", "ann@b.org", attributes=old)
    row = ",".join(["y" * 900] * 3)
    report = await take(services, f"email,f15,f16,f17\nann@b.org,{row}\n")
    assert counts(report) == (0, 0, 0, 1)
    assert report.errors[0].line == 2
    assert "must be at most 16,384 bytes" in report.errors[0].reason
    assert await values(services, "ann@b.org") == old


async def test_an_export_has_the_fields_and_can_be_imported_unchanged(services: Services) -> None:
    attributes = {"city": "=1+1", "age": -5, "topics": ["News", "Food, drink"], "first_name": "Zoé"}
    await services.subscriptions.add("news", "ann@b.org", attributes=attributes)
    await services.subscriptions.add("news", "bob@b.org", verified=True)
    text = await exported(services)
    [ann, _] = csv.DictReader(io.StringIO(text))
    assert (ann["city"], ann["age"], ann["topics"]) == ("'=1+1", "-5", "News|Food, drink")
    assert counts(await take(services, text)) == (0, 0, 2, 0)
    await services.subscriptions.remove("news", "ann@b.org")
    assert counts(await take(services, text)) == (1, 0, 1, 0)
    known = await values(services, "ann@b.org")
    assert known == {**attributes, "source": "team"}, "an export says where people came from"


async def test_a_segment_is_exported_alone(services: Services) -> None:
    for name, city in (("ann", "Bern"), ("bob", "Ulm"), ("cid", "BERN")):
        await services.subscriptions.add("news", f"{name}@b.org", attributes={"city": city})
    await services.segments.create("news", "bern", 'city = "Bern"')
    pieces = [piece async for piece in services.exports.export_csv("news", "bern")]
    rows = list(csv.DictReader(io.StringIO("".join(pieces))))
    assert [each["email"] for each in rows] == ["ann@b.org", "cid@b.org"]
    lines = [piece async for piece in services.exports.export_json("news", "bern")]
    assert "".join(lines).count("\n") == 2
    with pytest.raises(NoSuch):
        [piece async for piece in services.exports.export_csv("news", "ulm")]
