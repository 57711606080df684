"""Fields, attributes and segments, on every engine."""

import asyncio
import io
from typing import Any

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.rules import RuleError
from postroom.domain.errors import Exists, Invalid, NoSuch, Overtaken
from postroom.wiring import Services

NEWS = ListName("news")
CITY = Field("city")
AGE = Field("age", FieldType.INTEGER)


@pytest.fixture(autouse=True)
async def news(services: Services) -> None:
    await services.lists.create(NEWS, "The news", "news@contoso.com")
    await services.fields.declare(NEWS, [CITY, AGE])


async def add(services: Services, *people: dict[str, Any]) -> None:
    await asyncio.gather(
        *(
            services.subscriptions.add(NEWS, f"p{number:04}@example.org", attributes=each)
            for number, each in enumerate(people)
        )
    )


async def selected(services: Services, rule: str) -> list[str]:
    return [each async for each in services.segments.select(NEWS, rule)]


async def test_a_rule_selects_the_same_people_in_preview_selection_and_explanation(
    services: Services,
) -> None:
    people: list[dict[str, Any]] = [
        {"city": city, "age": age}
        for city in ("Bern", "BERN", "Basel", "")
        for age in (20, 40, None)
    ]
    await add(services, *people)
    rule = 'city = "bern" and not age < 30 and email starts with "P"'
    expected = [
        f"p{number:04}@example.org"
        for number, each in enumerate(people)
        if each["city"].lower() == "bern" and each["age"] != 20
    ]
    assert await selected(services, rule) == expected
    preview = await services.segments.preview(NEWS, rule)
    assert (preview.count, preview.sample) == (4, expected)
    segment = await services.segments.create(NEWS, "bern", rule)
    for number in range(len(people)):
        email = f"p{number:04}@example.org"
        found = await services.segments.explain(NEWS, segment.name, email)
        assert found.reason.holds == (email in expected)


async def test_a_rule_about_the_beginning_of_addresses_reads_only_those(
    services: Services,
) -> None:
    names = [f"x{number:04}" for number in range(1200)] + ["anna", "Ann", "straße", "STRASSE"]
    lines = "".join(f"{name}@example.org\n" for name in names)
    await services.imports.import_csv(NEWS, io.BytesIO(f"email\n{lines}".encode()))
    for rule, expected in (
        ('email starts with "ANN"', ["Ann", "anna"]),
        ('email = "anna@example.org"', ["anna"]),
        ('email starts with "strasse"', ["STRASSE", "straße"]),
        ('email in ("x0007@example.org", "x0009@example.org")', ["x0007", "x0009"]),
        ('email starts with "y"', []),
    ):
        people = [f"{name}@example.org" for name in expected]
        counted = await services.segments.count(NEWS, rule, seconds=60)
        assert (counted.count, counted.sample, counted.next) == (len(people), people, None), rule
        assert counted.looked_at <= 10, rule
        assert await selected(services, rule) == people
        await services.segments.create(NEWS, "some", rule)
        found = await services.segments.subscribers(NEWS, "some")
        assert [each.address async for each in found] == people
        page = await services.segments.find(NEWS, "some", limit=1)
        assert [each.address for each in page.subscribers] == people[:1]
        if page.next is not None:
            page = await services.segments.find(NEWS, "some", after=page.next)
            assert [each.address for each in page.subscribers] == people[1:]
        exact = await services.segments.find(NEWS, "some", prefix="x")
        assert [each.address for each in exact.subscribers] == [p for p in people if p[0] == "x"]
        await services.segments.remove(NEWS, "some")
    counted = await services.segments.count(NEWS, 'email starts with "x"', seconds=0)
    assert (counted.looked_at, counted.next) == (1000, "x0999@example.org")
    rest = await services.segments.count(
        NEWS, 'email starts with "x"', after=counted.next or "", seconds=60
    )
    assert (rest.count, rest.next) == (200, None)


