"""What holds for every page: who may see it, which forms are believed, which headers it has."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import Response

from postroom.services.accounts.users import Role
from postroom.web.app import VIEWS
from postroom.web.rendering.templating import template_environment
from postroom.web.requests.cookies import cookies_at
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from tests.web.site import PASSWORD, Site, Visitor, problem_in, running_site
from tests.web.world import EXAMPLES, LIST, OTHER, QUEUE, furnished

WRITES = {"POST", "PUT", "PATCH", "DELETE"}


CANVAS = "/messages/canvas"
"""The document of the editor's frame: emails have inline styles."""


def address_of(page: View) -> str:
    """An address that the page answers; what its parameters name need not be there."""
    return re.sub(r"\{[^}]*\}", "1", page.path)


def check_headers(headers: Mapping[str, str], where: str) -> None:
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy, where
    assert "frame-ancestors" in policy, where
    if "frame-ancestors 'none'" in policy:
        assert headers["x-frame-options"] == "DENY", where
    else:  # it would contradict a policy that names other sites
        assert headers.get("x-frame-options", "SAMEORIGIN") == "SAMEORIGIN", where
    assert headers["x-content-type-options"] == "nosniff", where
    assert headers["referrer-policy"] == "same-origin", where
    assert "server" not in headers, where


async def ask(visitor: Visitor, method: str, path: str) -> httpx2.Response:
    """Only the beginning of the answer: some pages go on for ever."""
    async with visitor.http.stream(method, path) as response:
        return response


def test_a_page_is_closed_unless_it_says_that_it_is_public() -> None:
    async def page(visit: Visit) -> Response:
        return Response()

    with pytest.raises(ValueError, match="/new must declare one of role, right and is_public"):
        View("/new", page)


async def test_every_page_with_a_role_redirects_to_the_login(site: Site) -> None:
    stranger = site.visitor()
    for page in VIEWS:
        for method in page.methods if page.role is not None else ():
            response = await ask(stranger, method, address_of(page))
            where = f"{method} {page.path}"
            assert response.status_code == 303, where
            assert response.headers["location"].startswith("/login"), where
            check_headers(response.headers, where)


async def test_every_page_refuses_a_role_that_is_too_low(site: Site) -> None:
    lower = {
        Role.EDITOR: await site.user(Role.VIEWER),
        Role.ADMINISTRATOR: await site.user(Role.EDITOR),
    }
    asked = 0
    for page in VIEWS:
        visitor = lower.get(page.role) if page.role is not None else None
        for method in page.methods if visitor is not None else ():
            assert visitor is not None
            response = await ask(visitor, method, address_of(page))
            assert response.status_code == 403, f"{method} {page.path}"
            check_headers(response.headers, page.path)
            asked += 1
    assert asked > 10


async def test_every_form_without_the_token_of_its_page_is_refused(site: Site) -> None:
    admin, stranger = await site.user(Role.ADMINISTRATOR), site.visitor()
    foreign = await stranger.csrf()
    for page in VIEWS:
        visitor = stranger if page.role is None else admin
        for method in set(page.methods) & WRITES if page.protected else ():
            wrong = "x" * 64 if visitor is stranger else foreign
            for data in ({}, {"csrf": wrong}):
                response = await visitor.http.request(method, address_of(page), data=data)
                assert response.status_code == 403, f"{method} {page.path} {data}"
    assert await site.services.users.is_first_start() is False
    found = (await site.services.audit.newest()).entries
    assert found == []  # nothing was done


async def test_pages_without_protection_are_only_for_everyone() -> None:
    assert [page.path for page in VIEWS if not page.protected and page.role is not None] == []


