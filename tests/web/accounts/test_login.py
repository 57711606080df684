"""First start, logging in and out, and one's own account."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import httpx2
import pyotp
import pytest

from postroom.services.accounts.users import Role
from postroom.web.admin.accounts.login import setup_link
from tests.web.site import PASSWORD, Site, Visitor, problem_in, running_site

ANN = "ann@example.org"


def field(response: httpx2.Response, name: str) -> str:
    """The value of a field of the page."""
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', response.text)
    assert found, problem_in(response)
    return unescape(found[1])


async def log_in(visitor: Visitor, password: str = PASSWORD, **more: str) -> httpx2.Response:
    return await visitor.post("/login", {"email": ANN, "password": password, **more})


async def is_in(visitor: Visitor) -> bool:
    return (await visitor.get("/account")).status_code == 200


async def test_the_printed_link_creates_the_first_administrator_once(site: Site) -> None:
    visitor = site.visitor()
    assert "There are no accounts yet" in (await visitor.get("/login")).text
    token = setup_link(site.context).partition("token=")[2]
    for wrong in ("", "x", token[:-1]):
        assert (await visitor.get("/setup", params={"token": wrong})).status_code == 403
    page = await visitor.get("/setup", params={"token": token})
    assert page.status_code == 200
    data = {"token": token, "email": ANN, "password": "short"}
    refused = await visitor.post("/setup", data)
    assert refused.status_code == 422
    assert "must have at least 10 characters" in refused.text
    assert field(refused, "email") == ANN  # nothing typed is lost
    assert (await visitor.post("/setup", {**data, "token": "x"})).status_code == 403
    made = await visitor.post("/setup", {**data, "password": PASSWORD})
    assert await visitor.said(made) == "Welcome to Postroom. Start by creating a list."
    [user] = await site.services.users.all()
    assert (user.email, user.role) == (ANN, Role.ADMINISTRATOR)

    again = site.visitor()
    assert "There are no accounts yet" not in (await again.get("/login")).text
    response = await again.post("/setup", {**data, "password": PASSWORD})
    assert "already set up" in await again.said(response)
    assert len(await site.services.users.all()) == 1


async def test_the_first_administrator_of_a_store_with_lists_is_not_told_to_create_one(
    site: Site,
) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    token = setup_link(site.context).partition("token=")[2]
    visitor = site.visitor()
    made = await visitor.post("/setup", {"token": token, "email": ANN, "password": PASSWORD})
    assert await visitor.said(made) == "Welcome to Postroom."


async def test_a_login_leads_to_the_requested_page(site: Site) -> None:
    await site.services.users.create(ANN, PASSWORD, Role.VIEWER)
    visitor = site.visitor()
    response = await visitor.get("/events?severity=error")
    page = await visitor.get(response.headers["location"])
    response = await log_in(visitor, next=field(page, "next"))
    assert response.headers["location"] == "/events?severity=error"
    assert await is_in(visitor)
    response = await visitor.post("/logout")
    assert await visitor.said(response) == "You are logged out."
    assert not await is_in(visitor)
    what = [each.what for each in (await site.services.audit.newest(who=ANN)).entries]
    assert what == ["logged out", "logged in"]


async def test_the_response_does_not_reveal_whether_an_address_exists(site: Site) -> None:
    await site.services.users.create(ANN, PASSWORD, Role.VIEWER)
    answers = []
    for email in (ANN, "bob@example.org", "no address", "", "x" * 50_000, "a\r\nb\ud7ff@x.org"):
        response = await site.visitor().post("/login", {"email": email, "password": "wrong"})
        assert response.status_code == 422
        answers.append(re.sub(r'value="[^"]*"', "", response.text))
    assert len(set(answers)) == 1


async def test_anonymous_visitors_cannot_send_large_requests(site: Site) -> None:
    for path in ("/setup", "/login", "/login/code", "/logout", "/join", "/forgotten"):
        response = await site.visitor().post(path, {"email": "x" * 100_000})
        assert response.status_code == 413, path
        assert "larger than 64 KB" in response.text


async def test_too_many_attempts_are_slowed_down_for_every_address_alike(site: Site) -> None:
    await site.services.users.create(ANN, PASSWORD, Role.VIEWER)
    answers = []
    for email in (ANN, "bob@example.org"):
        visitor = site.visitor()
        tried = {"email": email, "password": "wrong"}
        statuses = [(await visitor.post("/login", tried)).status_code for _ in range(10)]
        assert statuses == [422] * 10
        response = await visitor.post("/login", {"email": email, "password": PASSWORD})
        assert response.status_code == 429
        assert 0 < int(response.headers["retry-after"]) <= 60
        answers.append(re.sub(r'value="[^"]*"|Wait \d+ s', "", response.text))
    assert answers[0] == answers[1]


async def test_failed_logins_elsewhere_do_not_lock_out_a_known_device(site: Site) -> None:
    await site.services.users.create(ANN, PASSWORD, Role.ADMINISTRATOR)
    laptop = site.visitor()
    assert (await log_in(laptop)).status_code == 303
    await laptop.post("/logout")
    wrong = {"email": ANN, "password": "wrong"}
    for _ in range(30):
        await site.visitor().post("/login", wrong)
        await site.services.users.authenticate(ANN, "wrong")  # through another server
    assert (await log_in(site.visitor())).status_code == 429
    assert (await log_in(laptop)).status_code == 303
    assert await is_in(laptop)

    other = site.visitor()
    cookie = laptop.http.cookies.get(site.context.cookies.device) or ""
    for forged in (cookie[:-2] + "xx", "x", cookie + "x", ""):
        other.http.cookies.set(site.context.cookies.device, forged, domain="127.0.0.1")
        assert (await log_in(other)).status_code == 429, forged


async def test_a_device_is_known_for_its_own_users_only(site: Site) -> None:
    await site.services.users.create(ANN, PASSWORD, Role.VIEWER)
    shared = site.visitor()
    for name in "abcdef":
        await site.services.users.create(f"{name}@example.org", PASSWORD, Role.VIEWER)
        sent = {"email": f"{name}@example.org", "password": PASSWORD}
        assert (await shared.post("/login", sent)).status_code == 303
        await shared.post("/logout")
    for _ in range(25):
        for email in (ANN, "f@example.org"):
            await site.visitor().post("/login", {"email": email, "password": "wrong"})
    assert (await log_in(shared)).status_code == 429
    known = {"email": "F@example.org", "password": PASSWORD}
    assert (await shared.post("/login", known)).status_code == 303


async def test_attempts_are_remembered_after_a_restart(
    tmp_path: Path, quick_passwords: None
) -> None:
    async with running_site(tmp_path) as site:
        await site.services.users.create(ANN, PASSWORD, Role.VIEWER)
        wrong = (site.services.users.authenticate(ANN, "wrong") for _ in range(30))
        await asyncio.gather(*wrong)
    async with running_site(tmp_path) as site:
        response = await log_in(site.visitor())
        assert response.status_code == 422
        assert "Wrong email or password" in response.text
        assert (await site.services.users.get(ANN)).is_slowed_down


async def turn_on_second_factor(visitor: Visitor) -> tuple[str, list[str]]:
    page = await visitor.get("/account/second-factor")
    assert "<svg" in page.text
    assert "style=" not in page.text
    found = re.search(r'<code class="secret">([A-Z2-7]+)</code>', page.text)
    assert found
    secret = found[1]
    wrong = await visitor.post(
        "/account/second-factor", {"secret": field(page, "secret"), "code": "12"}
    )
    assert wrong.status_code == 422
    assert secret in wrong.text  # the picture that was scanned still counts
    data = {"secret": field(wrong, "secret"), "code": pyotp.TOTP(secret).now()}
    done = await visitor.post("/account/second-factor", data)
    assert done.status_code == 200, problem_in(done)
    codes = re.findall(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){3}", done.text)
    assert len(codes) == 10
    return secret, codes


async def test_with_a_second_factor_the_password_is_not_enough(site: Site) -> None:
    owner = await site.user(Role.VIEWER, ANN)
    secret, codes = await turn_on_second_factor(owner)
    visitor = site.visitor()
    page = await log_in(visitor, next="/events")
    assert page.status_code == 200
    assert not visitor.session
    assert not await is_in(visitor)
    half = {"half": field(page, "half"), "next": field(page, "next")}

    for code in ("", "000000x", "\ud7ff", "1" * 50_000):
        assert (await visitor.post("/login/code", {**half, "code": code})).status_code == 422
    forged = await visitor.post("/login/code", {"half": "x", "code": codes[0]})
    assert "log in again" in await visitor.said(forged)
    code = pyotp.TOTP(secret).at(datetime.now(UTC), 1)
    entered = await visitor.post("/login/code", {**half, "code": code})
    assert entered.headers["location"] == "/events"
    assert await is_in(visitor)

    another = site.visitor()
    half["half"] = field(await log_in(another), "half")
    assert (await another.post("/login/code", {**half, "code": code})).status_code == 422
    entered = await another.post("/login/code", {**half, "code": codes[4]})
    assert entered.status_code == 303, problem_in(entered)
    again = site.visitor()
    half["half"] = field(await log_in(again), "half")
    assert (await again.post("/login/code", {**half, "code": codes[4]})).status_code == 422


async def test_a_second_factor_is_turned_off_with_the_password(site: Site) -> None:
    owner = await site.user(Role.VIEWER, ANN)
    _, codes = await turn_on_second_factor(owner)
    assert "You have 10 unused" in (await owner.get("/account")).text
    await site.outlast_confirmation(owner)
    refused = await owner.post("/account/second-factor/off")
    assert refused.status_code == 403
    assert (await site.services.users.get(ANN)).has_second_factor
    both = {"sudo_password": PASSWORD, "sudo_code": codes[0]}
    renewed = await owner.post("/account/second-factor/codes", both)
    assert renewed.status_code == 200, problem_in(renewed)
    assert codes[1] not in renewed.text
    off = await owner.post("/account/second-factor/off")
    assert "turned off" in await owner.said(off)
    visitor = site.visitor()
    await log_in(visitor)
    assert await is_in(visitor)


async def test_a_session_can_be_ended_from_another_browser(site: Site) -> None:
    first = await site.user(Role.VIEWER, ANN)
    assert first.user is not None
    second, third = await site.log_in(first.user), await site.log_in(first.user)
    sessions = await site.services.sessions.of(first.user)
    assert len(sessions) == 3
    page = (await first.get("/account")).text
    assert page.count("this browser") == 1
    token = second.session
    found = await site.services.sessions.find(token)
    assert found is not None
    ended = await first.post("/account/sessions/end", {"id": found[1].id})
    assert await first.said(ended) == "Session ended."
    assert [await is_in(each) for each in (first, second, third)] == [True, False, True]
    await first.post("/account/sessions/end-others")
    assert [await is_in(each) for each in (first, third)] == [True, False]
    for nonsense in ("", "x", "\x00", "x" * 2000, "../.."):
        response = await first.post("/account/sessions/end", {"id": nonsense})
        assert response.status_code < 500


async def test_changing_the_password_asks_for_the_old_one_and_ends_other_sessions(
    site: Site,
) -> None:
    first = await site.user(Role.VIEWER, ANN)
    assert first.user is not None
    other = await site.log_in(first.user)
    new = "another good password"
    for data, error in (
        ({"old_password": "wrong"}, "is not your password"),
        ({"new_password": "short"}, "must have at least 10 characters"),
        ({"again": "something else"}, "does not match"),
    ):
        good = {"old_password": PASSWORD, "new_password": new, "again": new}
        refused = await first.post("/account/password", {**good, **data})
        assert refused.status_code == 422
        assert error in refused.text
        assert PASSWORD not in refused.text
    good = {"old_password": PASSWORD, "new_password": new, "again": new}
    changed = await first.post("/account/password", good)
    assert "logged out everywhere else" in await first.said(changed)
    assert [await is_in(first), await is_in(other)] == [True, False]
    assert (await log_in(site.visitor())).status_code == 422
    assert (await log_in(site.visitor(), new)).status_code == 303


async def test_no_token_and_no_password_gets_into_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "postroom")
    caplog.set_level(logging.DEBUG, "uvicorn")
    await site.services.users.create(ANN, PASSWORD, Role.ADMINISTRATOR)
    token = await site.services.access_links.invite("bob@example.org", Role.VIEWER, ANN)
    visitor = site.visitor()
    await visitor.get("/join", params={"token": token})
    await log_in(visitor)
    key = await visitor.post("/keys/create", {"name": "site", "scope": "subscribe"})
    secret = re.search(r"pr_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key.text)
    assert secret
    logged = " ".join(str(vars(each)) for each in caplog.records)
    stored = str([each async for each in site.services.store.table("audit").scan()])
    for hidden in (token, PASSWORD, visitor.session, secret[0]):
        assert hidden not in logged
        assert hidden not in stored


async def test_pages_for_locked_out_users_explain_how_to_get_in(site: Site) -> None:
    assert "postroom user reset" in (await site.visitor().get("/login")).text
    docs = await site.visitor().get("/api/docs")
    assert "postroom apikey create" in docs.text
    assert 'href="/keys"' not in docs.text
    admin = await site.user(Role.ADMINISTRATOR)
    assert '<a href="/keys">API keys</a>' in (await admin.get("/api/docs")).text


async def test_logging_out_clears_what_the_browser_stored(site: Site) -> None:
    visitor = await site.user(Role.VIEWER)
    left = await visitor.post("/logout")
    assert left.headers["clear-site-data"] == '"storage"'
    assert (await visitor.get("/lists")).headers["location"].startswith("/login")


async def test_logging_in_by_a_link_ends_the_session_that_the_browser_had(site: Site) -> None:
    visitor = await site.user(Role.ADMINISTRATOR)
    before = visitor.session
    token = await site.services.access_links.invite("eve@example.org", Role.EDITOR, "ann")
    entered = await visitor.post("/join", {"token": token, "password": PASSWORD})
    assert entered.status_code == 303, problem_in(entered)
    assert await site.services.sessions.find(before) is None
    found = await site.services.sessions.find(visitor.session)
    assert found is not None
    assert found[0].email == "eve@example.org"