async def test_a_long_list_is_read_to_its_end_and_the_sample_is_short(services: Services) -> None:
    lines = b"".join(b"x%05d@example.org\n" % number for number in range(2500))
    await services.imports.import_csv(NEWS, io.BytesIO(b"email\n" + lines))
    preview = await services.segments.preview(NEWS, 'email ends with "@example.org"')
    assert preview.count == 2500
    assert len(preview.sample) == 20


async def test_attributes_change_one_by_one(services: Services) -> None:
    await add(services, {"city": "Bern", "age": 3, "first_name": "Ann"})
    email = "p0000@example.org"
    saved = await services.subscriptions.edit(
        NEWS, email, attributes={"city": "Basel", "age": None}
    )
    assert saved.attributes == {"city": "Basel", "first_name": "Ann"}
    moved = await services.subscriptions.change_address(NEWS, email, "new@example.org")
    assert moved.attributes == saved.attributes
    with pytest.raises(Invalid, match=r"attributes\.town"):
        await services.subscriptions.edit(NEWS, "new@example.org", attributes={"town": "x"})
    await services.fields.declare(NEWS, [AGE])
    hidden = await services.subscriptions.edit(NEWS, "new@example.org", attributes={"age": 4})
    assert hidden.attributes == {"city": "Basel", "first_name": "Ann", "age": 4}
    with pytest.raises(RuleError, match="there is no field city"):
        await services.segments.preview(NEWS, 'city = "Basel"')


async def test_a_required_field_must_be_given(services: Services) -> None:
    await services.fields.declare(NEWS, [Field("city", required=True)])
    with pytest.raises(Invalid, match=r"attributes\.city: is required"):
        await services.subscriptions.add(NEWS, "a@example.org")
    await services.subscriptions.add(NEWS, "a@example.org", attributes={"city": "Bern"})


async def test_segments_are_created_changed_and_deleted(services: Services) -> None:
    segments = services.segments
    created = await segments.create(NEWS, "adults", "age >= 18")
    with pytest.raises(Exists):
        await segments.create(NEWS, "adults", "age >= 21")
    with pytest.raises(RuleError, match="line 1, column 1: there is no field agee"):
        await segments.create(NEWS, "wrong", "agee >= 21")
    with pytest.raises(Invalid, match="reserved"):
        await segments.create(NEWS, "preview", "age >= 21")
    changed = await segments.change(NEWS, "adults", "age >= 21", created.etag)
    with pytest.raises(Overtaken):
        await segments.change(NEWS, "adults", "age >= 22", created.etag)
    with pytest.raises(Overtaken):
        await segments.remove(NEWS, "adults", created.etag)
    assert await segments.get(NEWS, "adults") == changed
    await segments.create(NEWS, "old", "age >= 70")
    first = await segments.slice(NEWS, limit=1)
    rest = await segments.slice(NEWS, limit=1, after=first.next)
    assert [each.name for each in (*first.segments, *rest.segments)] == ["adults", "old"]
    await segments.remove(NEWS, "adults")
    with pytest.raises(NoSuch):
        await segments.get(NEWS, "adults")
    with pytest.raises(NoSuch):
        await segments.remove(NEWS, "adults")


async def test_two_people_who_declare_fields_do_not_overwrite_each_other(
    services: Services,
) -> None:
    seen = await services.fields.get(NEWS)
    await services.fields.declare(NEWS, [CITY], seen.etag)
    with pytest.raises(Overtaken):
        await services.fields.declare(NEWS, [AGE], seen.etag)
    await services.lists.create("other", "Other", "news@contoso.com")
    first = await services.fields.get("other")
    await services.fields.declare("other", [CITY], first.etag)
    with pytest.raises(Overtaken):
        await services.fields.declare("other", [AGE], first.etag)


async def test_a_new_list_of_the_same_name_has_no_fields_and_segments(services: Services) -> None:
    await services.segments.create(NEWS, "adults", "age >= 18")
    await services.lists.delete(NEWS)
    await services.lists.create(NEWS, "The news", "news@contoso.com")
    assert (await services.fields.get(NEWS)).fields.declared == ()
    assert (await services.segments.slice(NEWS)).segments == []
