"""Requirements of OWASP ASVS level 1 that hold for the whole site, tried against a running server.

`docs/security.md` names these tests as evidence, next to those of single features.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import quote

import httpx2

from postroom.services.accounts.api_keys import Scope
from postroom.services.accounts.users import Role
from postroom.web.api.app import document
from postroom.web.rendering.templating import STATIC
from tests.web.site import Site
from tests.web.world import ANN, LIST, NOT_PAGES, QUEUE, World, furnished

EVIL = "https://evil.example"
SINKS = re.compile(r"\beval\(|new Function|document\.write|outerHTML|insertAdjacentHTML|innerHTML")


class _Tags(HTMLParser):
    """All start tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def links_of_subscribers(address: str) -> bool:
    """Whether an address of the site carries a GUID itself."""
    return address.startswith(("/confirm", "/preferences", "/unsubscribe"))


async def test_no_page_has_script_of_its_own_or_links_that_run_any(site: Site) -> None:
    """1.2.2, 1.2.3, 3.2.2: what was stored reaches a page as text, never as script."""
    world = await furnished(site)
    for address in world.all_addresses():
        page = await world.admin.get(address)
        for tag, attributes in _Tags(page.text).found:
            where = (address, tag, attributes)
            assert tag != "script" or attributes.get("src", "").startswith("/static/"), where
            assert not any(name.startswith("on") for name in attributes), where
            for name in ("href", "src", "action", "formaction"):
                scheme = re.match(r"\s*([a-z]+):", attributes.get(name, ""), re.IGNORECASE)
                assert scheme is None or scheme[1] in ("http", "https", "mailto"), where


def test_scripts_write_html_only_where_the_server_rendered_it() -> None:
    """1.3.2, 3.2.2: our scripts run no text, and insert only parts of pages of ours."""
    found = [
        f"{script.name}: {line.strip()}"
        for script in STATIC.glob("*.js")
        for line in script.read_text().splitlines()
        if SINKS.search(line)
    ]
    assert len(found) == 6, found
    assert all("await answer.text()" in each for each in found)


async def test_no_response_lets_another_origin_read_it(site: Site) -> None:
    """3.4.2: there is no CORS."""
    admin = await site.user()
    key = (await site.services.keys.create()).secret
    preflight = {"Access-Control-Request-Method": "POST", "Origin": EVIL}
    for path in ("/", "/login", "/subscribe", "/api/v1/lists", "/api/v1/openapi.json", "/healthz"):
        for method, extra in (("GET", {"Origin": EVIL}), ("OPTIONS", preflight)):
            headers = {"Authorization": f"Bearer {key}", **extra}
            answer = await admin.http.request(method, path, headers=headers)
            allowed = [name for name in answer.headers if name.startswith("access-control-")]
            assert allowed == [], (method, path)


async def test_no_path_leads_to_files_other_than_ours(site: Site) -> None:
    """5.3.1, 5.3.2, 13.4.1: neither source control, settings and data, nor what was uploaded."""
    admin = await site.user()
    await site.services.store.container("mailbodies").put("page.html", b"<script>1</script>")
    for path in (".git/HEAD", ".git/config", ".env", "pyproject.toml", "secret.key", "postroom.db"):
        up = "../" * 6
        for address in (
            f"/{path}",
            f"/static/{path}",
            f"/static/{quote(up, safe='')}{path}",
            f"/static/{up}{path}",
            f"/outbox/{quote(up + path, safe='')}/download",
        ):
            url = httpx2.URL(site.url).copy_with(raw_path=address.encode())
            answer = await admin.http.get(url)
            assert answer.status_code in (307, 404), address
    upload = await admin.get("/explorer/containers/mailbodies/download?name=page.html")
    assert upload.headers["content-disposition"].startswith("attachment")
    assert "text/html" not in upload.headers["content-type"]


