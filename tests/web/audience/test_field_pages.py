"""The fields of a list, over HTTP: add, edit, rename, reorder, delete."""

from __future__ import annotations

import re
from html import unescape

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.services.accounts.users import Role
from postroom.services.audience.fields import field_changes
from postroom.web.admin.audience import fields
from tests.web.site import Site, Visitor

HERE = "/lists/news"


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def declared(site: Site) -> list[Field]:
    return list((await site.services.fields.get("news")).fields.declared)


def form(**given: str) -> dict[str, str]:
    return {"name": "city", "type": "text", "max_length": "1000", **given}


async def test_a_field_is_added_with_everything_that_it_can_have(
    site: Site, editor: Visitor
) -> None:
    page = await editor.get(f"{HERE}/fields")
    assert "No fields yet" in page.text
    made = await editor.post(
        f"{HERE}/field",
        form(
            name="plan", type="choice", choices="free\n pro \n", default="FREE", required="yes",
            public="yes", label_en="Plan", label_de="Tarif",
        ),
    )  # fmt: skip
    assert made.headers["location"] == f"{HERE}/fields"
    assert await declared(site) == [
        Field(
            "plan",
            FieldType.CHOICE,
            label={"en": "Plan", "de": "Tarif"},
            required=True,
            public=True,
            default="free",
            choices=("free", "pro"),
        )
    ]
    page = await editor.get(f"{HERE}/fields")
    assert "free, pro" in page.text
    again = await editor.post(f"{HERE}/field", form(name="plan"))
    assert again.status_code == 409
    assert "is already taken" in again.text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "Home town"}, "Name must have 1 to 40 of a-z"),
        ({"name": "email"}, "mail is built in: choose another name"),
        ({"type": "choice"}, "must have 1 to 100 choices, not 0"),
        ({"type": "date", "default": "tomorrow"}, "must be a date such as"),
        ({"max_length": "0"}, "must be between 1 and 1000, not 0"),
        ({"max_length": "many"}, "must be between 1 and 1000"),
        ({"type": "magic"}, "must be one of text"),
        ({"label_de": "a\u202eb"}, "contains a character that is not allowed"),
    ],
)
async def test_a_mistake_is_shown_next_to_its_input_and_nothing_is_lost(
    site: Site, editor: Visitor, given: dict[str, str], words: str
) -> None:
    answer = await editor.post(f"{HERE}/field", form(label_en="My label", **given))
    assert answer.status_code == 422
    assert words in unescape(answer.text)
    assert 'aria-invalid="true"' in answer.text
    assert "My label" in answer.text
    assert await declared(site) == []


async def test_renaming_keeps_values_and_changes_segments(site: Site, editor: Visitor) -> None:
    services = site.services
    await services.fields.declare("news", [Field("city"), Field("age", FieldType.INTEGER)])
    for number in range(250):
        values = {"city": f"City {number}"} if number % 2 else {"age": number}
        await services.subscriptions.add("news", f"u{number:03}@b.org", attributes=values)
    await services.segments.create("news", "some", 'not (city = "City 1" or age > 9)')
    page = (await editor.get(f"{HERE}/field?field=city")).text
    before = unescape(re.findall(r'name="before" value="([^"]*)"', page)[0])
    given = form(name="town", before=before)
    saved = await editor.post(f"{HERE}/field?field=city", given)
    assert saved.status_code == 303, saved.text
    assert [each.name for each in await declared(site)] == ["town", "age"]
    assert not any(each.formerly for each in await declared(site))
    found = await services.subscriptions.get("news", "u249@b.org")
    assert found.attributes == {"town": "City 249"}
    segment = await services.segments.get("news", "some")
    assert segment.rule == 'not (town = "City 1" or age > 9)'
    assert (await services.segments.preview("news", 'town starts with "City"')).count == 125


