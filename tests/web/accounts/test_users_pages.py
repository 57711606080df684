"""Users, keys, settings, audit log, events: the pages of an administrator."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import httpx2

from postroom.cli.operations.parts import up
from postroom.services.accounts.users import Role
from postroom.services.events import Severity
from postroom.settings import SETTINGS
from postroom.web.admin.operations.settings import OPTIONS
from tests.web.site import PASSWORD, Site, Visitor, problem_in, running_site


def link_in(response: httpx2.Response) -> str:
    """The link that a page shows to copy, without the part before the path."""
    assert response.status_code == 200, problem_in(response)
    found = re.search(r'id="address"[^>]* value="https?://[^/"]+(/[^"]+)"', response.text)
    assert found, problem_in(response)
    return unescape(found[1])


async def join(visitor: Visitor, link: str, password: str = PASSWORD) -> httpx2.Response:
    token = link.partition("token=")[2]
    return await visitor.post("/join", {"token": token, "password": password})


async def test_an_invited_user_chooses_a_password_and_is_logged_in(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    data = {"email": "bob@example.org", "role": "editor"}
    link = link_in(await admin.post("/users/invite", data))
    assert "bob@example.org" in (await admin.get("/users")).text
    assert link.partition("token=")[2] not in (await admin.get("/users")).text

    bob = site.visitor()
    page = await bob.get(link)
    assert "administrator@example.org invited you as an editor" in page.text
    refused = await join(bob, link, "short")
    assert refused.status_code == 422
    assert await bob.said(await join(bob, link)) == "Welcome to Postroom."
    assert (await bob.get("/account")).status_code == 200
    assert (await site.services.users.get("bob@example.org")).role is Role.EDITOR

    late = site.visitor()
    assert (await late.get(link)).status_code == 404
    assert (await join(late, link)).status_code == 404
    exists = await admin.post("/users/invite", data)
    assert exists.status_code == 422
    assert "belongs to an existing account" in exists.text


async def test_a_revoked_link_does_not_work(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    data = {"email": "bob@example.org", "role": "viewer"}
    link = link_in(await admin.post("/users/invite", data))
    [stored] = await site.services.access_links.all()
    await admin.post("/users/revoke", {"id": stored.id, "email": stored.email})
    assert (await site.visitor().get(link)).status_code == 404
    for nonsense in ("", "x", "\x00", "x" * 5000):
        assert (await site.visitor().get("/join", params={"token": nonsense})).status_code == 404
        assert (await admin.post("/users/revoke", {"id": nonsense})).status_code < 500


async def test_a_role_changes_at_once_and_there_is_always_an_administrator(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    bob = await site.user(Role.VIEWER, "bob@example.org")
    assert (await bob.get("/users")).status_code == 403
    data = {"email": "bob@example.org", "role": "administrator"}
    changed = await admin.post("/users/role", data)
    assert await admin.said(changed) == "bob@example.org is now an administrator."
    assert (await bob.get("/users")).status_code == 200

    own = await admin.post("/users/role", {"email": "administrator@example.org", "role": "viewer"})
    assert own.status_code == 409
    assert "another administrator" in own.text
    nonsense = await admin.post("/users/role", {"email": "bob@example.org", "role": "king"})
    assert nonsense.status_code == 422
    nobody = await admin.post("/users/role", {"email": "nobody@example.org", "role": "viewer"})
    assert nobody.status_code == 404
    what = [each.what for each in (await site.services.audit.newest()).entries]
    assert what == ["changed the role of user"]


async def test_a_removed_user_is_logged_out_immediately(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    bob = await site.user(Role.EDITOR, "bob@example.org")
    question = await admin.get("/users/remove", params={"email": "bob@example.org"})
    assert "Remove bob@example.org?" in question.text
    assert (await bob.get("/account")).status_code == 200
    removed = await admin.post("/users/remove", {"email": "bob@example.org"})
    assert await admin.said(removed) == "bob@example.org removed."
    assert (await bob.get("/account")).status_code == 303
    assert (await admin.post("/users/remove", {"email": "bob@example.org"})).status_code == 404
    own = await admin.post("/users/remove", {"email": "administrator@example.org"})
    assert own.status_code == 409
    assert len(await site.services.users.all()) == 1


async def test_an_administrator_restores_access_after_a_lost_password_or_phone(
    site: Site,
) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    bob = await site.user(Role.EDITOR, "bob@example.org")
    data = {"email": "bob@example.org"}
    assert "bob@example.org" in (await admin.get("/users/details", params=data)).text
    ended = await admin.post("/users/end-sessions", data)
    assert await admin.said(ended) == "1 session of bob@example.org ended."
    assert (await bob.get("/account")).status_code == 303
    link = link_in(await admin.post("/users/reset", data))
    again = site.visitor()
    changed = await join(again, link, "another good password")
    assert await again.said(changed) == "Password changed."
    assert (await site.visitor().get(link)).status_code == 404
    assert (await admin.post("/users/second-factor-off", data)).status_code == 303


async def test_a_key_is_shown_once_and_works_until_it_is_revoked(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    assert "No API keys yet" in (await admin.get("/keys")).text
    nothing = await admin.post("/keys/create", {"name": "site"})
    assert nothing.status_code == 422
    assert "Choose at least one" in nothing.text
    page = await admin.post("/keys/create", {"name": "site", "scope": ["lists", "read"]})
    found = re.search(r'value="(pr_[^"]+)"', page.text)
    assert found, problem_in(page)
    bearer = {"Authorization": f"Bearer {found[1]}"}
    assert (await admin.get("/api/v1/lists", headers=bearer)).status_code == 200
    assert found[1] not in (await admin.get("/keys")).text

    [key] = await site.services.keys.all()
    assert sorted(key.scopes) == ["lists", "read"]
    made = {"name": "news", "description": "News", "from_address": "a@example.org"}
    call = await admin.http.post("/api/v1/lists", json=made, headers=bearer)
    assert call.status_code == 201
    question = await admin.get("/keys/revoke", params={"id": key.id})
    assert "Revoke API key “site”?" in question.text
    assert await admin.said(await admin.post("/keys/revoke", {"id": key.id})) == (
        "API key site revoked."
    )
    assert (await admin.get("/api/v1/lists", headers=bearer)).status_code == 401
    assert (await admin.post("/keys/revoke", {"id": key.id})).status_code == 404
    actions = (await site.services.audit.newest()).entries
    assert [(each.who, each.what) for each in actions] == [
        ("administrator@example.org", "revoked API key"),
        (f"key:{key.id}", "POST /api/v1/lists"),
        ("administrator@example.org", "created API key"),
    ]


async def test_all_settings_are_shown_and_no_secret(tmp_path: Path, quick_passwords: None) -> None:
    secrets = {
        "sendgrid_api_key": "SG.very-secret",
        "secret_key": "very-secret-and-long-enough-to-be-a-key",
        "transport": "smtp://ann:very-s@cret@mail.example.org:25",
    }
    async with running_site(tmp_path, secrets) as site:
        admin = await site.user(Role.ADMINISTRATOR)
        page = (await admin.get("/settings")).text
    assert "very-s" not in page
    assert "cret@" not in page
    for setting in SETTINGS:
        assert f"<code>{setting.name}</code>" in page
        assert f"<code>{setting.variable}</code>" in page
    assert "--transport" in page
    assert "postroom.db" in page
    assert "SQLite" in page
    options = {name for each in up.params for name in each.opts}
    assert {f"--{name}" for name in OPTIONS} <= options | {"--port"}


async def test_the_audit_log_is_filtered_and_paged(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    for number in range(120):
        await site.services.audit.record("bob@example.org", f"did <b>{number}</b>", "it")
    await site.services.audit.record("cid@example.org", "did another thing")
    page = await admin.get("/audit")
    assert "did &lt;b&gt;119&lt;/b&gt;" in page.text
    assert "another thing" in page.text
    mine = await admin.get("/audit", params={"who": "bob@example.org"})
    assert "another thing" not in mine.text
    following = re.search(r'href="(/audit\?[^"]+)" rel="next"', mine.text)
    assert following
    rest = await admin.get(unescape(following[1]))
    assert "did &lt;b&gt;0&lt;/b&gt;" in rest.text
    assert "did &lt;b&gt;119&lt;/b&gt;" not in rest.text
    today = datetime.now(UTC).date().isoformat()
    for day, there in ((today, True), ("2020-02-29", False)):
        found = await admin.get("/audit", params={"day": day, "who": "cid@example.org"})
        assert ("another thing" in found.text) is there or today != str(datetime.now(UTC).date())
    assert "The day must look like" in (await admin.get("/audit?day=someday")).text


async def test_events_are_shown_with_a_way_to_what_they_are_about(site: Site) -> None:
    viewer = await site.user(Role.VIEWER)
    assert "No events" in (await viewer.get("/events")).text
    site.services.events.note(
        "host", "the queue <b>stopped</b>", severity=Severity.ERROR, subject="queue:a/b c"
    )
    site.services.events.note("host", "hello", subject="user:ann@example.org")
    await site.services.events.settle()
    page = await viewer.get("/events")
    assert "The queue &lt;b&gt;stopped&lt;/b&gt;" in page.text
    assert 'href="/queues/a%2Fb%20c"' in page.text
    assert "/users/details" not in page.text
    errors = await viewer.get("/events", params={"severity": "error"})
    assert "Hello" not in errors.text
    assert "The queue" in errors.text
    assert (await viewer.get("/events?severity=x&day=x&after=x")).status_code < 500


async def test_the_examples_have_the_real_addresses(tmp_path: Path, quick_passwords: None) -> None:
    async with running_site(tmp_path, {"base_url": "https://lists.example.org"}) as site:
        viewer = await site.user(Role.VIEWER)
        assert "There are no lists yet" in (await viewer.get("/embed")).text
        await site.services.lists.create("news", "News", "a@example.org")
        page = await viewer.get("/embed", params={"list": "news"})
        assert page.text.count("https://lists.example.org/api/v1/subscribe") == 4
        assert "https://lists.example.org/subscribe&#34;" in page.text
        assert page.text.count("news") > 4
