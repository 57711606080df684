"""API keys that are limited to selected lists: other lists do not exist for them, in any call."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, ListRight, Rights
from postroom.domain.audience.lists.lists import ListName
from postroom.web.api.app import ROUTERS
from postroom.web.api.documenting import RIGHT
from postroom.web.requests.list_checks import LIST_FIELDS
from tests.web.site import Site
from tests.web.test_list_rights import SECRETS
from tests.web.world import ANN, LIST, OTHER, World, furnished

ROUTES: list[Any] = [route for router in ROUTERS for route in router.routes]
KNOWN_IN_PATHS = {"name", "ref", "email", "hash", "segment", "field", "kind", "language"}


class Caller:
    """A program with a key that is limited to some lists."""

    def __init__(self, site: Site, secret: str) -> None:
        self._http = site.visitor().http
        self._secret = secret

    async def call(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._secret}", **options.pop("headers", {})}
        return await self._http.request(
            method, f"/api/v1{path}", json=body, headers=headers, **options
        )


async def caller(site: Site, name: str, rights: Rights) -> Caller:
    created = await site.services.keys.create("limited", only_lists=True)
    await site.services.list_grants.set(created.key.principal, ListName(name), rights)
    return Caller(site, created.secret)


def filled(path: str, world: World) -> str:
    values = {"name": LIST if path.startswith("/lists/") else "own"}
    values["ref"] = world.names["ab_draft" if "/ab-test" in path else "draft"]
    values |= {"email": ANN, "segment": "new-in-bern", "hash": world.names["picture"]}
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: values.get(found[1], "x"), path)


async def test_no_call_reaches_a_foreign_list(site: Site) -> None:
    world = await furnished(site)
    program = await caller(site, OTHER, ALL_RIGHTS)
    walked = 0
    for route in ROUTES:
        [method] = route.methods
        where, path = f"{method} {route.path}", filled(route.path, world)
        if RIGHT not in route.openapi_extra:
            response = await program.call(method, path)
            # A body of another type is refused before anything else.
            assert response.status_code in (403, 415), (where, response.text)
            continue
        names = {each.partition(":")[0] for each in re.findall(r"\{([^}]*)\}", route.path)}
        assert names <= KNOWN_IN_PATHS, f"{route.path}: say in list_checks.py what it names"
        if route.path.startswith("/lists/{name}") or "{ref}" in route.path:
            response = await program.call(method, path)
            assert response.status_code == 404, (where, response.text)
            told = [each for each in SECRETS if each in response.text and each not in path]
            assert told == [], (where, told)
            walked += 1
        elif method == "GET":
            response = await program.call(method, path)
            assert response.status_code == 200, (where, response.text)
            # Somebody of the team has the address of a subscriber: she uploaded the pictures.
            secrets = [each for each in SECRETS if not path.startswith("/media") or each != ANN]
            assert [each for each in secrets if each in response.text] == [], where
        named = await program.call(method, path, params={"list": LIST})
        assert named.status_code == 404, (where, named.text)
        if route.body_field is not None:
            response = await program.call(method, path, {"list": LIST})
            assert response.status_code == 404, (where, response.text)
    assert walked > 30


async def test_every_field_of_a_body_that_names_a_list_is_checked(site: Site) -> None:
    for name in (LIST, OTHER):
        await site.services.lists.create(name, name, "news@example.com")
    program = await caller(site, OTHER, ALL_RIGHTS)
    for field in LIST_FIELDS:
        for value in (LIST, [OTHER, LIST]):
            body = {"list": OTHER, "subject": "x", "text": "x", field: value}
            response = await program.call("POST", "/messages", body)
            assert response.status_code == 404, (field, response.text)
    # FastAPI reads other encodings, too.
    hidden = json.dumps({"list": LIST, "subject": "x", "text": "x"}).encode("utf-16")
    kind = {"Content-Type": "application/json"}
    response = await program.call("POST", "/messages", content=hidden, headers=kind)
    assert response.status_code == 404
    assert await site.services.times.drafts(limit=10) == []


async def test_every_call_needs_its_own_right(site: Site) -> None:
    world = await furnished(site)
    for right in ListRight:
        program = await caller(site, LIST, frozenset({ListRight.VIEW, right}))
        for route in ROUTES:
            [method] = route.methods
            needed = route.openapi_extra.get(RIGHT)
            is_about_a_list = route.path.startswith("/lists/{name}") or "{ref}" in route.path
            path = filled(route.path, world)
            if needed is None or not is_about_a_list:
                continue
            if needed not in (ListRight.VIEW, right):
                response = await program.call(method, path)
                assert response.status_code == 403, (method, route.path, response.text)
            elif method == "GET" and "/emails" not in route.path:
                response = await program.call(method, path, params={"email": ANN})
                assert response.status_code == 200, (method, route.path, response.text)


async def test_what_a_key_may_send_and_change(site: Site) -> None:
    await site.services.lists.create(LIST, "Garden", "news@example.com")
    await site.services.lists.create(OTHER, "Other", "news@example.com")
    message = {"list": LIST, "subject": "Spring", "text": "Hello"}
    later = {**message, "scheduled_at": "2099-01-01T09:00:00Z"}
    writer = await caller(site, LIST, frozenset({ListRight.VIEW, ListRight.EDIT}))
    assert (await writer.call("POST", "/messages", later)).status_code == 403
    draft = await writer.call("POST", "/messages", {**message, "draft": True})
    assert draft.status_code == 201, draft.text
    ref = draft.json()["ref"]
    assert (await writer.call("POST", "/messages", {"draft": True})).status_code == 403
    assert (await writer.call("PATCH", f"/messages/{ref}", {"subject": "May"})).status_code == 200
    assert (await writer.call("PATCH", f"/messages/{ref}", {"list": None})).status_code in (
        403,
        422,
    )
    assert (await writer.call("POST", f"/messages/{ref}/schedule", {})).status_code == 403
    sender = await caller(site, LIST, ALL_RIGHTS)
    scheduled = await sender.call(
        "POST", f"/messages/{ref}/schedule", {"scheduled_at": "2099-01-01T09:00:00Z"}
    )
    assert scheduled.status_code == 200, scheduled.text
    assert (await writer.call("PATCH", f"/messages/{ref}", {"subject": "No"})).status_code == 403
    assert (await writer.call("DELETE", f"/messages/{ref}")).status_code == 403
    lists = await writer.call("GET", "/lists")
    assert [each["name"] for each in lists.json()["items"]] == [LIST]
    signup = {"email_address": "eve@example.com", "list_name": LIST}
    assert (await writer.call("POST", "/subscribe", signup)).status_code == 403
    assert (await sender.call("POST", "/subscribe", signup)).status_code == 202


async def test_a_scheduled_message_moves_only_to_lists_that_the_key_may_send_to(
    site: Site,
) -> None:
    for name in (LIST, OTHER):
        await site.services.lists.create(name, name, "news@example.com")
    created = await site.services.keys.create("both", only_lists=True)
    edits = frozenset({ListRight.VIEW, ListRight.EDIT})
    for name, rights in ((LIST, ALL_RIGHTS), (OTHER, edits)):
        await site.services.list_grants.set(created.key.principal, ListName(name), rights)
    key = Caller(site, created.secret)
    message = {"list": LIST, "subject": "Spring", "text": "Hello"}
    later = {**message, "scheduled_at": "2099-01-01T09:00:00Z"}
    ref = (await key.call("POST", "/messages", later)).json()["ref"]
    for change in ({"list": OTHER}, {"more_lists": [OTHER]}):
        assert (await key.call("PATCH", f"/messages/{ref}", change)).status_code == 403, change
    assert (await key.call("PATCH", f"/messages/{ref}", {"subject": "May"})).status_code == 200


async def test_a_key_that_is_limited_later_loses_the_other_lists_at_once(site: Site) -> None:
    await site.services.lists.create(LIST, "Garden", "news@example.com")
    created = await site.services.keys.create("whole")
    program = Caller(site, created.secret)
    assert (await program.call("GET", f"/lists/{LIST}")).status_code == 200
    await site.services.keys.limit(created.key.id, True)
    assert (await program.call("GET", f"/lists/{LIST}")).status_code == 404
    async with httpx2.AsyncClient(base_url=site.url) as http:
        metrics = await http.get("/metrics", headers={"Authorization": f"Bearer {created.secret}"})
    assert metrics.status_code in (401, 403)
    await site.services.keys.revoke(created.key.id)
    assert (await program.call("GET", f"/lists/{LIST}")).status_code == 401


async def test_a_search_for_few_messages_among_many_reads_a_limited_number_of_rows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.services.messages.visible_messages._MOST_ROWS", 10)
    for name in (LIST, OTHER):
        await site.services.lists.create(name, name, "news@example.com")
    foreign = {"list": OTHER, "subject": "x", "text": "x", "draft": True}
    own = await caller(site, LIST, ALL_RIGHTS)
    others = await caller(site, OTHER, ALL_RIGHTS)
    for _ in range(25):
        assert (await others.call("POST", "/messages", foreign)).status_code == 201
    assert (await own.call("POST", "/messages", {**foreign, "list": LIST})).status_code == 201

    found: list[Any] = []
    responses, after = 0, None
    while responses == 0 or after is not None:
        query = {"limit": 5, "status": "Draft"} | ({"after": after} if after else {})
        answer = (await own.call("GET", "/messages", params=query)).json()
        found, after, responses = found + answer["items"], answer["next"], responses + 1
        assert responses <= 10
    assert [each["list"] for each in found] == [LIST]
    assert responses >= 3, "no response reads more than some rows"


async def test_an_import_with_a_limited_key_suppresses_on_its_list_only(site: Site) -> None:
    await furnished(site)
    program = await caller(site, OTHER, ALL_RIGHTS)
    body = b"email,status\ngone@example.com,bounced\n"
    response = await program.call(
        "POST", f"/lists/{OTHER}/import", content=body, headers={"Content-Type": "text/csv"}
    )
    assert (response.status_code, response.json()["suppressed"]) == (200, 1), response.text
    [found] = await site.services.suppressions.of_address(Address("gone@example.com"))
    assert (found.list_name, found.source) == (OTHER, "import")
