"""Every answer says what it is, and text says in which encoding (ASVS 4.1.1)."""

from __future__ import annotations

import re

import httpx2

from postroom.web.rendering.templating import STATIC
from tests.web.site import Site
from tests.web.world import NOT_PAGES, furnished

WITH_ENCODING = re.compile(r"text/|[a-z/]+\+xml\b|application/(xml|javascript)\b")
ENDLESS = {"/messages/{ref}/events"}


def check(answer: httpx2.Response) -> None:
    if not answer.content:
        return
    kind = answer.headers.get("content-type", "")
    assert kind, answer.url
    if WITH_ENCODING.match(kind):
        assert "charset=utf-8" in kind.lower(), (answer.url, kind)
        answer.content.decode()
    assert answer.headers["x-content-type-options"] == "nosniff", answer.url


async def test_every_response_names_its_type_and_its_encoding(site: Site) -> None:
    world = await furnished(site)
    key = (await site.services.keys.create()).secret
    paths = [
        *world.all_addresses(),
        *(f"/static/{each.relative_to(STATIC)}" for each in STATIC.rglob("*.*")),
        *(
            path.format(**world.names, name=world.names["list"])
            for path in NOT_PAGES - ENDLESS
            if set(re.findall(r"{(\w+)}", path)) <= {*world.names, "name"}
        ),
        *("/healthz", "/readyz", "/metrics", "/nowhere", "/static/nothing"),
        *("/api/docs", "/api/v1/openapi.json", "/api/v1/nothing"),
        *(f"/api/v1/lists{each}" for each in ("", "/no", "/garden-club/export")),
        "/lists/garden-club/export",
        f"/logo/garden-club?v={(await site.services.lists.get('garden-club')).logo}",
        "/subscribe/style.css?colour=123456",
    ]
    assert len(paths) > 80
    for path in paths:
        for headers in ({}, {"Authorization": f"Bearer {key}"}):
            check(await world.admin.get(path, headers=headers))
    check(await world.admin.http.post("/lists/new", data={}))
    check(await world.admin.http.request("BREW", "/lists"))
