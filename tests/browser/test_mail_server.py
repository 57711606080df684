"""A newcomer's way from Home to a delivered test email, and what the pages look like on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from playwright.async_api import Browser, Page, expect

from tests.browser.messages.test_story import FirstStart, first_start, make_the_administrator
from tests.browser.support.chromium import PATIENCE, window
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.waiting import until
from tests.web.site import PASSWORD as LOGIN
from tests.web.site import Site

__all__ = ["first_start"]

USER, PASSWORD = "ann@example.org", "abcd efgh ijkl mnop"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RecordingSmtp]:
    file = tmp_path / "server.pem"
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    with running_recording_smtp(certificate=file, user=USER, password=PASSWORD) as running:
        yield running


@pytest.mark.timeout(600)  # a limit for a story that hangs, not for a slow machine
async def test_a_newcomer_sets_up_a_mail_server_and_sends_a_test_and_a_confirmation(
    browser: Browser, first_start: FirstStart, server: RecordingSmtp
) -> None:
    [link] = first_start.links()
    async with window(browser, link.partition("/setup")[0]) as mine:
        page = await mine.new_page()
        await make_the_administrator(page, link)
        await page.goto("/")
        await page.get_by_role("link", name="Set up your mail server").first.click()
        await page.get_by_role("link", name="Gmail").click()
        await expect(page.get_by_label("Host")).to_have_value("smtp.gmail.com", timeout=PATIENCE)
        await page.get_by_role("link", name="SMTP", exact=True).click()
        await expect(page.get_by_label("Host")).to_have_value("", timeout=PATIENCE)
        await fill_in(page, server, "the wrong password")
        result = page.locator("#test-result")
        await expect(result).to_contain_text("Wrong user name or password", timeout=PATIENCE)
        await expect(result).to_contain_text("AUTH PLAIN ●●●", timeout=PATIENCE)
        assert "wrong password" not in await result.inner_text()
        assert server.received() == []

        # The form is as it was: only the password has to be typed again.
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Send test email").click()
        accepted = "accepted the test email to ann@example.org"
        await expect(result).to_contain_text(accepted, timeout=PATIENCE)
        [mail] = server.received()
        assert mail.recipients == ("ann@example.org",)
        await page.get_by_label("Host").press("Enter")  # saves, and sends no second test
        await expect(page.locator("#toast")).to_contain_text("Saved.", timeout=PATIENCE)
        assert server.received() == [mail]
        await page.goto("/")
        done = page.locator(".first-steps li.done")
        await expect(done).to_contain_text("Set up your mail server", timeout=PATIENCE)
        await confirmation_goes_out(page, server)


@pytest.mark.timeout(300)
async def test_the_password_is_asked_for_on_a_whole_page_that_leads_to_the_result(
    browser: Browser, site: Site, server: RecordingSmtp
) -> None:
    admin = await site.user()
    await site.outlast_confirmation(admin)
    async with window(browser, site.url, whose=admin) as mine:
        page = await mine.new_page()
        await page.goto("/settings/mail-server")
        await fill_in(page, server, PASSWORD)
        question = page.get_by_role("heading", name="Confirm your password")
        await expect(question).to_be_visible(timeout=PATIENCE)
        await expect(page.locator("h1")).to_have_count(1)
        await page.get_by_label("Password").fill(LOGIN)
        await page.get_by_role("button", name="Confirm").click()
        result = page.locator("#test-result")
        await expect(result).to_contain_text("accepted the test email", timeout=PATIENCE)
        await expect(page.get_by_label("Host")).to_have_value("127.0.0.1")
        assert len(server.received()) == 1


async def fill_in(page: Page, server: RecordingSmtp, password: str) -> None:
    await page.get_by_label("Host").fill("127.0.0.1")
    await page.get_by_label("Port").fill(str(server.port))
    await page.get_by_label("User name").fill(USER)
    await page.get_by_label("Password").fill(password)
    await page.get_by_text("More options").click()
    await page.get_by_label("Accept any certificate").check()
    await page.get_by_label("From", exact=True).fill("news@example.org")
    await page.get_by_role("button", name="Send test email").click()


async def confirmation_goes_out(page: Page, server: RecordingSmtp) -> None:
    """A sender, which the host starts in a separate process, uses the new mail server."""
    await page.goto("/lists/new")
    await page.get_by_label("Name", exact=True).fill("garden")
    await page.get_by_label("Description").fill("Garden club")
    await page.get_by_label("From address").fill("garden@example.org")
    await page.get_by_role("button", name="Create list").click()
    await page.wait_for_url("**/lists/garden**")
    await page.goto("/subscribe?list=garden")
    await page.get_by_label("Email").fill("reader@example.com")
    await page.get_by_role("button", name="Subscribe").click()
    await until(
        lambda: any("reader@example.com" in each.recipients for each in server.received()),
        "the confirmation is sent through the mail server",
    )
