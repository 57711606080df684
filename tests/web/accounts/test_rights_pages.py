"""The pages on which administrators grant rights on lists."""

from __future__ import annotations

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.services.accounts.users import Role
from tests.web.site import Site, Visitor, problem_in

VIEW_AND_SEND = frozenset({ListRight.VIEW, ListRight.SEND})


async def lists(site: Site, *names: str) -> None:
    for name in names:
        await site.services.lists.create(name, name.title(), "news@example.com")


async def newest_audit(site: Site) -> tuple[str, str]:
    entry = (await site.services.audit.newest()).entries[0]
    return entry.what, entry.on


async def test_an_administrator_grants_rights_to_a_user(site: Site) -> None:
    await lists(site, "news", "shop")
    admin, member = await site.user(), await site.user(Role.MEMBER)
    page = await admin.get("/users/details", params={"email": "member@example.org"})
    assert page.status_code == 200
    assert page.text.count('type="checkbox" name="rights ') == 8
    form = {"email": "member@example.org", "shown": "news shop", "rights news": ["send"]}
    saved = await admin.post("/users/rights", form)
    assert "Rights on 1 list changed." in await admin.said(saved)
    assert await site.services.list_grants.of("user:member@example.org") == {"news": VIEW_AND_SEND}
    assert await newest_audit(site) == (
        "changed rights",
        "member@example.org on news: view, send",
    )
    assert (await member.get("/lists/news")).status_code == 200
    # Lists that the form did not show keep their rights.
    await admin.post("/users/rights", {"email": "member@example.org", "shown": "shop"})
    assert "news" in await site.services.list_grants.of("user:member@example.org")
    await admin.post("/users/rights", {"email": "member@example.org", "shown": "news"})
    assert await site.services.list_grants.of("user:member@example.org") == {}
    own = await admin.post("/users/rights", {"email": "administrator@example.org"})
    assert own.status_code == 409
    bad = {"email": "member@example.org", "shown": "nope", "rights nope": "view"}
    assert (await admin.post("/users/rights", bad)).status_code == 404
    assert await site.services.list_grants.all() == []


async def test_what_a_role_or_a_group_gives_is_ticked_and_cannot_be_changed(site: Site) -> None:
    await lists(site, "news")
    admin = await site.user()
    await site.user(Role.VIEWER)
    await site.services.groups.create("press")
    await site.services.groups.add("press", "viewer@example.org")
    await site.services.list_grants.set("group:press", ListName("news"), VIEW_AND_SEND)
    page = (await admin.get("/users/details", params={"email": "viewer@example.org"})).text
    assert page.count("checked disabled") == 2
    await site.user(Role.EDITOR)
    page = (await admin.get("/users/details", params={"email": "editor@example.org"})).text
    assert "all rights on every list" in page


async def test_a_group_gets_members_and_rights(site: Site) -> None:
    await lists(site, "news")
    admin, member = await site.user(), await site.user(Role.MEMBER)
    made = await admin.post("/groups/create", {"name": "press"})
    assert made.headers["location"] == "/groups/details?name=press"
    assert (await admin.post("/groups/create", {"name": "press"})).status_code == 409
    assert (await admin.post("/groups/create", {"name": "no/slash"})).status_code == 422
    wrong = await admin.post("/groups/add", {"name": "press", "email": "nobody@example.org"})
    assert wrong.status_code == 422
    for form, path in (
        ({"name": "press", "email": "member@example.org"}, "/groups/add"),
        ({"name": "press", "shown": "news", "rights news": "view"}, "/groups/rights"),
    ):
        response = await admin.post(path, form)
        assert response.status_code == 303, problem_in(response)
    assert (await member.get("/lists/news")).status_code == 200
    assert "member@example.org" in (await admin.get("/groups/details?name=press")).text
    await admin.post("/groups/drop", {"name": "press", "email": "member@example.org"})
    assert (await member.get("/lists/news")).status_code == 404
    assert (await admin.get("/groups/remove?name=press")).status_code == 200
    await admin.post("/groups/remove", {"name": "press"})
    assert await site.services.groups.all() == []
    assert await newest_audit(site) == ("removed group", "press")


async def test_a_key_is_limited_to_lists(site: Site) -> None:
    await lists(site, "news", "shop")
    admin = await site.user()
    form = {"name": "website", "scope": "subscribe", "only_lists": "yes"}
    assert "choose lists" in (await admin.post("/keys/create", form)).text
    [key] = await site.services.keys.all()
    assert key.only_lists
    rights = {"id": key.id, "reach": "lists", "shown": "news shop", "rights news": "manage"}
    assert (await admin.post("/keys/rights", rights)).status_code == 303
    assert set(await site.services.list_grants.of(key.principal)) == {"news"}
    assert "selected lists" in (await admin.get("/keys")).text
    await admin.post("/keys/rights", {"id": key.id, "reach": "all"})
    assert not (await site.services.keys.get(key.id)).only_lists
    assert (await admin.get("/keys/details", params={"id": "nope"})).status_code == 404


async def test_a_search_finds_lists_among_many(site: Site) -> None:
    await lists(site, *(f"branch-{number:03}" for number in range(60)))
    admin: Visitor = await site.user()
    await site.user(Role.MEMBER)
    await site.services.list_grants.set(
        "user:member@example.org", ListName("branch-050"), ALL_RIGHTS
    )
    member = {"email": "member@example.org"}
    page = (await admin.get("/users/details", params=member)).text
    assert ("branch-050" in page, "branch-010" in page) == (True, False)
    page = (await admin.get("/users/details", params={**member, "q": "01"})).text
    assert all(name in page for name in ("branch-050", "branch-010", "branch-001"))


async def test_a_list_shows_who_has_access_and_why(site: Site) -> None:
    await lists(site, "news", "shop")
    admin, member = await site.user(), await site.user(Role.MEMBER)
    await site.user(Role.MEMBER, "stranger@example.org")
    grants = site.services.list_grants
    await grants.set("user:member@example.org", ListName("news"), ALL_RIGHTS)
    key = (await site.services.keys.create("website", only_lists=True)).key
    await grants.set(key.principal, ListName("shop"), ALL_RIGHTS)
    page = (await admin.get("/lists/news/people")).text
    assert "member@example.org" in page
    assert "stranger@example.org" not in page
    assert "website" not in page
    assert "Administrator" in page
    assert "/users/details" in page
    assert "/users/details" not in (await member.get("/lists/news/people")).text
    assert "website" in (await admin.get("/lists/shop/people")).text
