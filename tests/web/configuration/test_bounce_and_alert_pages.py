"""Settings → Bounces and Settings → Alerts: the same fields and rules as for the mail server."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from postroom.services.accounts.users import Role
from postroom.settings import load_settings
from postroom.wiring import LiveSettings
from tests.services.mail.mailbox_server import PASSWORD, USER, Mailbox, serving
from tests.services.waiting import free_ports
from tests.web.site import Site, running_site

BOUNCES, ALERTS = "/settings/bounces", "/settings/alerts"
SECRET = "a-secret-of-our-choice"
MAILBOX = "imaps://me:hidden-word@mail.example.com/INBOX"


async def test_bounces_are_set_up_and_take_effect_at_once(site: Site) -> None:
    admin = await site.user()
    body = {"RecordType": "Bounce"}
    hook = f"/hooks/postmark?secret={SECRET}"
    assert (await admin.http.post(hook, json=body)).status_code == 403
    page = (await admin.get(BOUNCES)).text
    for provider in ("ses", "sendgrid", "mailgun", "postmark", "brevo", "sparkpost", "azure"):
        assert f"{site.context.base_url}/hooks/{provider}" in page
    form = {"bounce_domain": "Bounce.example.com", "postmark_webhook_secret": SECRET,
            "bounce_mailbox": MAILBOX, "inbound_protocol": "lmtp",
            "inbound_bind": "127.0.0.1"}  # fmt: skip
    assert "Saved" in await admin.said(await admin.post(BOUNCES, form))
    assert site.context.settings.bounces.domain == "bounce.example.com"
    assert (await admin.http.post(hook, json=body)).status_code != 403
    page = (await admin.get(BOUNCES)).text
    shown = page + (await admin.get("/settings")).text + (await admin.get("/audit")).text
    assert SECRET not in shown
    assert "hidden-word" not in shown
    assert "bounce_domain = Bounce.example.com" in html.unescape(shown)

    again = {"bounce_domain": "bounce.example.org", "inbound_protocol": "lmtp",
             "inbound_bind": "127.0.0.1", "version": _version(page)}  # fmt: skip
    await admin.said(await admin.post(BOUNCES, again))
    found = site.context.settings.bounces
    assert (found.domain, found.mailbox) == ("bounce.example.org", MAILBOX)
    assert found.postmark_webhook_secret == SECRET, "an empty field keeps a secret"
    removed = {**again, "remove_bounce_mailbox": "yes"}
    removed["version"] = _version((await admin.get(BOUNCES)).text)
    await admin.said(await admin.post(BOUNCES, removed))
    assert site.context.settings.bounces.mailbox == ""
    assert "bounce_mailbox" not in (await site.services.stored_settings.get()).texts


def _version(page: str) -> str:
    found = re.search(r'name="version" value="(\w*)"', page)
    assert found
    return found[1]


async def test_wrong_values_are_named_and_nothing_is_saved(site: Site) -> None:
    admin = await site.user()
    for path, field, value, problem in (
        (BOUNCES, "bounce_domain", "no domain", "Bounce domain must be a domain"),
        (BOUNCES, "bounce_domain", "a.example\r\nx", "Bounce domain must be a single line"),
        (BOUNCES, "inbound_port", "99999", "Port must be between 1 and 65535, not 99999"),
        (BOUNCES, "inbound_bind", "everywhere", "must be an IP address such as 127.0.0.1"),
        (BOUNCES, "inbound_protocol", "http", "Protocol must be lmtp or smtp"),
        (BOUNCES, "bounce_mailbox", "javascript:x", "must start with imaps://"),
        (BOUNCES, "bounce_mailbox", "imaps://[", "must look like imaps://"),
        (BOUNCES, "brevo_webhook_secret", "short", "must have at least 16 characters"),
        (BOUNCES, "ses_topics", "bounces", "SNS topics must be ARNs such as arn:aws:sns:"),
        (BOUNCES, "sendgrid_webhook_key", "SG.an-api-key", "which begins with MFkw"),
        (ALERTS, "alert_webhook", "javascript:alert(1)", "must start with http://"),
        (ALERTS, "alert_email", "x" * 5000, "must have at most 2,000 characters, not 5,000"),
    ):
        answer = await admin.post(path, {"bounce_address": "b@example.com", field: value})
        assert answer.status_code == 422, (field, value)
        assert problem in html.unescape(answer.text), (field, value)
    assert (await site.services.stored_settings.get()).texts == {}


async def test_alerts_can_be_set_and_fields_of_the_environment_are_locked(
    tmp_path: Path, quick_passwords: None
) -> None:
    async with running_site(tmp_path, {"alert_email": "ops@example.com"}) as site:
        admin = await site.user()
        page = (await admin.get(ALERTS)).text
        assert re.search(r'id="alert_email"[^>]* value="ops@example.com"[^>]* disabled', page)
        assert "Set by --alert-email on the command line, so it cannot be changed here." in page
        form = {"alert_email": "eve@example.com", "alert_from": "alerts@example.com"}
        await admin.said(await admin.post(ALERTS, form))
        assert (await site.services.stored_settings.get()).texts == {
            "alert_from": "alerts@example.com"
        }
        assert site.context.settings.alerts.email == "ops@example.com"
        editor = await site.user(Role.EDITOR)
        for path in (BOUNCES, ALERTS):
            assert (await editor.get(path)).status_code == 403
            assert (await editor.post(path, form)).status_code == 403


async def test_another_web_server_sees_the_change(site: Site, tmp_path: Path) -> None:
    admin = await site.user()
    other = LiveSettings(site.services.stored_settings, load_settings({}, tmp_path))
    await other.refresh()
    await admin.said(await admin.post(ALERTS, {"alert_email": "ann@example.com"}))
    await other.refresh()
    assert other.current.alerts.email == "ann@example.com"
    assert other.current.found["alert_email"].origin == "stored"


async def test_the_mailbox_and_the_listener_can_be_tried(site: Site) -> None:
    admin = await site.user()
    assert "set a mailbox or a port first" in await admin.said(await admin.post(f"{BOUNCES}/test"))
    mailbox = Mailbox()
    mailbox.add(b"one", b"two")
    [closed] = free_ports(1)
    async with serving(mailbox, "imap") as port, greeting(b"220 here Postroom 1\r\n") as listener:
        for password, inbound, expected in (
            ("wrong", closed, ["Failed", "wrong password", "Failed", "Nothing accepts mail on"]),
            (quote(PASSWORD), listener, ["Works", "2 emails are waiting", "Works", "accepts mail"]),
        ):
            url = f"imap://{quote(USER)}:{password}@127.0.0.1:{port}/INBOX"
            form = {"bounce_mailbox": url, "inbound_port": str(inbound),
                    "inbound_protocol": "lmtp", "inbound_bind": "127.0.0.1"}  # fmt: skip
            form["version"] = _version((await admin.get(BOUNCES)).text)
            await admin.said(await admin.post(BOUNCES, form))
            answer = await admin.post(f"{BOUNCES}/test")
            shown = html.unescape(answer.text)
            assert answer.status_code == 200
            places = [shown.index(text) for text in expected[:2]]
            assert places == sorted(places)
            assert all(text in shown for text in expected)
            assert password not in shown or password == "wrong"
    assert len(mailbox.folders["INBOX"]) == 2
    assert "FETCH" not in mailbox.commands


async def test_a_test_alert_says_which_channel_works(site: Site) -> None:
    admin = await site.user()
    said = await admin.said(await admin.post(f"{ALERTS}/test"))
    assert "set an address or a webhook first" in said
    [closed] = free_ports(1)
    form = {
        "alert_email": "ops@example.com",
        "alert_from": "alerts@example.com",
        "alert_webhook": f"http://127.0.0.1:{closed}/hidden-path",
    }
    await admin.said(await admin.post(ALERTS, form))
    shown = html.unescape((await admin.post(f"{ALERTS}/test")).text)
    result = re.sub(r"<[^>]+>|\s+", " ", shown[shown.index('role="status"') :])
    assert re.search(r"Works +Email +: The test alert was accepted", result)
    assert re.search(r"Failed +Webhook +: Not delivered: the webhook cannot be called", result)
    assert "hidden-path" not in result
    editor = await site.user(Role.EDITOR)
    for path in (BOUNCES, ALERTS):
        assert (await editor.post(f"{path}/test")).status_code == 403


@asynccontextmanager
async def greeting(line: bytes) -> AsyncIterator[int]:
    """Listen like a mail server that says this."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(line)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
