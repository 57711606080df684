"""What only somebody at a browser sees: two windows, a phone, a keyboard, a role."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.async_api import Browser, Page, Route, expect

from postroom.domain.messages.emails import EmailOutcome
from postroom.scheduler.completion import Completion
from postroom.services.accounts.users import Role
from postroom.web.app import VIEWS
from postroom.web.rendering.templating import FOLDER
from tests.browser.support.chromium import PATIENCE, PHONE, window
from tests.browser.support.editing import use_html
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.site import PASSWORD, Site
from tests.web.world import BLOCKED, LIST, NOT_YET, World, furnished, shown_pages

pytestmark = pytest.mark.timeout(600)  # a limit for what hangs, not for a slow machine


# -- two windows ----------------------------------------------------------------------------------


async def test_two_windows_that_edit_the_same_lose_nothing_that_was_typed(
    browser: Browser, site: Site
) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    ann, bob = await site.user(), await site.user(Role.EDITOR)
    async with (
        window(browser, site.url, whose=ann) as first,
        window(browser, site.url, whose=bob) as second,
    ):
        hers, his = await first.new_page(), await second.new_page()
        for page in (hers, his):
            await page.goto("/lists/news/edit")
        await save(hers, "Her words", "hers@example.com")
        await expect(hers.get_by_role("status")).to_have_text("Saved.", timeout=PATIENCE)

        await save(his, "His <words>", "news@example.com")
        conflict = his.get_by_role("alert")
        await expect(conflict).to_contain_text("Someone else saved changes first", timeout=PATIENCE)
        rows = [await row.all_inner_texts() for row in await conflict.locator("tbody tr").all()]
        cells = [re.split(r"\s*[\t\n]+\s*", text.strip()) for [text] in rows]
        assert cells == [
            ["Description", "His <words>", "Her words"],
            ["From address", "news@example.com", "hers@example.com"],
        ]
        await expect(his.get_by_label("Description")).to_have_value("His <words>")
        found = await site.services.lists.get("news")
        assert (found.description, found.from_address) == ("Her words", "hers@example.com")

        # He has seen hers: his next save counts.
        await his.get_by_role("button", name="Save").click()
        await expect(his.get_by_role("status")).to_have_text("Saved.", timeout=PATIENCE)
        assert (await site.services.lists.get("news")).description == "His <words>"


async def save(page: Page, description: str, sender: str) -> None:
    await page.get_by_label("Description").fill(description)
    await page.get_by_label("From address").fill(sender)
    await page.get_by_role("button", name="Save").click()


# -- a page that reloads itself ------------------------------------------------------------------


async def test_a_notice_stays_while_the_message_is_sent(browser: Browser, site: Site) -> None:
    services = site.services
    await services.lists.create("news", "News", "news@example.com")
    await services.subscriptions.add("news", "ann@example.com", verified=True)
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.route("**/flash.js*", show_for_a_day)
        await page.goto("/messages/new?list=news")
        await page.get_by_label("Subject", exact=True).fill("Hello")
        await (await use_html(page)).fill("<p>Hello</p>")
        await page.get_by_label("Now", exact=True).check()
        await page.get_by_role("button", name="Send now").click()
        await page.get_by_role("button", name="Send now to 1 subscriber").click()
        said, headline = page.locator("#toast"), page.locator("p.headline")
        await expect(said).to_contain_text("Sending started.", timeout=PATIENCE)
        message = await fan_out_whole(services.store, page.url.rpartition("/")[2])
        await expect(headline).to_contain_text("Sending", timeout=PATIENCE)
        await expect(said).to_contain_text("Sending started.", timeout=PATIENCE)
        await settle(services, message, 0, [EmailOutcome.ACCEPTED])
        done = Completion(services)
        assert await done.check(message)
        await expect(headline).to_contain_text("Sent", timeout=PATIENCE)
        await expect(said).to_contain_text("Sending started.", timeout=PATIENCE)
        await page.reload()
        await expect(headline).to_contain_text("Sent", timeout=PATIENCE)
        await expect(said).to_be_hidden()


async def show_for_a_day(route: Route) -> None:
    """A notice is shown for a while only: on a slow machine, too, that while must not be over.

    The clock goes on: the forms of the same pages wait for timers.
    """
    script = (FOLDER / "static/flash.js").read_text()
    longer = script.replace("SECONDS = 20;", "SECONDS = 86_400;")
    assert longer != script
    await route.fulfill(body=longer, content_type="text/javascript")


# -- a form that is left, and a server that is gone ----------------------------------------------


async def test_a_message_half_written_is_found_among_the_drafts(
    browser: Browser, site: Site
) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/messages/new")
        date = page.get_by_label("Date")
        button = page.locator(".message-form .actions button.primary")
        await expect(date).to_be_hidden(timeout=PATIENCE)
        await expect(button).to_have_text(re.compile("^Send now"), use_inner_text=True)
        await page.get_by_label("Later").check()
        await expect(date).to_be_visible(timeout=PATIENCE)
        await expect(button).to_have_text("Schedule…", use_inner_text=True)
        await page.get_by_label("Now", exact=True).check()
        await page.get_by_label("Subject", exact=True).fill("Half a thought")
        await expect(page.locator("#save-state")).to_have_text("Saved", timeout=PATIENCE)
        await page.get_by_role("link", name="Lists", exact=True).click()
        await page.goto("/messages/drafts")
        await page.get_by_role("link", name="Half a thought").click()
        await (await use_html(page)).fill("<p>Hi</p>")
        # To send it saves it first, and the way back leads to the same draft.
        await button.click()
        await page.get_by_role("link", name="Back to editing").click()
        await expect(page.get_by_label("Subject", exact=True)).to_have_value(
            "Half a thought", timeout=PATIENCE
        )
        await expect(page.get_by_label("Message (HTML)")).to_have_text("<p>Hi</p>")


async def until(page: Page, is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        await page.wait_for_timeout(100)
    raise TimeoutError("not within a minute")


async def test_a_page_says_since_when_its_figures_are_old(browser: Browser, site: Site) -> None:
    viewer = await site.user(Role.VIEWER)
    async with window(browser, site.url, whose=viewer) as context:
        page = await context.new_page()
        await page.goto("/")
        note = page.locator("#no-connection")
        await expect(note).to_be_hidden()
        for broken in ("gone", "faulty"):
            await page.route("**/home/*", lambda route, how=broken: fail(route, how))
            await expect(note).to_have_text(
                re.compile(r"^Connection lost at \d\d:\d\d"), timeout=PATIENCE
            )
            await expect(page.get_by_text("All systems normal")).to_be_visible()  # but not as new
            assert "out-of-date" in (await page.locator("body").get_attribute("class") or "")
            await page.unroute("**/home/*")
            await expect(note).to_be_hidden(timeout=PATIENCE)


async def fail(route: Route, how: str) -> None:
    if how == "gone":
        await route.abort()
    else:
        await route.fulfill(status=503, body="<h1>The store cannot be reached</h1>")


# -- a phone --------------------------------------------------------------------------------------


async def test_the_bar_at_the_bottom_leads_everywhere_on_a_phone(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    async with window(browser, site.url, PHONE, world.admin) as phone:
        page = await phone.new_page()
        await page.goto("/")
        bar = page.get_by_role("navigation", name="Bottom")
        await bar.get_by_role("link", name="Lists").click()
        await page.wait_for_url("**/lists")
        await bar.get_by_role("link", name="New message").click()
        await page.wait_for_url("**/messages/new")
        queues = page.get_by_role("link", name="Queues")
        await expect(queues).to_have_count(0)  # hidden from everybody, not only from the eye
        await bar.get_by_role("button", name="More").click()
        await queues.click()
        await page.wait_for_url("**/queues")
        # A table's cells lie in the window: none has to be guessed.
        await page.goto(f"/lists/{LIST}/subscribers")
        for cell in (await page.locator("tbody tr").first.locator("td").all())[:4]:
            box = await cell.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE[0]


# -- a keyboard -----------------------------------------------------------------------------------


async def test_logging_in_and_creating_a_list_works_with_the_keyboard(
    browser: Browser, site: Site
) -> None:
    user = await site.user()
    assert user.user is not None
    async with window(browser, site.url) as context:
        page = await context.new_page()
        await page.goto("/login")
        await tab_to(page, "email")
        await page.keyboard.type(user.user.email)
        await tab_to(page, "password")
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await expect(page.locator("nav[aria-label=Main]")).to_be_visible(timeout=PATIENCE)

        # Past the navigation in one step.
        await page.keyboard.press("Tab")
        assert await focused(page) == "Skip to content"
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/#main")
        await page.goto("/lists")
        await tab_to(page, "Create list")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/lists/new")
        for field, text in (
            ("name", "by-keyboard"),
            ("description", "Made by keyboard"),
            ("from_address", "keys@example.com"),
        ):
            await tab_to(page, field)
            await page.keyboard.type(text)
        await tab_to(page, "Create list")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/lists/by-keyboard")
        assert (await site.services.lists.get("by-keyboard")).description == "Made by keyboard"


async def test_an_index_is_sorted_by_keyboard_and_on_a_phone(browser: Browser, site: Site) -> None:
    world = await furnished(site)
    async with window(browser, site.url, whose=world.admin) as context:
        page = await context.new_page()
        await page.goto(f"/lists/{LIST}/subscribers")
        await tab_to(page, "State")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**?sort=state")
        state = page.get_by_role("columnheader", name="State")
        await expect(state).to_have_attribute("aria-sort", "ascending", timeout=PATIENCE)
        await expect(page.locator("tbody tr").first).to_contain_text(BLOCKED)
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await page.get_by_text("Sort: State").click()
        await page.get_by_role("link", name="State").click()
        await page.wait_for_url("**?sort=-state")
        await expect(page.locator("tbody tr").first).to_contain_text(NOT_YET)


async def tab_to(page: Page, what: str) -> None:
    """Press Tab until this field, link or button has the focus; each one on the way shows it."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        where = await focused(page)
        if where != "BODY":
            assert await shows_focus(page), f"{where} does not show that it has the focus"
        if where == what:
            return
    raise AssertionError(f"{what} cannot be reached with Tab")


