"""Sudo mode: a stolen cookie alone changes neither users, keys and applications nor the store."""

from __future__ import annotations

import re

import pyotp

from postroom.services.accounts.users import Role
from postroom.web.app import VIEWS
from postroom.web.requests.views import View
from tests.web.forms import forms_in
from tests.web.site import PASSWORD, Site, Visitor, problem_in

READS = {"GET", "HEAD", "OPTIONS"}
# What decides who has access, what runs, or what is in the store.
GUARDED = re.compile(
    r"/(users|keys|apps|applications|explorer|settings|mail-server|account/second-factor)(/|$)"
    r"|/queue/(put|delete|purge)$"
)
INVITATION = {"email": "bob@example.org", "role": "editor"}


def writing_pages() -> list[View]:
    return [page for page in VIEWS if not set(page.methods) <= READS]


async def asked_again(site: Site, role: Role = Role.ADMINISTRATOR) -> Visitor:
    """Somebody with a cookie whose owner entered the password more than ten minutes ago."""
    visitor = await site.user(role)
    await site.outlast_confirmation(visitor)
    return visitor


def test_every_form_that_decides_who_has_access_or_what_runs_is_declared_so() -> None:
    guarded = [page for page in writing_pages() if GUARDED.match(page.path)]
    assert [page.path for page in guarded if not page.sudo] == []
    assert len(guarded) > 12


def test_a_page_that_asks_for_the_password_has_a_user() -> None:
    assert [page.path for page in VIEWS if page.sudo and page.role is None] == []


async def test_every_such_form_asks_for_the_password_and_changes_nothing(site: Site) -> None:
    thief = await asked_again(site)
    asked = 0
    for page in writing_pages():
        for method in set(page.methods) - READS if page.sudo else ():
            path = re.sub(r"\{[^}]*\}", "1", page.path)
            data = {"csrf": await thief.csrf(), "email": "x", "id": "1"}
            answer = await thief.http.request(method, path, data=data)
            assert answer.status_code == 403, f"{method} {page.path}"
            assert "Confirm your password" in answer.text, f"{method} {page.path}"
            asked += 1
    assert asked > 12
    assert (await site.services.audit.newest()).entries == []


async def test_what_was_filled_in_survives_the_question(site: Site) -> None:
    admin = await asked_again(site)
    hostile = 'line one\r\n\r\n"><script>alert(1)</script>&amp;\n'
    key = {"name": hostile, "scope": ["read", "lists"]}
    question = await admin.post("/keys/create?from=here", key)
    assert question.status_code == 403
    assert "<script>alert" not in question.text
    [form] = [each for each in forms_in(question.text, "/keys/create") if "create" in each.action]
    assert form.action == "/keys/create?from=here"
    for name, text in (("name", hostile), ("scope", "read"), ("scope", "lists")):
        kept = [value for field, value in form.fields if field == name]
        assert text.replace("\r\n", "\n") in [each.replace("\r\n", "\n") for each in kept]

    wrong = await admin.post("/users/invite", {**INVITATION, "sudo_password": "wrong"})
    assert wrong.status_code == 422
    assert "Wrong password" in wrong.text
    assert "bob@example.org" in wrong.text
    assert await site.services.access_links.all() == []

    right = await admin.post("/users/invite", {**INVITATION, "sudo_password": PASSWORD})
    assert right.status_code == 200, problem_in(right)
    [link] = await site.services.access_links.all()
    assert link.email == "bob@example.org"
    again = await admin.post("/users/invite", {**INVITATION, "email": "carol@example.org"})
    assert again.status_code == 200  # for ten minutes
    found = (await site.services.audit.newest()).entries
    what = ["invited user", "invited user", "entered a wrong password"]
    assert [each.what for each in found] == what
    assert PASSWORD not in repr(found)


async def test_a_second_factor_is_requested_too(site: Site) -> None:
    admin = await site.user()
    assert admin.user is not None
    secret = pyotp.random_base32()
    now = pyotp.TOTP(secret).now()
    codes = await site.services.users.turn_on_second_factor(admin.user.email, secret, now)
    await site.outlast_confirmation(admin)
    question = await admin.post("/users/invite", INVITATION)
    assert 'name="sudo_code"' in question.text
    alone = await admin.post("/users/invite", {**INVITATION, "sudo_password": PASSWORD})
    assert alone.status_code == 422
    both = {"sudo_password": PASSWORD, "sudo_code": codes[0]}
    assert (await admin.post("/users/invite", {**INVITATION, **both})).status_code == 200


async def test_a_changed_password_does_not_replace_the_second_factor(site: Site) -> None:
    thief = await site.user()
    assert thief.user is not None
    secret = pyotp.random_base32()
    code = pyotp.TOTP(secret).now()
    await site.services.users.turn_on_second_factor(thief.user.email, secret, code)
    await site.outlast_confirmation(thief)
    new = "eleven green bicycles"
    form = {"old_password": PASSWORD, "new_password": new, "again": new}
    assert (await thief.post("/account/password", form)).is_redirect
    off = await thief.post("/account/second-factor/off")
    assert off.status_code == 403
    assert "Confirm your password" in off.text


async def test_guessing_the_password_of_a_stolen_session_is_slow(site: Site) -> None:
    thief = await asked_again(site)
    answers = [await thief.post("/keys/create", {"sudo_password": f"guess {n}"}) for n in range(12)]
    assert [each.status_code for each in answers] == [422] * 10 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) > 0
    owner = await site.log_in(thief.user) if thief.user else thief
    await site.outlast_confirmation(owner)
    right = await owner.post("/keys/create", {"reach": "everything", "sudo_password": PASSWORD})
    assert right.status_code == 200  # the owner's own session is not slowed down


async def test_sessions_of_an_earlier_version_are_asked(site: Site) -> None:
    admin = await site.user()
    rows = site.services.store.table("sessions")
    [row] = (await rows.query()).entities
    values = {name: each for name, each in row.properties.items() if name != "ConfirmedAt"}
    await rows.replace(type(row)(row.partition, row.row, values), row.etag)
    assert (await admin.get("/keys")).status_code == 200
    assert (await admin.post("/keys/create")).status_code == 403


async def test_the_back_link_of_a_question_leads_to_our_own_pages(site: Site) -> None:
    admin = await asked_again(site)
    for referer, back in (
        (f"{site.url}/users?sort=role", "/users?sort=role"),
        ("https://evil.example//evil.example/x", "/"),
        ("http://[", "/"),
        ("", "/"),
    ):
        page = await admin.post("/users/invite", INVITATION, headers={"Referer": referer})
        found = re.search(r'<a href="([^"]*)" class="button">Cancel', page.text)
        assert found is not None
        assert found[1] == back


async def test_entering_the_password_makes_a_stolen_cookie_useless(site: Site) -> None:
    owner = await asked_again(site)
    stolen, form_in_another_tab = owner.session, await owner.csrf()
    done = await owner.post("/users/invite", {**INVITATION, "sudo_password": PASSWORD})
    assert done.status_code in (200, 303), problem_in(done)
    assert owner.session != stolen
    assert await site.services.sessions.find(stolen) is None
    assert owner.user is not None
    assert len(await site.services.sessions.of(owner.user)) == 1
    # What is open in another tab can still be sent.
    assert await owner.csrf() == form_in_another_tab
    assert (await owner.get("/users")).status_code == 200
