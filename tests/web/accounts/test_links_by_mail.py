"""Invitations and password resets by email, with a real mail server."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from postroom.services.accounts.users import Role
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import until
from tests.web.site import PASSWORD, Site, running_site

ANN = "ann@example.org"
BASE_URL = "https://lists.example.org"
NEW_PASSWORD = "another horse battery"


@pytest.fixture(scope="module")
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as running:
        yield running


@pytest.fixture
async def mailing_site(tmp_path: Path, server: RecordingSmtp) -> AsyncIterator[Site]:
    settings = {"transport": f"smtp://127.0.0.1:{server.port}", "base_url": BASE_URL}
    async with running_site(tmp_path, settings) as site:
        await site.services.lists.create("news", "News", "news@example.org")
        server.script()
        yield site


def text_to(server: RecordingSmtp, address: str) -> str:
    """The text of the last email to this address; "" if there is none."""
    found = [each for each in server.accepted() if each.recipients == (address,)]
    if not found:
        return ""
    mail = email.message_from_bytes(found[-1].content, policy=email.policy.default)
    return str(mail.get_content())


def token_in(text: str) -> str:
    [token] = re.findall(rf"{BASE_URL}/join\?token=(\S+)", text)
    return str(token)


async def test_an_invitation_is_sent_and_shown(mailing_site: Site, server: RecordingSmtp) -> None:
    admin = await mailing_site.user(Role.ADMINISTRATOR)
    page = await admin.post("/users/invite", {"email": "bob@example.org", "role": "writer"})
    assert "We sent this link to bob@example.org" in page.text
    token = token_in(text_to(server, "bob@example.org"))
    assert token in page.text
    joined = await mailing_site.visitor().post("/join", {"token": token, "password": PASSWORD})
    assert joined.status_code == 303
    assert (await mailing_site.services.users.get("bob@example.org")).role is Role.WRITER


async def test_a_refused_invitation_is_shown_with_the_reason(
    mailing_site: Site, server: RecordingSmtp
) -> None:
    server.script(Rule("RCPT", "carol@example.org", "550 5.1.1 nobody here"))
    admin = await mailing_site.user(Role.ADMINISTRATOR)
    page = await admin.post("/users/invite", {"email": "carol@example.org", "role": "editor"})
    assert page.status_code == 200
    assert "could not be sent to carol@example.org: refused: 550 5.1.1 nobody here" in page.text
    assert "Copy the link now" in page.text


async def test_a_forgotten_password_is_reset_by_email(
    mailing_site: Site, server: RecordingSmtp
) -> None:
    await mailing_site.services.users.create(ANN, PASSWORD, Role.EDITOR)
    visitor = mailing_site.visitor()
    assert 'href="/forgotten"' in (await visitor.get("/login")).text
    assert (await visitor.get("/forgotten")).status_code == 200
    known = await visitor.post("/forgotten", {"email": ANN})
    unknown = await visitor.post("/forgotten", {"email": "nobody@example.org"})
    assert known.text.replace(ANN, "") == unknown.text.replace("nobody@example.org", "")
    await until(lambda: text_to(server, ANN) != "", what="the email with the link")
    assert text_to(server, "nobody@example.org") == ""
    token = token_in(text_to(server, ANN))
    data = {"token": token, "password": NEW_PASSWORD}
    assert (await mailing_site.visitor().post("/join", data)).status_code == 303
    assert await mailing_site.services.users.authenticate(ANN, NEW_PASSWORD)
    entries = (await mailing_site.services.audit.newest(who=ANN)).entries
    assert [each.what for each in entries] == [
        "set a new password",
        "requested a password reset link",
    ]


async def test_reset_links_are_limited_for_every_address_alike(mailing_site: Site) -> None:
    await mailing_site.services.users.create(ANN, PASSWORD, Role.EDITOR)
    for address in (ANN, "nobody@example.org"):
        visitor = mailing_site.visitor()
        answers = [await visitor.post("/forgotten", {"email": address}) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert 1000 < int(answers[-1].headers["retry-after"]) <= 1200


async def test_bad_addresses_are_named(mailing_site: Site) -> None:
    for address in ("", "no address", "x" * 5000, "a\r\nb@example.org"):
        response = await mailing_site.visitor().post("/forgotten", {"email": address})
        assert response.status_code == 422
        assert 'aria-invalid="true"' in response.text


async def test_without_a_mail_server_nothing_is_offered_or_kept(site: Site) -> None:
    await site.services.users.create(ANN, PASSWORD, Role.EDITOR)
    visitor = site.visitor()
    assert "/forgotten" not in (await visitor.get("/login")).text
    refused = await visitor.post("/forgotten", {"email": ANN})
    assert refused.status_code == 404
    assert '<a href="/login" class="button">Log in</a>' in refused.text
    assert await site.services.access_links.all() == []