async def test_every_page_carries_the_headers_and_no_page_fails(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    for page in VIEWS:
        if "GET" in page.methods:
            response = await ask(admin, "GET", address_of(page))
            assert response.status_code < 500, f"{page.path}: {response.status_code}"
            if page.path == CANVAS:
                policy = response.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
                assert "script" not in policy
                continue
            check_headers(response.headers, page.path)
    for path in (
        "/healthz",
        "/static/css/base.css",
        "/nope",
        "/api/v1/lists",
        "/%00",
        "/a%2F..%2Fb",
    ):
        response = await ask(admin, "GET", path)
        assert response.status_code < 500, path
        check_headers(response.headers, path)


async def test_nobody_is_sent_to_another_site(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    for wanted in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "http://[",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/ok\r\nSet-Cookie: a=b",
        "",
    ):
        response = await admin.get("/login", params={"next": wanted})
        assert response.status_code == 303, wanted
        to = response.headers["location"]
        assert re.match(r"/(?![/\\])", to), to
        assert not re.search(r"[\t\r\n\\]", to)
        assert "a=b" not in response.headers.get("set-cookie", "")


async def test_cookies_are_for_the_server_only_and_behind_tls_for_tls_only(
    tmp_path: Path, quick_passwords: None
) -> None:
    for base_url, secure in (("http://lists.example", False), ("https://lists.example", True)):
        folder = tmp_path / str(secure)
        folder.mkdir()
        async with running_site(folder, {"base_url": base_url}) as site:
            await site.services.users.create("ann@example.org", PASSWORD, Role.VIEWER)
            visitor = site.visitor()
            data = {"email": "ann@example.org", "password": PASSWORD}
            response = await visitor.post("/login", data)
            assert response.status_code == 303, problem_in(response)
            [cookie] = [
                each
                for each in response.headers.get_list("set-cookie")
                if each.startswith(site.context.cookies.session)
            ]
            flags = {part.strip().lower() for part in cookie.split(";")[1:]}
            assert {"httponly", "samesite=lax", "path=/"} <= flags
            assert ("secure" in flags) is secure
            async with httpx2.AsyncClient(base_url=site.url) as http:
                fresh = await http.get("/login")
            assert all("httponly" in each.lower() for each in fresh.headers.get_list("set-cookie"))


@pytest.mark.parametrize("trusted", ["", "10.9.9.9"])
async def test_headers_of_an_untrusted_proxy_do_not_count(
    tmp_path: Path, trusted: str, quick_passwords: None
) -> None:
    async with running_site(tmp_path, {"trusted_proxies": trusted}) as site:
        admin = await site.user(Role.ADMINISTRATOR)
        token = await admin.csrf()
        headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
        await admin.http.post("/logout", data={"csrf": token}, headers=headers)
        [action] = (await site.services.audit.newest()).entries
        assert (action.what, action.place) == ("logged out", "127.0.0.1")


async def test_a_trusted_proxy_reports_the_address_of_visitors(
    tmp_path: Path, quick_passwords: None
) -> None:
    async with running_site(tmp_path, {"trusted_proxies": "127.0.0.1"}) as site:
        admin = await site.user(Role.ADMINISTRATOR)
        token = await admin.csrf()
        # The first entry is what the visitor said itself; the proxy appended the second.
        headers = {"X-Forwarded-For": "192.0.2.1, 203.0.113.9"}
        await admin.http.post("/logout", data={"csrf": token}, headers=headers)
        [action] = (await site.services.audit.newest()).entries
        assert action.place == "203.0.113.9"


async def test_a_form_that_is_too_large_is_refused(site: Site) -> None:
    admin = await site.user(Role.ADMINISTRATOR)
    large = (
        b'--mark\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        + b"x" * (13 * 1024 * 1024)
        + b"\r\n--mark--\r\n"
    )
    kind = {"Content-Type": "multipart/form-data; boundary=mark"}

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 1024 * 1024):
            yield large[start : start + 1024 * 1024]

    announced = await admin.http.post("/keys/create", content=large, headers=kind)
    assert announced.status_code == 413
    assert "larger than 12 MB" in announced.text
    unannounced = await admin.http.post("/keys/create", content=in_pieces(), headers=kind)
    assert unannounced.status_code == 413
    check_headers(unannounced.headers, "413")
    assert await site.services.keys.all() == []