async def focused(page: Page) -> str:
    name: str = await page.evaluate(
        """() => {
          const on = document.activeElement;
          return on.name || (on === document.body ? "BODY" : on.textContent.trim());
        }"""
    )
    return name


async def shows_focus(page: Page) -> bool:
    """Whether it looks different from the same thing without the focus."""
    differs: bool = await page.evaluate(
        """() => {
          const on = document.activeElement, names = ["outlineStyle", "outlineWidth", "boxShadow",
            "backgroundColor", "borderTopColor", "textDecorationLine", "transform", "top"];
          const look = () => names.map((name) => getComputedStyle(on)[name]).join("|");
          const focused = look();
          on.blur();
          const blurred = look();
          on.focus({ focusVisible: true });
          return focused !== blurred;
        }"""
    )
    return differs


# -- roles ----------------------------------------------------------------------------------------


async def test_a_viewer_logs_in_and_is_offered_nothing_that_is_refused(
    browser: Browser, site: Site
) -> None:
    world = await furnished(site)
    async with window(browser, site.url) as context:
        page = await context.new_page()
        await page.goto("/lists/new")  # asked for before the login, and refused after it
        await page.get_by_label("Email address").fill(world.names["viewer"])
        await page.get_by_label("Password").fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).to_contain_text(
            "Wrong email or password", timeout=PATIENCE
        )
        await page.get_by_label("Password").fill(PASSWORD)
        async with page.expect_response(lambda answer: answer.url.endswith("/lists/new")) as got:
            await page.get_by_role("button", name="Log in").click()
        assert (await got.value).status == 403
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            "Permission denied", timeout=PATIENCE
        )
        refused, offered = [], 0
        for address in seen_by_viewers(world):
            found = await page.evaluate(_OFFERED, address)
            refused += [f"{address}: {' '.join(each)}" for each in found if is_refused(*each)]
            offered += len(found)
        assert refused == []
        assert offered > 1000, "the pages are not read any more"
        await page.get_by_role("button", name="Account of").click()
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url("**/login")
        await page.goto("/lists")
        assert "/login?next=/lists" in page.url


