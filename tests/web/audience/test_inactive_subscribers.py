"""The page of inactive subscribers: counted, won back, and removed after a question."""

from __future__ import annotations

import httpx2
import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageFormat
from postroom.domain.messages.tracking import Track
from postroom.scheduler.completion import Completion
from postroom.services.accounts.users import Role
from tests.integration.usecases.making import days
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.site import Site

NEWS = ListName("news")


async def subscriber(site: Site, number: int, *, agreed_days_ago: float | None) -> Subscriber:
    added = await site.services.subscriptions.add(NEWS, f"u{number}@example.com", verified=True)
    if agreed_days_ago is None:
        return added
    rows = site.services.subscriber_rows
    agreed = await rows.save(added, msgspec.structs.replace(added, tracking=True), added.etag)
    earlier = msgspec.structs.replace(agreed, tracking_since=days(-agreed_days_ago))
    return await rows.save(agreed, earlier, agreed.etag)


async def left(site: Site) -> list[str]:
    return [each.address async for each in site.services.subscriptions.all(NEWS)]


async def test_inactive_subscribers_get_a_message_and_those_who_do_not_respond_are_removed(
    site: Site,
) -> None:
    services = site.services
    await services.lists.create(NEWS, "News", "news@contoso.example")
    people = [
        await subscriber(site, 0, agreed_days_ago=200),
        await subscriber(site, 1, agreed_days_ago=200),
        await subscriber(site, 2, agreed_days_ago=100),
        await subscriber(site, 3, agreed_days_ago=None),
    ]
    user = await site.user()
    page = await user.get("/lists/news/inactive")
    assert "inactive for 180 days" in page.text
    assert "does not ask its subscribers" in page.text
    counted = await user.post(
        "/lists/news/segment/count",
        {"rule": "inactive for 180 days"},
        headers={"HX-Request": "true"},
    )
    assert "u0@example.com" in counted.text

    made = await user.post("/lists/news/inactive/win-back", {"days": "180"})
    ref = made.headers["location"].split("/")[2]
    draft = await services.messages.get(ref)
    assert (draft.format, draft.track) == (MessageFormat.MARKDOWN, Track.PERSONAL)
    bodies = await services.messages.bodies(draft)
    assert "https://contoso.example" in (bodies.source or bodies.html or "")
    scheduled = await services.composing.schedule(ref, clock.now())
    message = await fan_out_whole(services.store, scheduled.ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 2)
    late = await subscriber(site, 4, agreed_days_ago=300)
    moment = clock.now()
    await services.subscriber_rows.note_engagement(people[1], moment, moment)

    await user.post(
        "/lists/news/inactive/remove", {"days": "180", "after": ref, "confirmed": "yes"}
    )
    assert late.address in await left(site), "did not receive the message"
    assert await left(site) == [each.address for each in (*people, late)], "it is not sent yet"
    assert await Completion(services).check(message)
    page = await user.get("/lists/news/inactive")
    assert "was sent to 2 of them" in page.text
    asked = await user.post("/lists/news/inactive/remove", {"days": "180", "after": ref})
    assert "Remove 1 subscriber from the list?" in asked.text
    assert len(await left(site)) == 5
    await user.post(
        "/lists/news/inactive/remove", {"days": "180", "after": ref, "confirmed": "yes"}
    )
    assert await left(site) == [each.address for each in (*people[1:], late)]
    await user.post("/lists/news/inactive/remove", {"days": "180", "confirmed": "yes"})
    assert await left(site) == [each.address for each in people[1:]]
    asked = await user.post("/lists/news/inactive/remove", {"days": "180"})
    assert asked.headers["location"].startswith("/lists/news/inactive"), "nobody is left"


async def test_the_api_wins_back_and_removes_inactive_subscribers(site: Site) -> None:
    services = site.services
    await services.lists.create(NEWS, "News", "news@contoso.example")
    people = [await subscriber(site, number, agreed_days_ago=200) for number in range(2)]
    kept = await subscriber(site, 2, agreed_days_ago=100)
    headers = {"Authorization": f"Bearer {(await services.keys.create('of the test')).secret}"}
    http = site.visitor().http

    async def call(what: str, **body: object) -> httpx2.Response:
        return await http.post(f"/api/v1/lists/news/inactive/{what}", json=body, headers=headers)

    made = await call("win-back")
    assert made.status_code == 201
    draft = made.json()
    assert (draft["segment"], draft["track"]) == ("inactive-180-days", "personal")
    for ref in (draft["ref"], "", "x"):
        answer = await call("remove", received=ref)
        assert answer.status_code == 404, "nobody has received it yet"
    assert (await call("remove", days=30)).status_code == 422
    assert len(await left(site)) == 3
    await services.composing.schedule(draft["ref"], clock.now())
    message = await fan_out_whole(services.store, draft["ref"])
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 2)
    await services.subscriber_rows.note_engagement(people[1], clock.now(), None)
    assert await Completion(services).check(message)
    assert (await call("remove", received=draft["ref"], days=90)).status_code == 404
    done = await call("remove", received=draft["ref"])
    assert done.json() == {"removed": 1, "problems": []}
    assert await left(site) == [people[1].address, kept.address]
    assert (await call("remove", days=90)).json() == {"removed": 1, "problems": []}
    assert await left(site) == [people[1].address]


async def test_only_those_who_may_manage_the_list_remove_subscribers(site: Site) -> None:
    await site.services.lists.create(NEWS, "News", "news@contoso.example")
    await subscriber(site, 0, agreed_days_ago=200)
    viewer = await site.user(Role.VIEWER)
    assert "Remove all" not in (await viewer.get("/lists/news/inactive")).text
    response = await viewer.post("/lists/news/inactive/remove", {"days": "180", "confirmed": "yes"})
    assert response.status_code == 403
    assert len(await left(site)) == 1