async def test_every_successful_form_is_audited_once(site: Site) -> None:
    """Once for each form; with the names of its fields, and never what was in them."""
    admin = await site.user(Role.ADMINISTRATOR)
    await admin.post("/users/invite", {"email": "bob@example.org", "role": "viewer"})
    refused = await admin.post("/users/invite", {"email": "no address", "role": "viewer"})
    assert refused.status_code == 422
    [action] = (await site.services.audit.newest()).entries
    assert (action.who, action.what) == ("administrator@example.org", "invited user")
    assert action.on == "bob@example.org as viewer"
    assert action.place == "127.0.0.1"


async def test_a_page_that_says_nothing_is_recorded_by_its_address(site: Site) -> None:
    async def quiet(visit: Visit) -> Response:
        return visit.redirect("/")

    admin = await site.user(Role.ADMINISTRATOR)
    page = View("/quiet/{name}", quiet, role=Role.ADMINISTRATOR, methods=("POST",))
    unaudited = View("/look", quiet, role=Role.ADMINISTRATOR, methods=("POST",), audited=False)
    templates = template_environment()
    app = Starlette(routes=[each.route(site.context, templates) for each in (page, unaudited)])
    transport = httpx2.ASGITransport(app)
    cookies = {site.context.cookies.session: admin.session}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://test", cookies=cookies
    ) as http:
        data = {"csrf": await admin.csrf(), "password": "a secret", "name": "x"}
        assert (await http.post("/quiet/it", data=data)).status_code == 303
        assert (await http.post("/look", data=data)).status_code == 303
    [action] = (await site.services.audit.newest()).entries
    assert (action.what, action.on) == ("POST /quiet/it", "with name, password")


async def test_a_head_request_to_any_page_changes_nothing(site: Site) -> None:
    world = await furnished(site)
    services = site.services
    acted = (await services.audit.newest()).entries
    running = await services.messages.get(world.names["running"])
    held = await services.store.queue(f"{QUEUE};poison").info()
    for visitor in (world.admin, site.visitor()):
        for page in VIEWS:
            for address in world.addresses(page.path) if page.path in EXAMPLES else ():
                response = await visitor.http.head(address)
                assert response.status_code < 500, address
                assert response.content == b""
                check_headers(response.headers, address)
    for path in ("/home/state", f"/lists/{LIST}/delete"):
        assert (await world.admin.http.head(path)).status_code == 200
    assert {LIST, OTHER} <= set(await services.lists.names())
    assert (await services.audit.newest()).entries == acted
    assert await services.store.queue(f"{QUEUE};poison").info() == held
    assert await services.messages.get(world.names["running"]) == running


async def test_every_method_that_can_write_needs_the_token(site: Site) -> None:
    async def done(visit: Visit) -> Response:
        return Response(visit.request.method)

    admin = await site.user(Role.ADMINISTRATOR)
    methods = ("GET", "POST", "PROPFIND")
    page = View("/it", done, role=Role.ADMINISTRATOR, methods=methods, audited=False)
    app = Starlette(routes=[page.route(site.context, template_environment())])
    cookies = {site.context.cookies.session: admin.session}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://test", cookies=cookies
    ) as http:
        found = {each: (await http.request(each, "/it")).status_code for each in methods}
    assert found == {"GET": 200, "POST": 403, "PROPFIND": 403}


async def test_every_response_has_an_id_that_is_in_the_log(site: Site) -> None:
    visitor = site.visitor()
    first, second = await visitor.get("/login"), await visitor.get("/nothing-here")
    ids = [each.headers["x-request-id"] for each in (first, second)]
    assert all(len(each) == 12 for each in ids)
    assert len(set(ids)) == 2


