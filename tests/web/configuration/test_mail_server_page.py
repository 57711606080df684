"""Settings → Mail server: what is stored, what the test email says, and what is never shown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import httpx2
import pytest
import trustme

from postroom.services.accounts.users import Role
from postroom.storage import Entity
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import free_ports
from tests.web.site import PASSWORD as LOGIN
from tests.web.site import Site, Visitor, running_site

HERE = "/settings/mail-server"
USER, PASSWORD = "ann@example.com", "p@ss:w/ord, with %"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("certificate") / "server.pem"
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


@pytest.fixture(scope="module")
def secured(certificate: Path) -> Iterator[RecordingSmtp]:
    """A mail server with STARTTLS and a login, and a certificate of nobody."""
    with running_recording_smtp(certificate=certificate, user=USER, password=PASSWORD) as server:
        yield server


@pytest.fixture
def server(secured: RecordingSmtp) -> RecordingSmtp:
    secured.script()
    return secured


def fields(server: RecordingSmtp | int, **others: str) -> dict[str, str]:
    port = server if isinstance(server, int) else server.port
    return {
        "host": "127.0.0.1",
        "port": str(port),
        "encryption": "starttls",
        "user": USER,
        "password": PASSWORD,
        "accepts_any": "yes",
        "to": "bob@example.com",
        "from": "news@example.com",
        **others,
    }


async def tried(visitor: Visitor, form: dict[str, str]) -> str:
    """What the page says about a test email."""
    answer = await visitor.post(f"{HERE}/test", form, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return text_of(answer)


def text_of(answer: httpx2.Response) -> str:
    without_tags = re.sub(r"<[^>]+>", " ", answer.text.replace("</p>", "\n"))
    return html.unescape(re.sub(r"[ \t]+", " ", without_tags))


async def version(visitor: Visitor) -> str:
    found = re.search(r'name="version" value="(\w*)"', (await visitor.get(HERE)).text)
    assert found
    return found[1]


async def test_a_tested_server_is_saved_encrypted_and_its_password_is_never_shown(
    site: Site, server: RecordingSmtp, caplog: pytest.LogCaptureFixture
) -> None:
    admin = await site.user()
    before = len(server.received())
    shown = await tried(admin, fields(server))
    assert "accepted the test email to bob@example.com" in shown
    assert "not used yet" in shown
    assert len(server.received()) == before + 1
    assert site.context.settings.transport.url == "outbox:", "a test stores nothing"

    flash = await admin.said(await admin.post(HERE, fields(server)))
    assert "Emails are sent through 127.0.0.1 from now on" in flash
    assert PASSWORD in unquote(site.context.settings.transport.url)
    [row] = (await site.services.store.table("settings").query()).entities
    stored = str(row.properties)
    audit = (await admin.get("/audit")).text
    pages = "".join([(await admin.get(path)).text for path in (HERE, "/settings", "/")])
    for text in (stored, audit, pages, caplog.text):
        assert PASSWORD not in html.unescape(text)
        assert "ss%3Aw%2Ford" not in text
    assert "administrator@example.org" in audit
    assert "transport = smtp://" in audit
    assert (await admin.get("/explorer/tables/settings/rows")).status_code == 409


async def test_an_empty_password_keeps_the_saved_one_but_not_for_another_host(
    site: Site, server: RecordingSmtp
) -> None:
    admin = await site.user()
    await admin.said(await admin.post(HERE, fields(server)))
    kept = fields(server, password="", version=await version(admin))
    assert "accepted the test email" in await tried(admin, kept)
    assert "Check your inbox and your spam folder" in await tried(admin, kept)
    for change in (
        {"host": "localhost"},
        {"port": "2525"},
        {"user": "eve@example.com"},
        {"encryption": "auto"},
        {"encryption": "none"},
    ):
        assert "must be entered again" in await tried(admin, {**kept, **change})
        refused = await admin.post(HERE, {**kept, **change})
        assert refused.status_code == 422
    await admin.said(await admin.post(HERE, kept))
    assert site.context.settings.transport.url.startswith("smtp://ann%40example.com:p%40ss")
    strict = {**kept, "accepts_any": "", "version": await version(admin)}
    await admin.said(await admin.post(HERE, strict))
    assert "must be entered again" in await tried(admin, kept), "the certificate would not matter"


async def test_the_question_for_the_password_replaces_the_page_and_leads_to_the_result(
    site: Site, server: RecordingSmtp
) -> None:
    admin = await site.user()
    await site.outlast_confirmation(admin)
    before = len(server.received())
    asked = await admin.post(f"{HERE}/test", fields(server), headers={"HX-Request": "true"})
    assert (asked.status_code, asked.headers["HX-Retarget"]) == (403, "body")
    assert "Confirm your password" in asked.text
    assert f'action="{HERE}/test"' in asked.text
    assert len(server.received()) == before
    given = {**fields(server), "sudo_password": LOGIN}
    result = await admin.post(f"{HERE}/test", given)
    assert result.status_code == 200
    assert "accepted the test email to bob@example.com" in text_of(result)
    assert "<h1" in result.text
    assert len(server.received()) == before + 1


@pytest.mark.parametrize(
    ("change", "rules", "headline", "quoted"),
    [
        ({"password": "wrong"}, (), "Wrong user name or password", "535"),
        ({"host": "no-such-host.invalid"}, (), "The host name is unknown", ""),
        ({"encryption": "tls"}, (), "does not use TLS from the start", ""),
        ({"accepts_any": ""}, (), "certificate is not trusted", "STARTTLS"),
        ({}, (Rule("MAIL", reply="554 5.7.1 Email address is not verified"),),
         "does not allow this From address", "MAIL FROM:<news@example.com>"),
        ({}, (Rule("RCPT", reply="554 5.7.1 <bob@example.com>: Relay access denied"),),
         "does not pass on mail for this machine", "RCPT TO:<bob@example.com>"),
        ({}, (Rule("AUTH", reply="535 5.7.139 SmtpClientAuthentication is disabled"),),
         "Microsoft 365 does not allow this mailbox", "AUTH PLAIN ●●●"),
        ({}, (Rule("RCPT", reply="550 5.1.1 unknown"),), "does not accept the recipient", "550"),
        ({}, (Rule("end", reply="554 5.6.0 no"),), "does not accept the email", "554 5.6.0 no"),
        ({}, (Rule("DATA", drop=True),), "does not accept the email", "DATA"),
    ],
    ids=["password", "host", "tls", "certificate", "sender", "relay", "disabled", "recipient",
         "content", "dropped"],
)  # fmt: skip
async def test_a_failed_test_says_what_to_do_and_shows_the_dialogue(
    site: Site,
    server: RecordingSmtp,
    change: dict[str, str],
    rules: tuple[Rule, ...],
    headline: str,
    quoted: str,
) -> None:
    admin = await site.user()
    server.script(*rules)
    shown = await tried(admin, fields(server, **change))
    assert headline in shown
    assert quoted in shown
    assert "connecting to" in shown
    assert PASSWORD not in shown


async def test_a_refused_connection_and_a_silent_server_get_different_advice(site: Site) -> None:
    admin = await site.user()
    [unused] = free_ports(1)
    assert "Nothing accepts connections" in await tried(admin, fields(unused))
    with running_recording_smtp() as plain:
        shown = await tried(admin, fields(plain))
        assert "does not offer encryption on this port" in shown
        login = fields(plain, encryption="none", accepts_any="")
        assert "does not accept a login here" in await tried(admin, login)
        no_login = {**login, "user": "", "password": ""}
        assert "accepted the test email" in await tried(admin, no_login)


async def test_a_server_that_repeats_the_password_does_not_reveal_it(
    site: Site, server: RecordingSmtp
) -> None:
    admin = await site.user()
    server.script(Rule("AUTH", reply=f"535 5.7.8 {PASSWORD} is wrong"))
    shown = await tried(admin, fields(server))
    assert PASSWORD not in shown
    assert "535 5.7.8 ●●● is wrong" in shown


async def test_hostile_values_are_refused_by_name(site: Site) -> None:
    admin = await site.user()
    for change, problem in (
        ({"host": "evil.example\r\nRCPT TO:<x@y>"}, "Host must be a host name"),
        ({"host": "javascript:alert(1)"}, "Host must be a host name"),
        ({"host": "smtp://smtp.example.com"}, "Host must be a host name"),
        ({"host": "a" * 100_000}, "Host must be a host name"),
        ({"host": ""}, "Host must not be empty"),
        ({"port": "99999"}, "Port must be between 1 and 65535, not 99999"),
        ({"port": "²"}, "Port must be between 1 and 65535"),
        ({"encryption": "rot13"}, "Encryption must be one of the choices"),
        ({"user": "a\r\nMAIL FROM:<>"}, "User name must not contain control characters"),
        ({"user": "a" * 100_000}, "User name must have at most 200 characters"),
        ({"password": "x" * 301}, "Password must have at most 300 characters, not 301"),
        ({"password": "漢" * 300}, "Password must have at most 2,000 characters"),
        ({"password": ""}, "Password must not be empty"),
        ({"user": ""}, "User name must not be empty if there is a password"),
        ({"connections_in_all": "-1"}, "must be between 1 and 100000"),
    ):
        answer = await admin.post(HERE, fields(25, **change))
        assert answer.status_code == 422, change
        assert problem.partition(" ")[2] in text_of(answer), change
    for change in ({"to": "nobody"}, {"from": "a@b\r\nBcc: x@y.example"}):
        answer = await admin.post(f"{HERE}/test", fields(25, **change))
        assert "The test email was not sent" in text_of(answer)
    assert (await site.services.stored_settings.get()).texts == {}


async def test_a_server_of_the_environment_is_shown_locked_and_can_be_tested(
    tmp_path: Path, server: RecordingSmtp, quick_passwords: None
) -> None:
    url = f"smtp://ann%40example.com:{PASSWORD.replace('%', '%25')}@127.0.0.1"
    url = url.replace("p@ss:w/ord, with ", "p%40ss%3Aw%2Ford%2C%20with%20")
    given = {"transport": f"{url}:{server.port}?tls=required&verify=no"}
    async with running_site(tmp_path, given) as site:
        admin = await site.user()
        page = (await admin.get(HERE)).text
        assert "Set by --transport on the command line" in page
        assert '<button type="submit" class="primary">Save</button>' not in page
        assert re.search(r'id="host"[^>]* value="127.0.0.1"[^>]* disabled', page)
        assert "ann@example.com" not in page
        assert "accepted the test email" in await tried(admin, fields(server, host="other"))
        assert "set elsewhere" in await admin.said(await admin.post(HERE, fields(server)))
        assert (await site.services.stored_settings.get()).texts == {}
        await site.services.stored_settings.change({"transport": "smtp://b.example"}, by="a test")
        assert "set elsewhere" in await admin.said(await admin.get(f"{HERE}/remove"))
        assert "set elsewhere" in await admin.said(await admin.post(f"{HERE}/remove"))
        assert "transport" in (await site.services.stored_settings.get()).texts


async def test_two_people_do_not_overwrite_each_other(site: Site, server: RecordingSmtp) -> None:
    admin = await site.user()
    old = await version(admin)
    await admin.said(await admin.post(HERE, fields(server, version=old)))
    answer = await admin.post(HERE, fields(server, host="localhost", version=old))
    assert answer.status_code == 422
    assert "Someone else has changed the settings" in text_of(answer)
    assert 'value="localhost"' in answer.text
    assert "127.0.0.1" in site.context.settings.transport.url


async def test_a_test_email_is_signed_like_all_others(site: Site, server: RecordingSmtp) -> None:
    admin = await site.user()
    await site.services.dkim_keys.create("example.com", "ed25519", "one")
    await site.services.dkim_keys.activate("example.com", "one")
    assert "accepted the test email" in await tried(admin, fields(server))
    assert b"DKIM-Signature: " in server.received()[-1].content


async def test_a_stored_server_can_be_replaced_and_removed(
    site: Site, server: RecordingSmtp
) -> None:
    admin = await site.user()
    await admin.said(await admin.post(HERE, fields(server)))
    other = (await admin.get(f"{HERE}?preset=gmail")).text
    assert f'<strong class="breakable">127.0.0.1:{server.port}</strong>' in other
    assert "Stop sending emails?" in (await admin.get(f"{HERE}/remove")).text
    assert "kept in the Outbox" in await admin.said(await admin.post(f"{HERE}/remove"))
    assert site.context.settings.transport.url == "outbox:"
    assert "No mail server is set up yet" in (await admin.get(HERE)).text
    await site.services.stored_settings.change(
        {"transport": "smtp://me:hidden@a.example,smtp://b.example"}, by="a test"
    )
    page = (await admin.get(HERE)).text
    assert "smtp://●●●@a.example,smtp://b.example" in page
    assert "hidden@" not in page


async def test_only_administrators_see_and_change_it(site: Site) -> None:
    editor = await site.user(Role.EDITOR)
    assert (await editor.get(HERE)).status_code == 403
    assert (await editor.post(HERE, fields(25))).status_code == 403
    assert (await editor.post(f"{HERE}/test", fields(25))).status_code == 403


async def test_presets_fill_the_form_without_a_script(site: Site) -> None:
    admin = await site.user()
    for preset, host in (("gmail", "smtp.gmail.com"), ("brevo", "smtp-relay.brevo.com")):
        page = (await admin.get(f"{HERE}?preset={preset}")).text
        assert f'value="{host}"' in page
        assert 'value="587"' in page
    assert 'value="apikey"' in (await admin.get(f"{HERE}?preset=sendgrid")).text
    assert (await admin.get(f"{HERE}?preset=<script>")).status_code == 200


async def test_the_first_step_is_done_once_a_test_email_was_accepted(
    site: Site, server: RecordingSmtp
) -> None:
    admin = await site.user()
    assert f'href="{HERE}">Set up your mail server' in (await admin.get("/")).text
    await admin.said(await admin.post(HERE, fields(server)))
    assert f'href="{HERE}">Test your mail server' in (await admin.get("/")).text
    await tried(admin, fields(server, password=""))
    home = (await admin.get("/")).text
    assert re.search(r'<li class="done">\s*<p><a href="[^"]*">Set up your mail server', home)


async def test_a_damaged_row_keeps_what_is_in_use(site: Site, server: RecordingSmtp) -> None:
    admin = await site.user()
    await admin.said(await admin.post(HERE, fields(server)))
    url = site.context.settings.transport.url
    row = Entity("setting", "stored", {"Values": "enc1:000000000000:AAAA", "Version": "other"})
    await site.services.store.table("settings").merge(row)
    assert (await admin.get("/")).status_code == 200
    assert site.context.settings.transport.url == url