async def test_an_interrupted_rename_hides_nothing_and_can_be_resumed(
    site: Site, editor: Visitor
) -> None:
    services = site.services
    await services.fields.declare("news", [Field("city")])
    await services.subscriptions.add("news", "ann@b.org", attributes={"city": "Bern"})
    await services.field_changes.change("news", "city", Field("town"))  # and then the power fails
    assert (await services.segments.preview("news", 'town = "Bern"')).count == 1
    await services.fields.declare("news", [Field("town", label="Town")])
    page = (await editor.get(f"{HERE}/fields")).text
    assert "The values of city are being renamed to town." in page
    again = await editor.post(f"{HERE}/field?field=town", form(name="village"))
    assert again.status_code == 409
    await editor.post(f"{HERE}/fields/rename", {})
    assert dict((await services.subscriptions.get("news", "ann@b.org")).attributes) == {
        "town": "Bern"
    }
    assert "are being renamed" not in (await editor.get(f"{HERE}/fields")).text


async def test_someone_elses_change_is_shown_next_to_ones_own(site: Site, editor: Visitor) -> None:
    await site.services.fields.declare("news", [Field("city")])
    page = (await editor.get(f"{HERE}/field?field=city")).text
    before = unescape(re.findall(r'name="before" value="([^"]*)"', page)[0])
    await site.services.fields.declare("news", [Field("city", label="Their label"), Field("age")])
    mine = await editor.post(f"{HERE}/field?field=city", form(label_en="Mine", before=before))
    assert mine.status_code == 409
    assert "Someone else saved changes first" in mine.text
    assert "Their label" in mine.text
    # Another field does not matter.
    before = unescape(re.findall(r'name="before" value="([^"]*)"', mine.text)[0])
    await site.services.fields.declare("news", [Field("city", label="Their label")])
    mine = await editor.post(f"{HERE}/field?field=city", form(label_en="Mine", before=before))
    assert mine.status_code == 303
    assert [each.label for each in await declared(site)] == ["Mine"]


async def test_fields_are_moved_up_and_down(site: Site, editor: Visitor) -> None:
    await site.services.fields.declare("news", [Field("a"), Field("b"), Field("c")])

    async def moved(name: str, by: str) -> list[str]:
        await editor.post(f"{HERE}/fields/move", {"field": name, "by": by})
        return [each.name for each in await declared(site)]

    assert await moved("c", "-1") == ["a", "c", "b"]
    assert await moved("a", "1") == ["c", "a", "b"]
    assert await moved("c", "-1") == ["c", "a", "b"]
    assert await moved("b", "1") == ["c", "a", "b"]


async def test_deleting_asks_first_and_says_who_has_a_value(site: Site, editor: Visitor) -> None:
    services = site.services
    await services.fields.declare("news", [Field("city")])
    for name in ("ann", "bob"):
        await services.subscriptions.add("news", f"{name}@b.org", attributes={"city": name})
    await services.subscriptions.add("news", "cid@b.org", attributes={"first_name": '"city":1'})
    await services.segments.create("news", "people-of-bern", 'city = "Bern"')
    question = (await editor.get(f"{HERE}/field/delete?field=city")).text
    assert "2 subscribers have a value." in question
    assert "stop working: people-of-bern." in question
    await editor.post(f"{HERE}/field/delete", {"field": "city"})
    assert await declared(site) == []
    await editor.post(f"{HERE}/field", form())
    assert (await services.segments.preview("news", 'city = "ann"')).count == 1


async def test_the_question_does_not_wait_until_a_large_list_is_counted(
    site: Site, editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "_COUNT_SECONDS", -1.0)
    monkeypatch.setattr(field_changes, "_ROWS", 1)
    await site.services.fields.declare("news", [Field("city")])
    for name in ("ann", "bob", "cid"):
        await site.services.subscriptions.add("news", f"{name}@b.org", attributes={"city": name})
    url = f"{HERE}/field/delete?field=city"
    question = (await editor.get(url)).text
    assert "More than 1 subscriber has a value." in question
    assert f'hx-get="{url}"' in question
    counted = (await editor.get(url, headers={"HX-Request": "true"})).text
    assert counted.startswith("3 subscribers have a value.")


async def test_a_viewer_sees_fields_and_changes_none(site: Site, editor: Visitor) -> None:
    await site.services.fields.declare("news", [Field("city")])
    viewer = await site.user(Role.VIEWER)
    page = await viewer.get(f"{HERE}/fields")
    assert "City" in page.text
    assert "Add field" not in page.text
    assert "<form" not in page.text.partition("<main")[2].partition("</main")[0]
    for path in ("field", "field/delete", "fields/move", "fields/rename"):
        assert (await viewer.post(f"{HERE}/{path}", {})).status_code == 403