def test_cookies_of_two_installations_on_one_host_have_different_names() -> None:
    here, there = cookies_at("http://localhost:8420"), cookies_at("http://localhost:8421")
    assert {here.session, here.visitor, here.flash, here.device}.isdisjoint(
        {there.session, there.visitor, there.flash, there.device}
    )
    assert here.session == "postroom_session_8420"
    assert cookies_at("http://[::1]").session == "postroom_session"
    assert cookies_at("http://[::1]:80/lists").session == "postroom_session_80"
    for secure in ("https://lists.example.org", "https://lists.example.org/a:1"):
        assert cookies_at(secure).session == "__Host-postroom_session", secure
    assert cookies_at("https://a.example:8443").flash == "__Host-postroom_flash_8443"


async def test_behind_tls_browsers_keep_every_cookie_for_this_host_and_come_by_https_only(
    tmp_path: Path, quick_passwords: None
) -> None:
    async with running_site(tmp_path, {"base_url": "https://lists.example"}) as site:
        user = await site.services.users.create("ann@example.org", PASSWORD, Role.VIEWER)
        visitor, owner = site.visitor(), await site.log_in(user)
        login = await visitor.post("/login", {"email": "ann@example.org", "password": PASSWORD})
        out = await owner.post("/logout")
        fresh = await site.visitor().http.get("/login", headers={"Cookie": ""})
        given = [
            each for answer in (login, out, fresh) for each in answer.headers.get_list("set-cookie")
        ]
        assert len(given) >= 4  # logged in, logged out (which is also said), and a visitor's own
        for cookie in given:
            flags = {part.strip().lower() for part in cookie.split(";")[1:]}
            assert cookie.startswith("__Host-"), cookie
            assert {"secure", "httponly", "path=/"} <= flags, cookie
            assert not any(flag.startswith("domain") for flag in flags), cookie
        for path in ("/login", "/healthz", "/nope", "/static/css/base.css", "/api/v1/lists"):
            answer = await visitor.get(path)
            assert answer.headers["strict-transport-security"] == "max-age=31536000", path


@pytest.mark.parametrize(
    ("base_url", "setting", "header"),
    [
        ("http://lists.example", "auto", None),
        ("https://lists.example", "no", None),
        ("https://lists.example", "yes", "max-age=31536000; includeSubDomains"),
    ],
)
async def test_hsts_can_be_configured(
    tmp_path: Path, base_url: str, setting: str, header: str | None
) -> None:
    async with running_site(tmp_path, {"base_url": base_url, "hsts": setting}) as site:
        answer = await site.visitor().get("/healthz")
        assert answer.headers.get("strict-transport-security") == header


async def test_a_slash_too_many_leads_to_the_page_whatever_the_client_calls_the_host(
    site: Site,
) -> None:
    evil = {"Host": "evil.example"}
    found = await site.visitor().get("/login/?next=/lists", headers=evil)
    assert (found.status_code, found.headers["location"]) == (307, "/login?next=/lists")
    for path in ("//evil.example/", "//evil.example/login/", "/\\evil.example/", "/nope/", "///"):
        answer = await site.visitor().http.get(f"{site.url}{path}", headers=evil)
        assert "evil" not in answer.headers.get("location", ""), path
        assert answer.status_code in (303, 307, 404), path


async def test_the_token_of_a_session_is_invalid_for_a_visitor(site: Site) -> None:
    """A visitor chooses their own cookie: one named like a session must not get its token."""
    admin, stranger = await site.user(), site.visitor()
    found = await site.services.sessions.find(admin.session)
    assert found is not None
    names = site.context.cookies
    page = await stranger.http.get("/login", headers={"Cookie": f"{names.visitor}={found[1].id}"})
    token = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert token is not None
    assert token[1] != await admin.csrf()
    forged = await admin.http.post("/lists/new", data={"csrf": token[1], "name": "x"})
    assert forged.status_code == 403
