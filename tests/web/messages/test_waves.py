"""Canaries and local time in the editor, the API and on the page of a message."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import pytest

from postroom.domain.audience.fields import Field
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.waves.canaries import ONLY_CHOSEN
from postroom.scheduler.waiting_waves import WaitingWaves
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.messages.test_editor import FORM, ask, only_draft
from tests.web.site import Site, Visitor

BODIES = NewBodies("<p>Hi</p>", "Hi")


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    await site.services.lists.edit("news", time_zone="Europe/Berlin")
    return await site.user(Role.EDITOR)


async def test_the_editor_chooses_who_gets_a_message_first(site: Site, editor: Visitor) -> None:
    _, question = await ask(editor, {**FORM, "canary": "5%"})
    assert "5% of them get it first. The rest follow 10 min later" in question.text
    draft = await only_draft(site)
    assert draft.canary == "5%"
    page = await editor.get(f"/messages/{draft.ref}/edit")
    assert '<option value="5%" selected>5% first</option>' in page.text
    await site.services.composing.save(draft.ref, ContentChange(canary="700,3m"), "bob@x.example")
    page = await editor.get(f"/messages/{draft.ref}/edit")
    assert '<option value="700,3m" selected>700,3m</option>' in page.text
    refused = await editor.post("/messages/new", {**FORM, "canary": "all", "then": "save"})
    assert refused.status_code == 422
    assert "must be off, or a share such as 1%" in refused.text


async def test_the_editor_offers_local_time_and_not_both(site: Site, editor: Visitor) -> None:
    _, question = await ask(editor, {**FORM, "local_time": "yes"})
    assert "get it at 09:00 in their own time zone" in question.text
    assert "get it first" not in question.text
    draft = await only_draft(site)
    assert draft.local_time
    await editor.post(f"/messages/{draft.ref}/schedule", {"etag": draft.etag})
    message = await site.services.messages.get(draft.ref)
    assert (message.local_time, message.list_zone) == (True, "Europe/Berlin")
    both = {**FORM, "local_time": "yes", "canary": "5%", "then": "schedule"}
    saved = await editor.post("/messages/new", both)
    asked = await editor.get(saved.headers["location"])
    assert "cannot be combined with local_time" in asked.text


async def test_the_api_has_canary_and_local_time(site: Site, editor: Visitor) -> None:
    key = (await site.services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}

    async def call(method: str, path: str, body: dict[str, object]) -> httpx2.Response:
        answer = site.visitor().http.request(method, f"/api/v1{path}", json=body, headers=headers)
        return await answer

    later = "2099-01-01T08:00:00Z"
    new = {"list": "news", "subject": "News", "html": "<p>Hi", "scheduled_at": later}
    made = (await call("POST", "/messages", {**new, "canary": "2.50 %,600s"})).json()
    assert (made["canary"], made["local_time"], made["waves"]) == ("2.5%,10m", False, None)
    there = f"/messages/{made['ref']}"
    for wrong in ("half", "60%", "1%,2d"):
        assert (await call("PATCH", there, {"canary": wrong})).status_code == 422, wrong
    assert (await call("PATCH", there, {"local_time": True})).status_code == 422
    assert (await call("PATCH", there, {"canary": None})).json()["canary"] is None
    assert (await call("PATCH", there, {"local_time": True})).json()["local_time"] is True
    assert (await call("PATCH", "/lists/news", {"time_zone": "Mars"})).status_code == 422
    both = await call("POST", "/messages", {**new, "canary": "5%", "local_time": True})
    assert both.status_code == 422


async def test_the_page_of_a_message_says_how_far_its_canary_has_come(
    site: Site, editor: Visitor
) -> None:
    services = site.services
    for number in range(20):
        await services.subscriptions.add("news", f"user{number:03}@example.com", verified=True)
    at = datetime.now(UTC)
    message = await services.messages.create(
        "news", "Hello", BODIES, at, options=SendingOptions(canary="50%,1h")
    )
    message = await fan_out_whole(services.store, message.ref)
    place = f"/messages/{message.ref}"
    page = (await editor.get(place)).text
    assert "Sending to the first 50% of the recipients. The rest follow 1 h later" in page
    assert ">Sending</span>" in page
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 20)
    message = await look(site, message)
    assert "The first 50% of the recipients have been tried." in (await editor.get(place)).text
    key = (await services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    shown = (await site.visitor().http.get(f"/api/v1{place}", headers=headers)).json()
    assert shown["waves"]["current"] == 1
    assert shown["waves"]["total"] == 2
    assert shown["waves"]["next_at"] is not None


async def look(site: Site, message: Message) -> Message:
    assert message.waves is not None
    return await WaitingWaves(site.services, ONLY_CHOSEN).look(message, message.waves)


async def test_a_message_that_stopped_after_its_canary_says_why_and_can_be_resumed(
    site: Site, editor: Visitor
) -> None:
    services = site.services
    for number in range(20):
        await services.subscriptions.add("news", f"user{number:03}@example.com", verified=True)
    at = datetime.now(UTC)
    message = await services.messages.create(
        "news", "Hello", BODIES, at, options=SendingOptions(canary="50%,0s")
    )
    message = await fan_out_whole(services.store, message.ref)
    await settle(services, message, 0, [EmailOutcome.REFUSED] * 20)
    for _ in range(2):
        message = await look(site, message)
    page = (await editor.get(f"/messages/{message.ref}")).text
    assert "were refused or bounced (100.0%; the limit is 5%)" in page.replace("\xa0", " ")
    assert "so nobody else has received it yet.</p>" in page.replace("\xa0", " ")
    assert "of the recipients so far" in page
    assert "50%, the others after 0s" in page
    assert ">Resume</button>" in page
    await editor.post(f"/messages/{message.ref}/resume", {})
    done = await fan_out_whole(services.store, message.ref)
    assert (await services.outcomes.counts(done)).planned == 20


async def test_the_page_of_a_message_by_local_time_has_its_waves(
    site: Site, editor: Visitor
) -> None:
    services = site.services
    await services.fields.declare("news", [Field("time_zone")])
    for local, zone in (("a", "Asia/Tokyo"), ("b", "America/New_York")):
        await services.subscriptions.add(
            "news", f"{local}@example.com", verified=True, attributes={"time_zone": zone}
        )
    at = datetime.now(UTC)
    message = await services.messages.create(
        "news", "Hello", BODIES, at, options=SendingOptions(local_time=True)
    )
    message = await fan_out_whole(services.store, message.ref)
    assert message.waves is not None
    page = (await editor.get(f"/messages/{message.ref}")).text
    assert "By local time" in page
    assert [page.count(f"<td>{each}</td>") for each in ("Started", "Waiting")] == [1, 1]
    assert message.waves.expected == (1, 1)
