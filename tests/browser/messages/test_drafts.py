"""Drafts in a real browser: they save themselves, offline and with a server that is killed, and two
windows lose nothing."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.encryption import Keyring
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.storage import open_store
from postroom.wiring import Services
from tests.browser.support.chromium import PATIENCE, window
from tests.browser.support.editing import html_editor, use_html
from tests.browser.support.looking import axe_source
from tests.services.postroom import CommandLine
from tests.services.waiting import accepts_connections, free_ports, until
from tests.web.site import Site

BODY = "Message (HTML)"
LETTER = "z"
LETTERS = 110
SLACK = 1.0  # seconds: timers of a busy browser are late
SLOWEST_SAVE = """() => Math.max(0, ...performance.getEntriesByType("resource")
  .filter((each) => each.name.endsWith("/messages/save")).map((each) => each.duration))"""


def state(page: Page) -> Locator:
    return page.locator("#save-state")


async def saved(page: Page) -> None:
    await expect(state(page)).to_have_text("Saved", timeout=PATIENCE)


async def stored(site: Site) -> tuple[Message, str]:
    [draft] = await site.services.times.drafts(limit=5)
    draft, content = await site.services.composing.read(draft.ref)
    return draft, content.body


async def test_a_new_message_saves_itself_and_gets_an_address(browser: Browser, site: Site) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    writer = await site.user(Role.WRITER)
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await page.goto("/messages/new")
        await page.get_by_label("Subject", exact=True).fill("Winter")
        await expect(page.locator("h1")).to_have_text("Winter")
        await saved(page)
        await page.wait_for_url("**/messages/*/edit")
        draft, _ = await stored(site)
        assert draft.subject == "Winter"
        await (await use_html(page)).press_sequentially("<p>Hello</p>", delay=20)
        await saved(page)
        assert (await stored(site))[1] == "<p>Hello</p>"
        assert await page.evaluate("() => Object.keys(localStorage)") == []
        # By keyboard alone: the field, the next one, and what was typed is saved.
        await page.get_by_label("Subject", exact=True).focus()
        await page.keyboard.press("Tab")
        await page.keyboard.type("Look inside")
        await saved(page)
        assert (await stored(site))[0].preheader == "Look inside"
        await page.reload()
        await expect(page.get_by_label(BODY)).to_have_text("<p>Hello</p>")
        await page.get_by_role("button", name="Hand over for sending").click()
        await page.wait_for_url("**/messages/drafts")
        await expect(page.get_by_text("ready to send")).to_be_visible()


async def test_text_that_is_typed_offline_is_kept_and_saved_later(
    browser: Browser, site: Site
) -> None:
    editor = await site.user(Role.EDITOR)
    await site.services.lists.create("news", "News", "news@example.com")
    made = await site.services.composing.create(
        ContentChange(subject="Winter"), "editor@example.org"
    )
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto(f"/messages/{made.ref}/edit")
        body = await html_editor(page)
        await context.set_offline(True)
        await body.fill("<p>On the train</p>")
        await expect(state(page)).to_have_text(
            "Not saved: offline, kept in this browser.", timeout=PATIENCE
        )
        assert (await stored(site))[1] == ""
        await context.set_offline(False)
        await saved(page)
        assert (await stored(site))[1] == "<p>On the train</p>"
        # A window that is closed offline: the next visit saves what it left.
        await context.set_offline(True)
        await page.get_by_label(BODY).fill("<p>In the tunnel</p>")
        await expect(state(page)).to_contain_text("offline", timeout=PATIENCE)
        await page.close()
        await context.set_offline(False)
        page = await context.new_page()
        await page.goto(f"/messages/{made.ref}/edit")
        await saved(page)
        await expect(page.get_by_label(BODY)).to_have_text("<p>In the tunnel</p>")
        assert (await stored(site))[1] == "<p>In the tunnel</p>"
        # And a new message that never reached the server is offered again.
        await page.goto("/messages/new")
        await context.set_offline(True)
        await page.get_by_label("Subject", exact=True).fill("Never sent")
        await expect(state(page)).to_contain_text("offline", timeout=PATIENCE)
        await page.close()
        await context.set_offline(False)
        page = await context.new_page()
        await page.goto("/messages/new")
        await page.get_by_role("button", name="Restore it").click()
        await saved(page)
        await expect(page.get_by_label("Subject", exact=True)).to_have_value("Never sent")
        found = {each.subject for each in await site.services.times.drafts(limit=5)}
        assert found == {"Winter", "Never sent"}


async def test_a_test_email_that_cannot_be_sent_offline_says_so(
    browser: Browser, site: Site
) -> None:
    editor = await site.user(Role.EDITOR)
    await site.services.lists.create("news", "News", "news@example.com")
    made = await site.services.composing.create(
        ContentChange(list_name="news", subject="Winter", body="<p>Hello</p>", text="Hello"),
        "editor@example.org",
    )
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        faults: list[object] = []
        page.on("pageerror", lambda fault: faults.append(fault))
        await page.goto(f"/messages/{made.ref}/edit")
        result = page.locator("#test-result")
        inbox = page.locator("#preview-inbox")
        await expect(inbox).to_contain_text("Winter", timeout=PATIENCE)
        await page.get_by_role("button", name="Send test").click()
        await expect(result).to_contain_text("Test sent to", timeout=PATIENCE)
        await context.set_offline(True)
        await page.get_by_role("button", name="Send test").click()
        await expect(result).to_have_text(
            "Not sent: offline. Try again once you are online.", timeout=PATIENCE
        )
        await page.get_by_label("Subject", exact=True).fill("Snow")
        await expect(state(page)).to_contain_text("offline", timeout=PATIENCE)
        await expect(inbox).to_contain_text("Winter")
        await context.set_offline(False)
        await expect(inbox).to_contain_text("Snow", timeout=PATIENCE)
        assert not faults


async def test_two_windows_show_both_versions_and_a_version_is_restored(
    browser: Browser, site: Site
) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    ann, bob = await site.user(Role.EDITOR), await site.user(Role.WRITER)
    first = ContentChange(list_name="news", subject="Winter", body="<p>One</p>", text="")
    made = await site.services.composing.create(first, "editor@example.org")
    where = f"/messages/{made.ref}/edit"
    async with (
        window(browser, site.url, whose=ann) as of_ann,
        window(browser, site.url, whose=bob) as of_bob,
    ):
        mine, theirs = await of_ann.new_page(), await of_bob.new_page()
        await mine.goto(where)
        await theirs.goto(where)
        await (await html_editor(theirs)).fill("<p>Bob was here</p>")
        await saved(theirs)
        await (await html_editor(mine)).fill("<p>Ann was here</p>")
        panel = mine.locator("#conflict")
        await expect(panel).to_contain_text("writer@example.org saved this draft", timeout=PATIENCE)
        await expect(panel).to_contain_text("<p>Bob was here</p>")
        await expect(panel).to_contain_text("<p>Ann was here</p>")
        assert await axe_findings(mine, "#conflict") == []
        await mine.get_by_role("button", name="Keep mine").click()
        await saved(mine)
        await expect(panel).to_be_empty()
        assert (await stored(site))[1] == "<p>Ann was here</p>"
        await theirs.get_by_label(BODY).fill("<p>Bob again</p>")
        await theirs.get_by_role("button", name="Use the saved version").click()
        await expect(theirs.get_by_label(BODY)).to_have_text(
            "<p>Ann was here</p>", timeout=PATIENCE
        )
        await mine.locator(".draft-actions summary").click()
        await mine.get_by_role("link", name="Versions").click()
        versions = site.services.composing.versions
        bodies = [
            (await site.services.composing.content(each)).body
            for each in await versions.all(made.ref)
        ]
        assert {"<p>Bob was here</p>", "<p>Bob again</p>"} <= set(bodies)
        links = mine.get_by_role("navigation", name="Versions").get_by_role("link")
        await links.nth(bodies.index("<p>Bob was here</p>")).click()
        await expect(mine.locator(".diff").first).to_contain_text("Bob")
        await mine.get_by_role("button", name="Restore this version").click()
        await expect(mine.get_by_label(BODY)).to_have_text("<p>Bob was here</p>", timeout=PATIENCE)


async def axe_findings(page: Page, part: str) -> list[str]:
    await page.evaluate(axe_source())
    found: list[str] = await page.evaluate(
        "(part) => axe.run(part, {preload: false})"
        ".then(({violations}) => violations.map((each) => `${each.id}: ${each.nodes[0].html}`))",
        part,
    )
    return found


async def type_without_a_pause(page: Page, count: int) -> list[float]:
    """Type a letter again and again; return when each was typed."""
    typed = []
    for _ in range(count):
        await page.keyboard.type(LETTER)
        typed.append(time.monotonic())
        await asyncio.sleep(0.04)
    return typed


async def body_in(cli: CommandLine, ref: str) -> str:
    async with await open_store(f"sqlite:///{cli.folder}/postroom-data/postroom.db") as store:
        use = Services(store, Keyring(lambda: [b"not used"])).composing
        return (await use.read(MessageRef(ref)))[1].body


@asynccontextmanager
async def serving(cli: CommandLine, port: int) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = cli.start("web", "--port", str(port))
    try:
        await until(lambda: accepts_connections(port), "the server accepts connections")
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


@pytest.mark.timeout(300)
async def test_a_server_that_is_killed_loses_nothing_that_was_saved(
    browser: Browser, tmp_path: Path
) -> None:
    cli, [port] = CommandLine(tmp_path), free_ports(1)
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@example.com")
    password = "correct horse battery"
    cli.ok("user", "add", "ann@example.com", "--password-stdin", stdin=password.encode())
    async with window(browser, f"http://127.0.0.1:{port}") as context:
        page = await context.new_page()
        async with serving(cli, port) as process:
            await page.goto("/login?next=/messages/new")
            await page.get_by_label("Email").fill("ann@example.com")
            await page.get_by_label("Password").fill(password)
            await page.get_by_role("button", name="Log in").click()
            await page.get_by_label("Subject", exact=True).fill("Winter")
            await saved(page)
            await (await use_html(page)).fill("<p>Saved</p>")
            await saved(page)
            await page.get_by_label(BODY).press("ControlOrMeta+End")
            typed = await type_without_a_pause(page, LETTERS)
            process.kill()
            killed = time.monotonic()
            await asyncio.to_thread(process.communicate)
        [draft] = cli.json("message", "ls", "--drafts")["items"]
        assert draft["subject"] == "Winter"
        kept = (await body_in(cli, draft["ref"])).count(LETTER)
        longest = await page.evaluate(SLOWEST_SAVE) / 1000
        lost = typed[kept:]
        assert not lost or killed - lost[0] < 2 + longest + SLACK
        await page.keyboard.type(LETTER)
        await expect(state(page)).to_contain_text("Not saved", timeout=PATIENCE)
        everything = f"<p>Saved</p>{LETTER * (LETTERS + 1)}"
        async with serving(cli, port):
            await saved(page)
            await page.reload()
            await expect(page.get_by_label(BODY)).to_have_text(everything)
