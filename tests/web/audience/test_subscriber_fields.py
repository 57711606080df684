"""A subscriber's fields, note, lists and history on its page, and fields in the index."""

from __future__ import annotations

import re
from html import unescape

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.errors import Invalid
from postroom.services.accounts.users import Role
from tests.web.site import Site, Visitor

HERE = "/lists/news/subscribers"
ANN = f"{HERE}/ann@b.org"


@pytest.fixture
async def editor(site: Site) -> Visitor:
    services = site.services
    for name in ("news", "other"):
        await services.lists.create(name, "News", "news@contoso.example")
    fields = [
        Field("city", label="Home town", required=True),
        Field("age", FieldType.INTEGER),
        Field("member", FieldType.BOOLEAN),
        Field("topics", FieldType.CHOICES, choices=("News", "Food, drink")),
    ]
    values = {"city": "<Bern>", "age": 30, "topics": ["Food, drink"], "hidden": "x"}
    await services.fields.declare("news", [*fields, Field("hidden")])
    await services.subscriptions.add("news", "ann@b.org", verified=True, attributes=values)
    await services.subscriptions.add("other", "ann@b.org")
    await services.fields.declare("news", fields)
    return await site.user(Role.EDITOR)


def form(page: str, **changes: str | list[str]) -> dict[str, str | list[str]]:
    etag = unescape(re.findall(r'name="etag" value="([^"]+)"', page)[0])
    given: dict[str, str | list[str]] = {
        "email": "ann@b.org", "verified": "yes", "etag": etag, "fields": "yes",
    }  # fmt: skip
    return {**given, **changes}


async def test_fields_and_note_are_shown_and_edited(site: Site, editor: Visitor) -> None:
    page = (await editor.get(ANN)).text
    assert 'value="&lt;Bern&gt;"' in page
    assert re.search(r'value="Food, drink" checked', page)
    visible, folded = page.split("<summary>More fields (5)</summary>")
    assert 'name="field_city"' in visible
    assert 'name="field_member"' in folded, "it has no value"
    given = form(
        page, field_city="Ulm", field_age="", field_member="false", field_topics=["News"],
        field_first_name="Ann", note="Met at\r\nthe fair",
    )  # fmt: skip
    saved = await editor.post(ANN, given)
    assert saved.status_code == 303, saved.text
    ann = await site.services.subscriptions.get("news", "ann@b.org")
    assert ann.attributes == {
        "city": "Ulm", "member": False, "topics": ["News"], "first_name": "Ann", "hidden": "x",
    }  # fmt: skip
    assert ann.note == "Met at\nthe fair"
    viewer = await site.user(Role.VIEWER)
    seen = (await viewer.get(ANN)).text
    assert "Met at\nthe fair" in seen
    assert "<dt>Home town</dt>" in seen


async def test_a_wrong_value_is_shown_next_to_its_input(site: Site, editor: Visitor) -> None:
    page = (await editor.get(ANN)).text
    wrong = await editor.post(ANN, form(page, field_age="old", field_city="Rome"))
    assert wrong.status_code == 422
    assert "must be a whole number" in wrong.text
    assert 'value="Rome"' in wrong.text
    long = await editor.post(ANN, form(page, note="x" * 2001))
    assert "must have at most 2000 characters" in long.text
    ann = await site.services.subscriptions.get("news", "ann@b.org")
    assert ann.attributes["city"] == "<Bern>"


async def test_a_choice_that_is_no_longer_offered_stays(site: Site, editor: Visitor) -> None:
    plan = Field("plan", FieldType.CHOICE, choices=("free", "pro"))
    await site.services.fields.declare("news", [plan])
    edit = site.services.subscriptions.edit
    await edit("news", "ann@b.org", attributes={"plan": "pro"})
    fewer = Field("plan", FieldType.CHOICE, choices=("free",))
    await site.services.fields.declare("news", [fewer])
    page = (await editor.get(ANN)).text
    assert '<option value="pro" selected>' in page
    saved = await editor.post(ANN, form(page, field_plan="pro", field_first_name="Ann"))
    assert saved.status_code == 303, saved.text
    ann = await site.services.subscriptions.get("news", "ann@b.org")
    assert (ann.attributes["plan"], ann.attributes["first_name"]) == ("pro", "Ann")
    await edit("news", "ann@b.org", attributes={"plan": "free"})
    with pytest.raises(Invalid, match="must be one of free, not 'pro'"):
        await edit("news", "ann@b.org", attributes={"plan": "pro"})


async def test_a_form_without_fields_changes_none(site: Site, editor: Visitor) -> None:
    page = (await editor.get(ANN)).text
    given = {name: text for name, text in form(page).items() if name != "fields"}
    assert (await editor.post(ANN, given)).status_code == 303
    ann = await site.services.subscriptions.get("news", "ann@b.org")
    assert ann.attributes["age"] == 30


async def test_conflicting_values_are_shown_side_by_side(site: Site, editor: Visitor) -> None:
    page = (await editor.get(ANN)).text
    await site.services.subscriptions.edit("news", "ann@b.org", attributes={"city": "Theirs"})
    mine = await editor.post(ANN, form(page, field_city="Mine"))
    assert mine.status_code == 409
    assert "Theirs" in mine.text
    assert 'value="Mine"' in mine.text


async def test_lists_and_history_are_shown(site: Site, editor: Visitor) -> None:
    page = (await editor.get(ANN)).text
    assert 'href="/lists/other/subscribers/ann%40b.org"' in page
    assert "Consent ledger: 2 entries, intact." in page
    assert 'hx-get="/trace?email=ann%40b.org"' in page


async def test_a_new_subscriber_needs_the_required_fields(site: Site, editor: Visitor) -> None:
    where = f"{HERE}/add"
    given = {"email": "bob@b.org", "fields": "yes", "field_age": "40"}
    assert "Home town is required" in (await editor.post(where, given)).text
    assert (await editor.post(where, {**given, "field_city": "Bern"})).status_code == 303
    bob = await site.services.subscriptions.get("news", "bob@b.org")
    assert bob.attributes == {"city": "Bern", "age": 40}


async def test_the_index_is_filtered_by_segment_and_has_columns(
    site: Site, editor: Visitor
) -> None:
    for number in range(120):
        await site.services.subscriptions.add(
            "news", f"u{number:03}@b.org", attributes={"city": "Ulm" if number % 2 else "Rome"}
        )
    await site.services.segments.create("news", "ulm", 'city = "Ulm"')
    first = (await editor.get(f"{HERE}?segment=ulm&column=city")).text
    assert ">u001@b.org<" in first
    assert ">u000@b.org<" not in first
    assert first.count('data-label="Home town">Ulm<') == 50
    assert "export?segment=ulm" in first
    onward = unescape(re.findall(r'href="([^"]+)" rel="next"', first)[0])
    assert "segment=ulm" in onward
    assert "columns=city" in onward
    second = (await editor.get(onward)).text
    assert second.count('data-label="Home town">Ulm<') == 10
    part = (await editor.get(f"{HERE}?segment=ulm&q=u00&state=unverified")).text
    assert part.count('name="email" value="u00') == 5
    assert (await editor.get(f"{HERE}?segment=nope")).status_code == 404
    nobody = (await editor.get(f"{HERE}?segment=ulm&q=nobody")).text
    assert "in the segment ulm" in nobody