async def test_password_fields_are_masked_and_work_with_password_managers(site: Site) -> None:
    """6.2.6, 6.2.7, 6.4.2: standard fields, and no secret questions or hints."""
    admin, stranger = await site.user(), site.visitor()
    token = await site.services.access_links.invite("bob@example.org", Role.VIEWER, "ann")
    await site.outlast_confirmation(admin)
    question = await admin.post("/keys/create")
    pages = [
        (await stranger.get("/login")).text,
        (await stranger.get("/join", params={"token": token})).text,
        (await admin.get("/account")).text,
        question.text,
    ]
    for page in pages:
        fields = [each for tag, each in _Tags(page).found if tag == "input"]
        secret = [each for each in fields if "password" in each.get("name", "")]
        secret += [each for each in fields if each.get("name") == "again"]
        assert secret, page
        for each in secret:
            assert each["type"] == "password"
            assert each["autocomplete"] in ("current-password", "new-password")
            assert int(each.get("maxlength") or 1000) >= 64
            assert "readonly" not in each
        assert not re.search(r"hint|question", " ".join(each.get("name", "") for each in fields))


async def test_sessions_are_random_and_known_to_the_server(site: Site) -> None:
    """7.2.1, 7.2.2, 7.2.3: 256 random bits for each login, looked up for every request."""
    first = await site.user()
    assert first.user is not None
    others = [await site.log_in(first.user) for _ in range(3)]
    tokens = [each.session for each in (first, *others)]
    secrets = {each.partition(".")[2] for each in tokens}
    assert len(secrets) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", each) for each in secrets)
    stored = str([each async for each in site.services.store.table("sessions").scan()])
    assert not any(each in stored for each in secrets)
    who = tokens[0].partition(".")[0]
    for forged in (f"{who}.{'A' * 43}", tokens[0][:-1], f"{tokens[0]}x", "a-cookie-of-my-own"):
        first.use(forged)
        assert (await first.get("/account")).headers["location"].startswith("/login")


async def test_nobody_but_administrators_sees_a_guid_on_any_page(site: Site) -> None:
    """8.2.2, 15.3.1: with a GUID anybody can confirm or unsubscribe its owner."""
    world = await furnished(site)
    guids = await _guids(world)
    files = (
        each.format(**world.names, name=LIST, ref=world.names["running"])
        for each in NOT_PAGES
        if set(re.findall(r"{(\w+)}", each)) <= {"name", "ref"} and "events" not in each
    )
    others = ("/queues/mail/confirm", "/queues/mail/send", f"/outbox/{world.names['mail']}/html")
    addresses = [*world.all_addresses(), *files, *others]
    assert guids & _guids_in(await world.admin.get("/queues/mail/confirm"))
    for role in (Role.VIEWER, Role.EDITOR):
        user = await site.user(role, f"another-{role}@example.org")
        for address in addresses:
            if not links_of_subscribers(address):
                page = await user.get(address)
                assert guids.isdisjoint(_guids_in(page)), (role, address)


async def test_no_call_shows_a_guid_without_the_scope_subscribers(site: Site) -> None:
    """8.2.2, 15.3.1: as above, for every call that reads."""
    world = await furnished(site)
    guids = await _guids(world)
    await site.services.segments.create(LIST, "everybody", 'email contains "@"')
    scopes = tuple(each for each in Scope if each is not Scope.SUBSCRIBERS)
    key = (await site.services.keys.create("all but one", scopes)).secret
    answered = 0
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as api:
        for path in (path for path, methods in document()["paths"].items() if "get" in methods):
            for name in (LIST, "mail/confirm", QUEUE):
                values = {"name": name, "path": QUEUE, "email": ANN, "ref": world.names["running"]}
                values |= {"hash": world.names["picture"], "segment": "everybody"}
                values |= {"provider": "gmail.com", "domain": "all"}
                values = {key: quote(value, safe="") for key, value in values.items()}
                filled = path.format(**values, id=world.names["poison"])
                answer = await api.get(f"{site.url}/api/v1{filled}")
                assert answer.status_code < 500, filled
                assert guids.isdisjoint(_guids_in(answer)), filled
                answered += answer.is_success
    assert answered > 15


async def _guids(world: World) -> set[str]:
    """All GUIDs of a furnished site, with some that wait for their confirmation emails."""
    services = world.site.services
    for number in range(2):
        await services.subscriptions.subscribe(LIST, f"waits-{number}@example.com")
    found = await services.subscriptions.slice(LIST, limit=100)
    return {each.guid for each in found.subscribers}


def _guids_in(answer: httpx2.Response) -> set[str]:
    shape = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    return set(re.findall(shape, answer.text.lower() + str(answer.headers).lower()))