# What the server offers on a page. It is read and not shown: that takes a tenth of the time.
_OFFERED = """async (address) => {
  const answer = await fetch(address);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const here = (text) => new URL(text, answer.url);
  const own = (url) => url.origin === location.origin;
  const links = [...page.querySelectorAll("a[href]")].map((each) => [
    "GET", here(each.getAttribute("href"))
  ]);
  const forms = [...page.forms].map((each) => [
    each.method.toUpperCase(), here(each.getAttribute("action") || answer.url)
  ]);
  const all = [...links, ...forms].filter(([, url]) => own(url));
  return all.map(([how, url]) => [how, url.pathname]);
}"""


def seen_by_viewers(world: World) -> list[str]:
    """An example of each page that a viewer may see."""
    free = {p.path for p in VIEWS if "GET" in p.methods and p.role is Role.VIEWER}
    return [address for path in shown_pages() if path in free for address in world.addresses(path)]


def is_refused(method: str, path: str) -> bool:
    """Whether the first route that answers this is for editors or administrators only."""
    for page in VIEWS:
        pattern = re.sub(r"\\{\w+:path\\}", ".+", re.escape(page.path))
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", pattern)
        if method in page.methods and re.fullmatch(pattern, path):
            return page.role in (Role.EDITOR, Role.ADMINISTRATOR)
    return False
