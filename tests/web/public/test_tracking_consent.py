"""Consent to tracking belongs to the subscriber: given in forms and preferences, and withdrawn."""

from __future__ import annotations

import json

import pytest

from postroom.domain.audience.consent import details_of
from postroom.domain.audience.lists.lists import Subscriber
from tests.web.site import Site

ANN = "ann@example.com"
BOX = 'name="tracking"'


@pytest.fixture
async def news(site: Site) -> None:
    await site.services.lists.create("news", "News", "news@contoso.example")
    await site.services.lists.edit("news", public=True, ask_tracking=True)


async def sign_up(site: Site, **more: str) -> Subscriber:
    form = {"list": "news", "email": ANN, **more}
    response = await site.visitor().http.post("/subscribe?list=news", data=form)
    assert response.status_code == 200, response.text
    return await site.services.subscriptions.get("news", ANN)


async def said(site: Site) -> list[tuple[str, tuple[str, ...]]]:
    """The entries of the ledger about Ann, and what each of them names."""
    [history] = (await site.services.tracing.trace(ANN)).consent
    assert history.fault == ""
    return [(each.act.value, details_of(each).changed) for each in history.entries]


async def shown_to_the_team(site: Site) -> tuple[bool, bool]:
    """Whether the API and the subscriber's page say that Ann agrees."""
    place = f"/lists/news/subscribers/{ANN}"
    key = (await site.services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    found = (await site.visitor().http.get(f"/api/v1{place}", headers=headers)).json()
    users = [each.email for each in await site.services.users.all()]
    user = await site.user(email=f"user{len(users)}@example.org")
    return found["tracking"], "<dt>Personal tracking</dt><dd>Agreed</dd>" in (
        await user.get(place)
    ).text


async def test_consent_is_given_at_the_sign_up_and_withdrawn_in_the_preferences(
    site: Site, news: None
) -> None:
    visitor = site.visitor()
    assert BOX in (await visitor.get("/subscribe?list=news")).text
    ann = await sign_up(site, tracking="yes")
    assert ann.tracking
    await site.services.subscriptions.confirm("news", ann.guid)
    page = f"/preferences?id={ann.guid}&listName=news"
    assert f'{BOX} value="yes" checked' in (await visitor.get(page)).text
    assert await shown_to_the_team(site) == (True, True)
    await visitor.http.post(page, data={"action": "save"})
    assert not (await site.services.subscriptions.get("news", ANN)).tracking
    assert await shown_to_the_team(site) == (False, False)
    await visitor.http.post(page, data={"action": "save", "tracking": "yes"})
    file = await visitor.http.post(page, data={"action": "download"})
    assert json.loads(file.text)["subscription"]["tracking"] is True
    assert await said(site) == [
        ("signed up", ("agreed to tracking",)),
        ("confirmed", ()),
        ("withdrew consent to tracking", ()),
        ("agreed to tracking", ()),
    ]


async def test_the_last_sign_up_before_the_confirmation_counts(site: Site, news: None) -> None:
    await sign_up(site, tracking="yes")
    assert not (await sign_up(site)).tracking
    assert await said(site) == [
        ("signed up", ("agreed to tracking",)),
        ("signed up", ("withdrew consent to tracking",)),
    ]


async def test_a_list_that_does_not_ask_takes_no_consent(site: Site, news: None) -> None:
    agreed = await sign_up(site, tracking="yes")
    await site.services.subscriptions.confirm("news", agreed.guid)
    await site.services.lists.edit("news", ask_tracking=False)
    visitor = site.visitor()
    assert BOX not in (await visitor.get("/subscribe?list=news")).text
    other = {"list": "news", "email": "bob@example.com", "tracking": "yes"}
    await visitor.http.post("/subscribe?list=news", data=other)
    assert not (await site.services.subscriptions.get("news", "bob@example.com")).tracking
    # What was given can still be withdrawn.
    page = f"/preferences?id={agreed.guid}&listName=news"
    assert BOX in (await visitor.get(page)).text
    await visitor.http.post(page, data={"action": "save"})
    assert not (await site.services.subscriptions.get("news", ANN)).tracking
    assert BOX not in (await visitor.get(page)).text


async def test_the_preview_of_the_sign_up_page_and_the_html_form_have_the_box(
    site: Site, news: None
) -> None:
    admin = await site.user()
    page = await admin.get("/lists/news/signup-page")
    assert page.text.count("I agree that you may record which of these emails I open") == 2
