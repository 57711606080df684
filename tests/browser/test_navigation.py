"""How people get around: the search, tabs, the selection bar, undo, and the way back."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import Browser, Page, Route, expect

from postroom.domain.messages.emails import EmailOutcome
from postroom.services.accounts.users import Role
from tests.browser.support.chromium import DESKTOP, PATIENCE, PHONE, window
from tests.integration.usecases.pages import settle
from tests.web.site import Site
from tests.web.world import ANN, LIST, furnished

SMALL_LAPTOP = (1280, 720)


async def search(page: Page, text: str) -> None:
    """Open the search, type, and wait until it shows what was found for all of it."""
    await page.keyboard.press("Control+k")
    await page.keyboard.type(text)
    found = page.locator("#palette-found")
    await expect(found).to_have_attribute("data-query", text, timeout=PATIENCE)


async def test_ctrl_k_leads_to_pages_lists_messages_and_subscribers(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        await page.goto("/")
        for text, leads_to in (
            ("audit", "/audit"),
            ("new mess", "/messages/new"),
            ("garden", f"/lists/{LIST}"),
            ("for later", f"/messages/{world.names['pending']}"),
            ("user031", f"/lists/{LIST}/subscribers/user031%40example.com"),
        ):
            await search(page, text)
            await page.keyboard.press("Enter")
            await page.wait_for_url(f"**{leads_to}")
        # Arrow keys choose, Escape closes.
        await page.goto("/")
        await search(page, "l")
        chosen = page.locator("#palette-found [aria-selected=true]")
        first = await chosen.inner_text()
        await page.keyboard.press("ArrowDown")
        await expect(chosen).not_to_have_text(first)
        await page.keyboard.press("Escape")
        await expect(page.locator("#palette")).to_be_hidden()


async def test_the_search_offers_nothing_that_is_refused(browser: Browser, site: Site) -> None:
    viewer = await site.user(Role.VIEWER)
    async with window(browser, site.url, whose=viewer) as context:
        page = await context.new_page()
        await page.goto("/")
        main = page.get_by_role("navigation", name="Main")
        await expect(main.locator('a[href="/queues"]')).to_have_count(1)
        for hidden in ("/explorer", "/audit", "/users", "/keys", "/settings"):
            await expect(main.locator(f'a[href="{hidden}"]')).to_have_count(0)
        await search(page, "")
        found = page.locator("#palette-found")
        await expect(found.locator('a[href="/lists"]')).to_be_visible(timeout=PATIENCE)
        for hidden in ("/messages/new", "/lists/new", "/explorer", "/users"):
            await expect(found.locator(f'a[href="{hidden}"]')).to_have_count(0)


async def test_shortcuts_of_single_keys_can_be_turned_off(browser: Browser, site: Site) -> None:
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/")
        await page.keyboard.press("g")
        await page.keyboard.press("l")
        await page.wait_for_url("**/lists")
        shortcuts = page.get_by_role("dialog", name="Keyboard shortcuts")
        await page.keyboard.press("?")
        await expect(shortcuts).to_be_visible()
        await shortcuts.get_by_label("Use single-key shortcuts").uncheck()
        await shortcuts.get_by_role("button", name="Close").click()
        await expect(shortcuts).to_be_hidden()
        await page.keyboard.press("?")
        await page.keyboard.press("Control+k")  # still works, after anything "?" could have opened
        await expect(page.locator("#palette")).to_be_visible()
        await expect(shortcuts).to_be_hidden()


async def test_messages_have_tabs_with_counts(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        await page.goto("/messages")
        tabs, rows = page.get_by_role("navigation", name="Messages by state"), page.locator("tbody")
        await expect(tabs.get_by_role("link")).to_have_text(
            ["Drafts 7", "Scheduled 2", "Sending 2", "Sent"]
        )
        await tabs.get_by_role("link", name="Scheduled").click()
        await expect(tabs.locator("[aria-current=page]")).to_have_text("Scheduled 2")
        await expect(rows.locator("tr")).to_have_count(2)  # the cancelled one is not listed
        await expect(rows).to_contain_text("For later")
        await expect(rows).to_contain_text("Not so fast")  # paused, and not due yet
        await tabs.get_by_role("link", name="Sending").click()
        await page.wait_for_url("**/messages/sending")
        await expect(rows).to_contain_text("Under way")
        await tabs.get_by_role("link", name="Sent").click()
        await page.wait_for_url("**/messages/sent")
        await expect(tabs.locator("[aria-current=page]")).to_have_text("Sent")
        await expect(rows).to_contain_text("What was & is done")


async def test_progress_is_live_while_a_filter_is_being_chosen(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    running = await site.services.messages.get(world.names["running"])
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        await page.goto("/messages/sending")
        row = page.locator("tbody tr", has_text="Under way")
        choice = page.get_by_label("List", exact=True)
        await expect(row).to_contain_text("4 of 61", timeout=PATIENCE)
        await choice.select_option(LIST)
        await choice.focus()
        await settle(site.services, running, 0, [EmailOutcome.ACCEPTED] * 2)
        await expect(row).to_contain_text("6 of 61", timeout=PATIENCE)
        await expect(choice).to_have_value(LIST)
        await expect(choice).to_be_focused()


async def test_an_email_is_readable_on_a_phone(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    for size, width in ((DESKTOP, "Desktop"), (PHONE, "Phone")):
        async with window(browser, site.url, size, world.admin) as context:
            page = await context.new_page()
            await page.goto(f"/messages/{world.names['done']}/preview")
            await expect(page.get_by_label(width)).to_be_checked()


async def test_the_current_tab_is_in_view_on_a_phone(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    async with window(browser, site.url, PHONE, world.admin) as context:
        page = await context.new_page()
        await page.goto(f"/lists/{LIST}/edit")
        await expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=0.9)


async def test_the_menu_of_a_message_is_on_the_screen_and_closes(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    for size in (DESKTOP, PHONE):
        async with window(browser, site.url, size, whose=world.admin) as context:
            page = await context.new_page()
            await page.goto(f"/messages/{world.names['done']}")
            more, menu = (
                page.locator("main summary").filter(has_text="More"),
                page.locator("main .menu"),
            )
            duplicate = menu.get_by_role("button", name="Duplicate")
            await more.click()
            box = await menu.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size[0]
            await page.keyboard.press("Escape")
            await expect(duplicate).to_be_hidden()
            await expect(more).to_be_focused()
            await more.click()
            await page.get_by_role("heading", level=1).click()
            await expect(duplicate).to_be_hidden()
            await more.click()
            await duplicate.click()
            await page.wait_for_url("**/edit")


async def test_a_placeholder_keeps_the_place_of_what_is_still_loading(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        is_asked, may_answer = asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            is_asked.set()
            await may_answer.wait()
            await route.continue_()

        await page.route("**/trace?*", hold)
        await page.goto(f"/lists/{LIST}/subscribers/{ANN}")
        await asyncio.wait_for(is_asked.wait(), PATIENCE / 1000)
        emails = page.locator("[hx-get^='/trace']").first
        await expect(emails.locator(".skeleton")).to_be_visible()
        await expect(emails.get_by_role("link", name="Show emails")).to_have_count(1)
        may_answer.set()
        await expect(emails.locator(".skeleton")).to_have_count(0)
        await expect(emails.locator(".timeline")).to_be_visible()


async def test_the_bar_of_selected_rows_stays_in_view_and_blocking_can_be_undone(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    for size in (DESKTOP, PHONE):
        async with window(browser, site.url, size, world.admin) as context:
            page = await context.new_page()
            await page.goto(f"/lists/{LIST}/subscribers?q=user0")
            bar = page.locator(".selection-bar")
            await expect(bar).to_be_hidden()
            for number in (1, 2, 3):  # user000 is suppressed
                await page.get_by_label(f"Select user00{number}@example.com").check()
            await expect(bar.locator("[data-count]")).to_have_text("3 selected")
            await expect(bar).to_be_in_viewport(ratio=0.9)  # although the table is longer
            await bar.get_by_role("button", name="Block", exact=True).click()
            toast = page.locator("#toast")
            await expect(toast).to_contain_text("3 subscribers blocked.", timeout=PATIENCE)
            assert (await site.services.subscriptions.get(LIST, "user001@example.com")).blocked
            await toast.get_by_role("button", name="Undo").click()
            await expect(toast).to_contain_text("3 subscribers unblocked.", timeout=PATIENCE)
            assert "q=user0" in page.url
            assert not (await site.services.subscriptions.get(LIST, "user001@example.com")).blocked
            await toast.get_by_role("button", name="Dismiss").click()
            await expect(toast).to_be_hidden()


async def test_breadcrumbs_lead_back_to_the_table_as_it_was(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    async with window(browser, site.url, SMALL_LAPTOP, world.admin) as context:
        page = await context.new_page()
        await page.goto(f"/lists/{LIST}/subscribers?q=user0&sort=-address")
        await page.get_by_role("link", name="user030@example.com").click()
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_have_text("user030@example.com", timeout=PATIENCE)
        # In the order of the table.
        await page.get_by_role("link", name="Next", exact=True).click()
        await expect(heading).to_have_text("user029@example.com", timeout=PATIENCE)
        await page.keyboard.press("k")
        await expect(heading).to_have_text("user030@example.com", timeout=PATIENCE)
        crumbs = page.get_by_role("navigation", name="Breadcrumb")
        await crumbs.get_by_role("link", name="Subscribers").click()
        await page.wait_for_url("**/subscribers?q=user0&sort=-address")
        await page.wait_for_function("() => window.scrollY > 200", timeout=PATIENCE)
        # And so does the browser's own Back.
        await page.get_by_role("link", name="user030@example.com").click()
        await expect(heading).to_have_text("user030@example.com", timeout=PATIENCE)
        await page.go_back()
        await page.wait_for_url("**/subscribers?q=user0&sort=-address")
        await page.wait_for_function("() => window.scrollY > 200", timeout=PATIENCE)


async def test_the_frame_fits_a_small_laptop_and_can_be_collapsed(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    async with window(browser, site.url, SMALL_LAPTOP, world.admin) as context:
        page = await context.new_page()
        await page.goto("/queues")
        sidebar = page.locator(".sidebar")
        await sidebar.get_by_text("Settings", exact=True).click()
        for part in (
            sidebar.get_by_role("link", name="All settings"),
            sidebar.get_by_role("link", name="Search"),
            sidebar.get_by_role("button", name="Account of"),
        ):
            await expect(part).to_be_in_viewport(ratio=0.9)
        width = "() => document.querySelector('.sidebar').getBoundingClientRect().width"
        assert await page.evaluate(width) == 224
        await sidebar.hover()
        await sidebar.get_by_role("button", name="Collapse the sidebar").click()
        await page.reload()
        assert await page.evaluate(width) == 60
        await expect(sidebar.get_by_role("link", name="Messages")).to_be_visible()
        await sidebar.get_by_role("button", name="Expand the sidebar").click()
        assert await page.evaluate(width) == 224


async def test_the_outbox_shows_an_email_next_to_the_list(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    form = {"list": LIST, "subject": "Another", "body": "<p>Another</p>", "test_to": ANN}
    assert (await world.admin.post("/messages/test", form)).status_code == 200
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        await page.goto("/outbox")
        reading, rows = page.locator("#reading"), page.locator(".reader-list tbody tr")
        subjects = await rows.locator("td.subject").all_inner_texts()
        assert len(subjects) == 2
        heading = reading.get_by_role("heading", level=2)
        await expect(heading).to_have_text(subjects[0], timeout=PATIENCE)
        await page.keyboard.press("ArrowDown")
        await expect(heading).to_have_text(subjects[1], timeout=PATIENCE)
        await expect(page).to_have_url(re.compile("open="), timeout=PATIENCE)
        await reading.get_by_role("tab", name="Source").click()
        await reading.get_by_role("button", name="Previous email").click()
        await expect(heading).to_have_text(subjects[0], timeout=PATIENCE)
        await expect(reading.get_by_role("button", name="Previous email")).to_be_disabled()
        await expect(reading.get_by_label("Source", exact=True).last).to_be_visible()
        await page.keyboard.press("Tab")
        await reading.get_by_role("tab", name="Source").press("ArrowRight")
        await expect(reading.locator("iframe")).to_be_visible()
        # Deleted, the next one is shown; restored, the first one again.
        await reading.get_by_role("button", name="Delete").click()
        await expect(heading).to_have_text(subjects[1], timeout=PATIENCE)
        await expect(rows).to_have_count(1)
        await page.get_by_role("button", name="Undo").click()
        await expect(rows).to_have_count(2, timeout=PATIENCE)
        await page.goto("/outbox")
        await expect(heading).to_have_text(subjects[0], timeout=PATIENCE)
        await reading.get_by_role("link", name="Open").click()
        await page.wait_for_url("**/outbox/*")
        await expect(page.get_by_role("heading", level=1)).to_have_text(subjects[0])
        # On a phone, an email is a page.
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await page.goto("/outbox")
        await expect(reading).to_be_hidden()
        await rows.first.get_by_role("link").click()
        await page.wait_for_url("**/outbox/*")
        await page.go_back()
        await rows.first.get_by_role("checkbox").check()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await expect(rows).to_have_count(1, timeout=PATIENCE)


async def test_the_first_field_has_the_focus(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        for address, field in (
            ("/lists/new", "name"),
            (f"/lists/{LIST}/subscribers/add", "email"),
            ("/messages/new", "subject"),
            ("/trace", "email"),
        ):
            await page.goto(address)
            await expect(page.locator(f"#{field}")).to_be_focused(timeout=PATIENCE)
        await page.goto(f"/lists/{LIST}/subscribers/{ANN}")
        await expect(page.locator("body")).to_be_focused()  # looked at, not filled in
    async with window(browser, site.url) as context:
        page = await context.new_page()
        await page.goto("/login")
        await expect(page.locator("#email")).to_be_focused(timeout=PATIENCE)
        assert re.search(r"/login$", page.url)
