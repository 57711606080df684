"""Values that are written while a field is being renamed survive the end of the rename."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest

from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import EVERY_LIST
from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages.messages import MessageStatus, with_status
from postroom.services.audience.fields.field_changes import FieldChanges
from postroom.services.audience.files import reading_ahead
from postroom.services.audience.files.import_report import Existing
from postroom.services.audience.files.writing.import_writer import ImportWriter
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from postroom.wiring import Services

ANN = "ann@example.com"
TOWN = Field("town", public=True)


@pytest.fixture
async def changes(services: Services) -> FieldChanges:
    """Ann has a value, and the rename of its field was interrupted."""
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare("news", [Field("city", public=True)])
    known = {"city": "old", "first_name": "Ann"}
    await services.subscriptions.add("news", ANN, verified=True, attributes=known)
    found = services.field_changes
    await found.change("news", "city", TOWN)
    return found


async def finished(services: Services, changes: FieldChanges) -> dict[str, Any]:
    await changes.finish_rename("news")
    return dict((await services.subscriptions.get("news", ANN)).attributes)


@pytest.mark.parametrize("value", ["new", None])
@pytest.mark.parametrize("is_owner", [True, False])
async def test_a_change_of_the_new_name_counts(
    services: Services, changes: FieldChanges, is_owner: bool, value: str | None
) -> None:
    if is_owner:
        ann = await services.subscriptions.get("news", ANN)
        await services.preferences.save(ann, {"town": value}, "")
    else:
        await services.subscriptions.edit("news", ANN, attributes={"town": value})
    expected = {"first_name": "Ann"} | ({"town": value} if value else {})
    assert await finished(services, changes) == expected


@pytest.mark.parametrize(
    ("existing", "town"), [(Existing.OVERWRITE, "new"), (Existing.FILL_GAPS, "old")]
)
async def test_an_import_treats_the_former_name_as_the_new_one(
    services: Services, changes: FieldChanges, existing: Existing, town: str
) -> None:
    file = io.BytesIO(f"email,town\n{ANN},new\n".encode())
    await services.imports.import_csv("news", file, existing=existing)
    assert await finished(services, changes) == {"first_name": "Ann", "town": town}


async def test_pending_values_are_renamed(services: Services) -> None:
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare("news", [Field("city", public=True)])
    await services.subscriptions.add("news", ANN, attributes={"city": "old"})
    await services.subscriptions.subscribe("news", ANN, attributes={"city": "new"})
    changes = services.field_changes
    await changes.change("news", "city", TOWN)
    await changes.finish_rename("news")
    ann = await services.subscriptions.get("news", ANN)
    assert ann.pending_attributes == {"town": "new"}
    await services.subscriptions.confirm("news", ann.guid)
    assert await finished(services, changes) == {"town": "new"}


async def test_a_confirmation_of_the_new_name_counts(services: Services) -> None:
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare("news", [Field("city", public=True)])
    ann = await services.subscriptions.add("news", ANN, attributes={"city": "old"})
    changes = services.field_changes
    await changes.change("news", "city", TOWN)
    await services.subscriptions.subscribe("news", ANN, attributes={"town": "new"})
    await services.subscriptions.confirm("news", ann.guid)
    assert await finished(services, changes) == {"town": "new"}


async def test_a_field_cannot_be_removed_while_its_values_are_renamed(
    services: Services, changes: FieldChanges
) -> None:
    """Some values would stay under the former name, and not come back with the field."""
    with pytest.raises(NotNow, match="town is still being renamed"):
        await changes.remove("news", "town")
    with pytest.raises(NotNow, match="town is still being renamed"):
        await services.fields.declare("news", [])
    with pytest.raises(NotNow, match="city is still being renamed to town"):
        await services.fields.declare("news", [TOWN, Field("city")])
    await changes.finish_rename("news")
    await changes.remove("news", "town")
    await services.fields.declare("news", [TOWN])
    assert (await services.subscriptions.get("news", ANN)).attributes["town"] == "old"


@pytest.mark.parametrize("column", ["city", "attributes"])
@pytest.mark.parametrize("lines", [1, 5])
async def test_an_import_stops_if_a_field_that_it_fills_is_renamed(
    services: Services, monkeypatch: pytest.MonkeyPatch, lines: int, column: str
) -> None:
    """Nobody would see the values that it writes under the former name."""
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 1)
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare("news", [Field("city")])
    header = "email,uuid,name,status,attributes" if column == "attributes" else "email,city"
    cell = ',,enabled,"{""city"":""Bern""}"' if column == "attributes" else "Bern"
    data = "\n".join((header, *(f"p{n}@b.org,{cell}" for n in range(lines)))).encode()
    found = services.imports
    write = ImportWriter.write

    async def write_and_rename(writer: ImportWriter, *options: Any) -> None:
        await write(writer, *options)
        if any(each.name == "city" for each in (await services.fields.get("news")).fields.own):
            await services.field_changes.rename("news", "city", "town")
            await services.field_changes.finish_rename("news")

    with monkeypatch.context() as patch:
        patch.setattr(ImportWriter, "write", write_and_rename)
        with pytest.raises(Invalid, match="the field city was renamed or removed during the"):
            await found.import_csv("news", io.BytesIO(data))
    first = await services.subscriptions.get("news", "p0@b.org")
    assert first.attributes["town"] == "Bern"
    assert [each async for each in services.segments.select("news", "town is empty")] == []
    await found.import_csv("news", io.BytesIO(data.replace(b"city", b"town")))
    everyone = [each async for each in services.segments.select("news", 'town = "Bern"')]
    assert len(everyone) == lines


@pytest.mark.parametrize("owner", ["news", EVERY_LIST])
async def test_values_of_a_removed_field_do_not_replace_those_of_one_that_gets_its_name(
    services: Services, owner: str
) -> None:
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare(owner, [Field("town"), Field("city")])
    known = {"city": "old", "town": "Bern"}
    await services.subscriptions.add("news", ANN, verified=True, attributes=known)
    await services.subscriptions.add("news", "bob@b.org", verified=True, attributes=known)
    await services.subscriptions.edit("news", "bob@b.org", attributes={"town": None})
    changes = services.field_changes
    await changes.remove(owner, "city")
    await changes.rename(owner, "town", "city")
    await changes.finish_rename(owner)
    found = [await services.subscriptions.get("news", each) for each in (ANN, "bob@b.org")]
    assert [each.attributes.get("city") for each in found] == ["Bern", None]


async def test_a_message_that_is_being_prepared_keeps_the_values_of_a_removed_field(
    services: Services,
) -> None:
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare("news", [Field("town"), Field("city")])
    known = {"city": "old", "town": "Bern"}
    await services.subscriptions.add("news", ANN, verified=True, attributes=known)
    message = await services.messages.create(
        "news", "News", NewBodies(None, "Hello"), datetime.now(UTC)
    )
    await services.message_rows.save(with_status(message, MessageStatus.QUEUING))
    changes = services.field_changes
    await changes.remove("news", "city")
    with pytest.raises(NotNow, match="city was removed and still has values"):
        await changes.rename("news", "town", "city")
    assert [each.name for each in (await services.fields.get("news")).fields.own] == ["town"]
    await changes.rename("news", "town", "place")  # a name without values
    assert (await services.subscriptions.get("news", ANN)).attributes == known


async def test_a_rule_about_a_deleted_message_does_not_stop_a_rename(services: Services) -> None:
    await services.lists.create("news", "News", "news@contoso.example")
    await services.fields.declare("news", [Field("city")])
    draft = await services.composing.create(ContentChange(list_name="news"), "ann")
    await services.segments.create("news", "late", f'city = "Bern" and received {draft.ref}')
    await services.messages.delete(draft.ref)
    await services.field_changes.rename("news", "city", "town")
    assert await services.field_changes.finish_rename("news") == 0
    rule = (await services.segments.get("news", "late")).rule
    assert rule == f'town = "Bern" and received {draft.ref}'
