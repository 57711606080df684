"""The choice of a message's audience in the editor."""

from __future__ import annotations

import re

import pytest

from postroom.domain.messages.audiences import EVERYBODY, Audience
from postroom.services.accounts.users import Role
from tests.web.site import Site, Visitor

LATER = {"when": "later", "day": "2099-07-01", "clock": "09:00", "zone": "UTC"}
FORM = {"list": "news", "subject": "Hello", "body": "<p>Hi</p>", "format": "html", **LATER}
CHOSEN = {"audience": "chosen", "segment": "berlin", "exclude_lists": "other"}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    services = site.services
    for name in ("news", "other"):
        await services.lists.create(name, name.title(), f"{name}@example.org")
    await services.segments.create("news", "berlin", 'email ends with "@berlin.example"')
    await services.segments.create("news", "staff", 'email ends with "@example.org"')
    return await site.user(Role.EDITOR)


async def saved_audience(site: Site) -> Audience:
    [draft] = await site.services.times.drafts(limit=2)
    return draft.audience


async def test_an_audience_is_chosen_kept_and_shown(site: Site, editor: Visitor) -> None:
    saved = await editor.post("/messages/new", {**FORM, **CHOSEN, "exclude_segments": "staff"})
    expected = Audience("berlin", ("staff",), ("other",))  # type: ignore[arg-type]
    assert await saved_audience(site) == expected
    page = (await editor.get(saved.headers["location"])).text
    assert re.search(r'<option value="berlin" selected>', page)
    assert re.search(r'name="exclude_lists" value="other" checked', page)
    assert re.search(r'name="exclude_segments" value="staff" checked', page)
    assert 'name="exclude_lists" value="news"' not in page


async def test_further_lists_are_chosen_kept_and_shown(site: Site, editor: Visitor) -> None:
    chosen = {"audience": "chosen", "more_lists": "other"}
    saved = await editor.post("/messages/new", {**FORM, **chosen})
    assert (await saved_audience(site)).more_lists == ("other",)
    page = (await editor.get(saved.headers["location"])).text
    assert re.search(r'name="more_lists" value="other" checked', page)
    ref = saved.headers["location"].split("/")[2]
    for number in range(3):
        for name in ("news", "other"):
            await site.services.subscriptions.add(name, f"u{number}@example.com", verified=True)
    question = (await editor.get(f"/messages/{ref}/schedule")).text
    assert "to 3 subscribers of news, other?" in question
    assert "they are on several of the lists and get it once" in question
    scheduled = (await editor.post(f"/messages/{ref}/schedule", {})).headers["location"]
    assert (
        '<a href="/lists/news">news</a>, <a href="/lists/other">other</a>'
        in (await editor.get(scheduled)).text
    )
    both = {**chosen, "exclude_lists": "other"}
    refused = await editor.post(f"/messages/{ref}/edit", {**FORM, **both})
    assert refused.status_code == 422
    assert "gets the message, so it cannot be left out" in refused.text


async def test_a_form_without_the_choice_keeps_the_audience(site: Site, editor: Visitor) -> None:
    saved = await editor.post("/messages/new", {**FORM, **CHOSEN})
    where = saved.headers["location"]
    await editor.post(where, {**FORM, "subject": "Changed"})
    assert (await saved_audience(site)).segment == "berlin"
    await editor.post(where, {**FORM, "audience": "chosen", "segment": ""})
    assert await saved_audience(site) == EVERYBODY


async def test_a_scheduled_message_gets_another_audience(site: Site, editor: Visitor) -> None:
    saved = await editor.post("/messages/new", FORM)
    ref = saved.headers["location"].split("/")[2]
    await site.services.composing.schedule(ref)
    changed = await editor.post(f"/messages/{ref}/edit", {**FORM, **CHOSEN})
    assert changed.status_code == 303
    assert (await site.services.messages.get(ref)).segment == "berlin"
    gone = {**CHOSEN, "segment": "nobody"}
    refused = await editor.post(f"/messages/{ref}/edit", {**FORM, **gone})
    assert refused.status_code == 422
    assert 'id="segment-help"' in refused.text


async def test_another_list_has_other_choices(editor: Visitor) -> None:
    query = {"list": "other", **CHOSEN}
    page = (await editor.get("/messages/audience", params=query)).text
    assert "berlin" not in page
    assert 'name="exclude_lists" value="news"' in page
    assert 'value="other"' not in page
    same = (await editor.get("/messages/audience", params={**query, "list": "news"})).text
    assert '<option value="berlin" selected>' in same
    for odd in ("", "nowhere", "x" * 5000, "a/b"):
        assert (await editor.get("/messages/audience", params={"list": odd})).status_code == 200
