"""Rights on lists: what lies outside them does not exist, on any page and in any form.

The walks take every view from the list of views, its addresses and forms from the furnished site. A
new view is walked without being named here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, ListRight, Rights
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import NoSuch
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from postroom.web.app import VIEWS
from postroom.web.requests.list_checks import LIST_FIELDS, MESSAGE_FIELDS
from postroom.web.requests.views import View
from tests.web.forms import forms_in
from tests.web.site import Site, Visitor, problem_in
from tests.web.world import ANN, BLOCKED, EXAMPLES, FILES, LIST, NOT_YET, OTHER, World, furnished

SECRETS = (
    LIST, ANN, NOT_YET, BLOCKED, "user000@", "What was", "Under way", "For later", "Not so fast",
    "Winter", "new-in-bern", "Your &lt;town&gt;",
)  # fmt: skip
"""What the site says about the list that the member of these tests has no right on."""

KNOWN_IN_PATHS = {"name", "ref", "email", "hash", "run"}
"""Parameters in the paths of views that are open to members. Those that are about a list stand
under `/lists/{name}` or name a message: `list_checks.py` finds the list by them."""

ENDLESS = {"/messages/{ref}/events"}


async def member(site: Site, name: str, rights: Rights, email: str = "") -> Visitor:
    found = await site.user(Role.MEMBER, email or f"member-{'-'.join(sorted(rights))}@example.org")
    assert found.user is not None
    await site.services.list_grants.set(found.user.principal, ListName(name), rights)
    return found


async def member_through_a_group(site: Site, name: str, rights: Rights, email: str = "") -> Visitor:
    """A member who has rights as one of a group only. Another group, whose members are others, has
    all rights on the other list."""
    label = "-".join(sorted(rights))
    found = await site.user(Role.MEMBER, email or f"grouped-{label}@example.org")
    assert found.user is not None
    services, foreign = site.services, OTHER if name == LIST else LIST
    own, others = f"in-{label}", f"out-{label}"
    for group, list_name, its_rights in ((own, name, rights), (others, foreign, ALL_RIGHTS)):
        await services.groups.create(group)
        await services.list_grants.set(f"group:{group}", ListName(list_name), its_rights)
    await services.groups.add(own, found.user.email)
    return found


Join = Callable[[Site, str, Rights], Awaitable[Visitor]]
JOINS = pytest.mark.parametrize("join", [member, member_through_a_group])
"""How somebody gets rights on a list. `test_key_rights.py` walks with keys."""


def has_no_secrets(response: httpx2.Response, where: str, asked: str = "") -> None:
    """What the visitor asked for may be said again: it tells them nothing."""
    text = response.text + response.headers.get("location", "")
    told = [each for each in SECRETS if each in text and each not in asked]
    assert told == [], (where, response.status_code, told)


async def ask(visitor: Visitor, method: str, address: str, **options: object) -> httpx2.Response:
    if method == "GET":
        return await visitor.http.request(method, address)
    return await visitor.post(address, **options)  # type: ignore[arg-type]


def filled(view: View, world: World) -> str:
    """The address of a view for the list and the messages that the member has no right on."""
    values = {"ref": world.names["draft"], "email": ANN, "run": world.names["run"]}
    values |= {"name": LIST if view.path.startswith("/lists/") else "own"}
    values |= {"hash": world.names["picture"]}
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: values[found[1]], view.path)


def is_about_a_list(view: View) -> bool:
    return view.path.startswith("/lists/{name}") or "{ref}" in view.path


@JOINS
async def test_no_view_shows_or_changes_anything_of_a_foreign_list(site: Site, join: Join) -> None:
    world = await furnished(site)
    services = site.services
    visitor = await join(site, OTHER, ALL_RIGHTS)
    walked = 0
    for view in VIEWS:
        for method in view.methods if view.role is not None else ():
            where, address = f"{method} {view.path}", filled_or_path(view, world)
            if view.right is None:
                if view.role is not Role.MEMBER:
                    assert (await ask(visitor, method, address)).status_code == 403, where
                continue
            if is_about_a_list(view):
                response = await ask(visitor, method, address)
                assert response.status_code == 404, (where, problem_in(response))
                has_no_secrets(response, where, address)
                walked += 1
            for part in ("params", "data") if method != "GET" else ("params",):
                data = {"csrf": await visitor.csrf(), **({"list": LIST} if part == "data" else {})}
                query = {"list": LIST} if part == "params" else {}
                response = await visitor.http.request(
                    method, address, params=query, data=None if method == "GET" else data
                )
                assert response.status_code == 404, (where, part, problem_in(response))
                walked += 1
    assert walked > 150
    assert len(await services.lists.names()) == 3
    assert (await services.messages.get(world.names["draft"])).subject == "Winter sale"


async def test_every_field_that_names_a_list_or_a_message_is_checked(site: Site) -> None:
    world = await furnished(site)
    visitor = await member(site, OTHER, ALL_RIGHTS)
    for field in (*LIST_FIELDS, *MESSAGE_FIELDS):
        name = LIST if field in LIST_FIELDS else world.names["draft"]
        assert (await visitor.get("/messages", params={field: name})).status_code == 404, field
        values = [OTHER, name] if field in LIST_FIELDS else [name]
        saved = await visitor.post("/messages/save", {"list": OTHER, field: values})
        assert saved.status_code == 404, field


def filled_or_path(view: View, world: World) -> str:
    if view.right is not None:
        names = {each.partition(":")[0] for each in re.findall(r"\{([^}]*)\}", view.path)}
        assert names <= KNOWN_IN_PATHS, f"{view.path}: say in list_checks.py what it names"
        return filled(view, world)
    return re.sub(r"\{[^}]*\}", "1", view.path)


@JOINS
async def test_no_page_and_no_form_tells_about_a_foreign_list(site: Site, join: Join) -> None:
    """Indexes, search, trace, counts and choices leave it out; its forms, as somebody who sees them
    would send them, do not work."""
    world = await furnished(site)
    visitor = await join(site, OTHER, ALL_RIGHTS)
    before = await _state(world)
    sent = set[str]()
    for view in VIEWS:
        if view.right is None or "GET" not in view.methods or view.path in ENDLESS:
            continue
        if view.path not in EXAMPLES and view.path not in FILES:
            continue
        for address in world.addresses(view.path):
            response = await visitor.get(address)
            assert response.status_code < 500, address
            has_no_secrets(response, address, address)
            for form in forms_in((await world.admin.get(address)).text, address):
                if form.method != "post" or form.kind in sent:
                    continue
                sent.add(form.kind)
                data: dict[str, object] = {}
                for name, text in form.fields:
                    if name != "csrf":
                        data.setdefault(name, text)
                answer = await visitor.post(form.action, data)
                assert answer.status_code < 500, form.kind
                has_no_secrets(answer, f"{form.kind} on {address}", f"{form.action} {data}")
    assert len(sent) > 40
    assert await _state(world) == before


async def _state(world: World) -> list[object]:
    services = world.site.services
    refs = ("done", "running", "pending", "paused", "cancelled", "draft", "empty", "markdown")
    messages = [await services.messages.get(world.names[each]) for each in refs]
    found = await services.subscriptions.slice(LIST, limit=1000)
    return [
        [(each.ref, each.status, each.subject, each.list_name) for each in messages],
        found.subscribers,
        await services.lists.get(LIST),
        (await services.segments.slice(LIST)).segments,
        (await services.fields.get(LIST)).fields.declared,
    ]


@JOINS
async def test_every_view_needs_its_own_right(site: Site, join: Join) -> None:
    world = await furnished(site)
    for right in ListRight:
        visitor = await join(site, LIST, frozenset({ListRight.VIEW, right}))
        refused = 0
        for view in VIEWS:
            if view.right is None or not is_about_a_list(view) or view.path in ENDLESS:
                continue
            is_allowed = view.right in (ListRight.VIEW, right)
            for method in view.methods:
                if method == "GET" and is_allowed and view.path in EXAMPLES:
                    shown = world.addresses(view.path)[0].replace(
                        f"{world.names['pending']}/delete", f"{world.names['draft']}/delete"
                    )
                    response = await visitor.get(shown)
                    assert response.status_code in (200, 303), (shown, problem_in(response))
                elif not is_allowed:
                    response = await ask(visitor, method, filled(view, world))
                    assert response.status_code == 403, (method, view.path, problem_in(response))
                    refused += 1
        assert refused > 10
        assert (await visitor.get(f"/lists/{OTHER}")).status_code == 404


async def test_only_those_who_may_send_change_a_scheduled_message(site: Site) -> None:
    world = await furnished(site)
    writer = await member(site, LIST, frozenset({ListRight.VIEW, ListRight.EDIT}))
    pending = world.names["pending"]
    for path in ("edit", "delete"):
        assert (await writer.get(f"/messages/{pending}/{path}")).status_code == 403


async def test_a_list_without_rights_looks_like_a_missing_one(site: Site) -> None:
    world = await furnished(site)
    visitor = await member(site, OTHER, ALL_RIGHTS)
    for foreign, missing in (
        (f"/lists/{LIST}", "/lists/nowhere"),
        (f"/lists/{LIST}/subscribers/{ANN}", f"/lists/nowhere/subscribers/{ANN}"),
        (f"/messages/{world.names['draft']}", "/messages/639304537556653580"),
        (f"/messages/new?list={LIST}", "/messages/new?list=nowhere"),
    ):
        first, second = await visitor.get(foreign), await visitor.get(missing)
        assert first.status_code == second.status_code, (foreign, missing)


async def test_groups_share_rights_and_lose_them_with_the_list(site: Site) -> None:
    services = site.services
    await services.lists.create(OTHER, "Other", "other@example.com")
    visitor = await site.user(Role.MEMBER)
    await services.groups.create("press")
    await services.groups.add("press", "member@example.org")
    assert (await visitor.get(f"/lists/{OTHER}")).status_code == 404
    await services.list_grants.set("group:press", ListName(OTHER), frozenset({ListRight.VIEW}))
    assert (await visitor.get(f"/lists/{OTHER}")).status_code == 200
    assert (await visitor.get(f"/lists/{OTHER}/edit")).status_code == 403
    await services.lists.delete(OTHER)
    assert await services.list_grants.all() == []
    await services.lists.create(OTHER, "Another one", "other@example.com")
    assert (await visitor.get(f"/lists/{OTHER}")).status_code == 404
    await services.groups.remove("press")
    with pytest.raises(NoSuch):
        await services.groups.get("press")
    assert await services.groups.of("member@example.org") == []


async def test_a_message_needs_the_right_on_each_of_its_lists(site: Site) -> None:
    services = site.services
    for name in ("one", "two"):
        await services.lists.create(name, name, f"{name}@example.com")
    visitor = await member(site, "one", ALL_RIGHTS)
    assert visitor.user is not None
    change = ContentChange(list_name="one", subject="Both", exclude_lists=(ListName("two"),))
    both = await services.composing.create(change, "ann@example.com")
    assert (await visitor.get(f"/messages/{both.ref}/edit")).status_code == 404
    assert "Both" not in (await visitor.get("/messages/drafts")).text
    principal = visitor.user.principal
    await services.list_grants.set(principal, ListName("two"), frozenset({ListRight.VIEW}))
    assert "Both" in (await visitor.get("/messages/drafts")).text
    assert (await visitor.get(f"/messages/{both.ref}/edit")).status_code == 403
    await services.list_grants.set(principal, ListName("two"), ALL_RIGHTS)
    assert (await visitor.get(f"/messages/{both.ref}/edit")).status_code == 200


async def test_a_member_works_with_their_list(site: Site) -> None:
    services = site.services
    for name in ("one", "two"):
        await services.lists.create(name, name.title(), f"{name}@example.com")
    visitor = await member(site, "one", ALL_RIGHTS)
    home = await visitor.get("/")
    assert "/lists/new" not in home.text
    for gone in ("/queues", "/events", "/outbox", "/settings"):
        assert f'href="{gone}"' not in home.text
    assert 'href="/fields"' not in (await visitor.get("/lists")).text  # it needs the role viewer
    editor = await visitor.get("/messages/new")
    assert "<option selected>one</option>" in editor.text
    assert "two" not in editor.text
    saved = await visitor.post("/messages/save", {"list": "one", "subject": "Mine", "body": "x"})
    ref = saved.json()["ref"]
    assert (await visitor.get(f"/messages/{ref}")).status_code in (200, 303)
    refused = await visitor.post("/messages/save", {"list": "", "subject": "No list", "body": "x"})
    assert refused.status_code == 422
    moved = await visitor.post("/messages/save", {"ref": ref, "list": "two", "subject": "Mine"})
    assert moved.status_code == 404
    assert (await services.messages.get(ref)).list_name == "one"
    added = await visitor.post("/lists/one/subscribers/add", {"email": "eve@example.com"})
    assert added.status_code == 303
    for action in ("move", "lists"):
        over = await visitor.post(
            f"/lists/one/subscribers/eve@example.com/{action}", {"to_list": "two"}
        )
        assert over.status_code == 404
    page = (await visitor.get("/lists/one/subscribers/eve@example.com")).text
    assert "<option>two</option>" not in page


async def test_a_version_for_a_foreign_list_is_neither_shown_nor_restored(site: Site) -> None:
    services = site.services
    for name in ("one", "two"):
        await services.lists.create(name, name, f"{name}@example.com")
    visitor = await member(site, "one", ALL_RIGHTS)
    first = ContentChange(list_name="two", subject="Secret plan", body="<p>x</p>")
    draft = await services.composing.create(first, "ann@example.com")
    change = ContentChange(list_name="one", subject="Public")
    await services.composing.save(draft.ref, change, "bob@example.com")
    [version] = await services.composing.versions.all(draft.ref)
    page = await visitor.get(f"/messages/{draft.ref}/versions")
    assert page.status_code == 200
    assert "Secret plan" not in page.text
    name = (await (await site.user()).get(f"/messages/{draft.ref}/versions")).text
    shown = re.search(r'name="version" value="([^"]+)"', name)
    assert shown is not None
    response = await visitor.post(f"/messages/{draft.ref}/restore", {"version": shown[1]})
    assert response.status_code == 404
    assert (await services.messages.get(draft.ref)).list_name == "one"
    assert version.list_name == "two"


async def test_a_viewer_can_have_more_rights_on_one_list(site: Site) -> None:
    services = site.services
    for name in ("one", "two"):
        await services.lists.create(name, name, f"{name}@example.com")
    visitor = await site.user(Role.VIEWER)
    assert visitor.user is not None
    await services.list_grants.set(visitor.user.principal, ListName("one"), ALL_RIGHTS)
    assert (await visitor.get("/lists/one/edit")).status_code == 200
    assert (await visitor.get("/lists/two/edit")).status_code == 403
    assert "/lists/one/edit" in (await visitor.get("/lists/one")).text
    assert "/lists/two/edit" not in (await visitor.get("/lists/two")).text
    empty = await services.composing.create(ContentChange(), "ann@example.com")
    assert (await visitor.get(f"/messages/{empty.ref}/edit")).status_code == 403


async def test_nobody_inherits_the_rights_of_a_removed_user(site: Site) -> None:
    services = site.services
    await services.lists.create(OTHER, "Other", "other@example.com")
    visitor = await member(site, OTHER, ALL_RIGHTS, "eve@example.org")
    await services.groups.create("press")
    await services.groups.add("press", "eve@example.org")
    await services.user_removal.remove("eve@example.org")
    assert (await visitor.get("/")).status_code == 303
    again = await site.user(Role.MEMBER, "eve@example.org")
    assert (await again.get(f"/lists/{OTHER}")).status_code == 404
    assert await services.groups.of("eve@example.org") == []


async def test_a_rule_cannot_ask_who_received_a_message_of_a_foreign_list(site: Site) -> None:
    world = await furnished(site)
    visitor = await member(site, OTHER, ALL_RIGHTS)
    for ref in (world.names["done"], "639304537556653580"):
        for path in ("segment", "segment/count", "segment/explain"):
            form = {"name": "spy", "rule": f"received {ref}", "email": ANN}
            response = await visitor.post(f"/lists/{OTHER}/{path}", form)
            assert f"here is no message {ref}" in response.text, (path, response.status_code)
    assert (await site.services.segments.slice(OTHER)).segments == []


async def test_a_stored_segment_that_asks_about_a_foreign_message_needs_the_right(
    site: Site,
) -> None:
    """Somebody with more rights has written it."""
    world = await furnished(site)
    ref = world.names["done"]
    visitor = await member(site, OTHER, ALL_RIGHTS)
    await site.services.segments.create(OTHER, "spy", f"received {ref}")
    for path in ("subscribers?segment=spy", "export?segment=spy"):
        response = await visitor.get(f"/lists/{OTHER}/{path}")
        assert response.status_code == 422, (path, problem_in(response))
    draft = await site.services.composing.create(
        ContentChange(list_name=OTHER, segment="spy"), "ann@example.com"
    )
    for path in ("schedule", "preflight"):
        assert (await visitor.get(f"/messages/{draft.ref}/{path}")).status_code == 422
    for path in (f"/lists/{OTHER}/export?segment=spy", f"/messages/{draft.ref}/edit"):
        assert (await world.admin.get(path)).status_code == 200


async def test_a_segment_that_asks_about_a_foreign_message_can_be_viewed_changed_and_deleted(
    site: Site,
) -> None:
    world = await furnished(site)
    rule = f"received {world.names['done']}"
    visitor = await member(site, OTHER, ALL_RIGHTS)
    segments = site.services.segments
    await segments.create(OTHER, "spy", rule)
    place, partial = f"/lists/{OTHER}/segment", {"HX-Request": "true"}
    cell = await visitor.http.get(f"{place}s/size?segment=spy", headers=partial)
    assert cell.status_code == 200
    assert "Rule has errors" in cell.text
    assert "<html" not in cell.text
    assert (await visitor.get(f"{place}?segment=spy")).status_code == 200
    form = {"segment": "spy", "action": "remove", "confirmed": "yes"}
    assert (await visitor.post(f"{place}/bulk", form)).status_code == 422

    draft = await site.services.composing.create(
        ContentChange(list_name=OTHER, segment="spy"), "ann@example.com"
    )
    for path in ("edit", "preview", "delete"):
        assert (await visitor.get(f"/messages/{draft.ref}/{path}")).status_code == 200, path
    assert (await visitor.post(f"/messages/{draft.ref}/delete", {})).status_code == 303

    scheduled = await site.services.messages.create(
        OTHER, "Hi", NewBodies("<p>x</p>", "x"), datetime.now(UTC) + timedelta(days=1)
    )
    form = {"list": OTHER, "audience": "chosen", "segment": "spy", "subject": "Hi"}
    refused = await visitor.post(f"/messages/{scheduled.ref}/edit", form)
    assert (refused.status_code, "here is no message" in refused.text) == (422, True)

    unchanged = await visitor.post(f"{place}?segment=spy", {"rule": f"not ({rule})"})
    assert unchanged.status_code == 422
    changed = await visitor.post(f"{place}?segment=spy", {"rule": 'email contains "a"'})
    assert changed.status_code == 303, problem_in(changed)
    await segments.change(OTHER, "spy", rule)
    assert (await visitor.post(f"{place}/delete", {"segment": "spy"})).status_code == 303


def test_pages_read_indexes_only_through_what_exists_for_the_user() -> None:
    past = re.compile(r"services\.(times\b|messages\.slice|lists\.(names|slice))")
    folder = Path(str(files("postroom"))) / "web"
    found = {
        str(each.relative_to(folder))
        for part in ("admin", "api")
        for each in (folder / part).rglob("*.py")
        if past.search(each.read_text())
    }
    # The matrix of rights is for administrators; the first of them learns at set-up whether there
    # are lists; the last one makes the limited view.
    assert found == {
        "admin/accounts/list_matrix.py",
        "admin/accounts/login.py",
        "api/key_rights.py",
    }
