"""The visual editor in a real browser: with a mouse, with a keyboard, and with hostile content."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from playwright.async_api import Browser, Page, Request, Route, expect

from postroom.domain.messages.messages import MessageFormat
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from tests.browser.support.chromium import PATIENCE, PHONE, window
from tests.browser.support.editing import (
    add_block,
    add_to_column,
    blocks_on,
    canvas,
    document_of,
    open_editor,
    saved,
)
from tests.browser.support.looking import Looker
from tests.services.pictures import picture
from tests.web.site import Site, Visitor

pytestmark = pytest.mark.timeout(300)
BLOCKS = [
    {"type": "heading", "text": "Winter", "level": 2},
    {"type": "text", "html": "<p>Hello</p>"},
    {"type": "button", "text": "Shop", "link": "https://www.example.com"},
]


@pytest.fixture
async def writer(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@example.com")
    return await site.user(Role.WRITER)


async def drafted(site: Site, blocks: Sequence[object], template: str = "") -> str:
    """Return where a draft with these blocks is edited."""
    change = ContentChange(
        list_name="news",
        subject="Winter",
        format=MessageFormat.BLOCKS,
        body=json.dumps({"version": 1, "blocks": blocks}),
        text="",
        template=template,
    )
    made = await site.services.composing.create(change, "writer@example.org")
    return f"/messages/{made.ref}/edit"


async def stored(site: Site) -> list[dict[str, object]]:
    [draft] = await site.services.times.drafts(limit=5)
    body = (await site.services.composing.read(draft.ref))[1].body
    found: list[dict[str, object]] = json.loads(body)["blocks"]
    return found


async def test_text_is_written_on_the_canvas_and_formatted(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, "/messages/new")
        await add_block(page, "Heading")
        heading = canvas(page).get_by_role("textbox", name="Heading")
        await expect(heading).to_be_focused(timeout=PATIENCE)
        await heading.fill("Winter is coming")
        await page.keyboard.press("Enter")  # goes on with a text
        text = canvas(page).get_by_role("textbox", name="Text")
        await expect(text).to_be_focused(timeout=PATIENCE)
        await page.keyboard.type("Dear ")  # replaces the example
        await page.get_by_text("Merge field", exact=True).click()
        await page.get_by_role("button", name="Email address").click()
        await page.keyboard.type(", it is ")
        await page.get_by_role("button", name="Bold").click()
        await page.keyboard.type("cold")
        await saved(page)
        first, second = await stored(site)
        assert first["text"] == "Winter is coming"
        assert second["html"] == "<p>Dear {{ email }}, it is <b>cold</b></p>"
        await page.get_by_label("Show only if").fill('language = "de"')
        marked = canvas(page).locator("[data-condition]")
        await expect(marked).to_have_attribute("data-condition", 'language = "de"')
        await saved(page)
        assert (await stored(site))[1]["condition"] == 'language = "de"'
        await text.click()
        await page.keyboard.press("ControlOrMeta+a")
        await page.get_by_role("button", name="Link", exact=True).click()
        await page.get_by_label("Web address").fill("www.example.com")
        await page.get_by_role("button", name="Apply").click()
        await expect(text.locator("a").first).to_have_attribute("href", "https://www.example.com")
        await page.get_by_role("button", name="Bullets").click()
        await saved(page)
        html = str((await stored(site))[1]["html"])
        assert html.startswith("<ul><li>")
        assert "https://www.example.com" in html
        frame = page.frame_locator("iframe.preview")
        await expect(frame.get_by_text("Winter is coming")).to_be_visible(timeout=PATIENCE)


async def test_an_empty_message_offers_to_start_and_keeps_the_cursor_while_the_page_changes(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, "/messages/new")
        await page.get_by_role("button", name="Start writing").click()
        text = canvas(page).get_by_role("textbox", name="Text")
        await expect(text).to_be_focused(timeout=PATIENCE)
        await page.keyboard.type("Dear reader")
        await page.keyboard.press("ArrowLeft")
        await page.evaluate("""() => {
          document.getElementById("audience").dataset.before = "";
          document.getElementById("list").dispatchEvent(new Event("input", { bubbles: true }));
        }""")
        await expect(page.locator("#audience[data-before]")).to_have_count(0, timeout=PATIENCE)
        await expect(text).to_be_focused()
        await page.keyboard.type("?!")
        await expect(text).to_have_text("Dear reade?!r")
        await expect(page.get_by_role("button", name="Start writing")).to_be_hidden()
        await page.locator("#template").select_option("newsletter")
        await canvas(page).get_by_text("Title", exact=True).click()
        title = page.locator("#block-panel").get_by_label("Title")
        await expect(title).to_be_focused(timeout=PATIENCE)
        await page.keyboard.type("Winter")
        await canvas(page).get_by_text("Winter", exact=True).click()
        await expect(title).to_be_focused(timeout=PATIENCE)


async def test_everything_works_with_the_keyboard(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        await blocks_on(page).first.focus()
        await page.keyboard.press("Alt+ArrowDown")
        await until_kinds(page, ["text", "heading", "button"])
        moved = blocks_on(page).nth(1).get_by_role("textbox", name="Heading")
        await expect(moved).to_be_focused(timeout=PATIENCE)  # once it is drawn again
        await page.keyboard.press("Escape")  # from the text to its block
        await page.keyboard.press("ArrowDown")
        button = canvas(page).get_by_role("group", name="Button: Shop")
        await expect(button).to_be_focused(timeout=PATIENCE)
        await page.keyboard.press("ControlOrMeta+d")
        await until_kinds(page, ["text", "heading", "button", "button"])
        await expect(blocks_on(page).nth(3)).to_be_focused(timeout=PATIENCE)
        await page.keyboard.press("Delete")
        await until_kinds(page, ["text", "heading", "button"])
        await page.keyboard.press("ControlOrMeta+z")
        await until_kinds(page, ["text", "heading", "button", "button"])
        await page.keyboard.press("ControlOrMeta+Shift+z")
        await until_kinds(page, ["text", "heading", "button"])
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        await blocks_on(page).nth(2).focus()
        await page.keyboard.press("/")
        dialog = page.get_by_role("dialog", name="Insert block")
        await expect(dialog.get_by_label("Find")).to_be_focused(timeout=PATIENCE)
        await page.keyboard.type("quo")
        await page.keyboard.press("Enter")
        await until_kinds(page, ["text", "heading", "button", "quote"])
        await expect(blocks_on(page).nth(3)).to_be_focused(timeout=PATIENCE)
        await page.keyboard.press("Enter")  # to its properties
        field = page.locator("#block-panel").get_by_label("Text")
        await expect(field).to_be_focused(timeout=PATIENCE)
        await page.keyboard.press("ControlOrMeta+a")
        await page.keyboard.type("To be")
        await expect(canvas(page).get_by_text("To be")).to_be_visible(timeout=PATIENCE)
        await saved(page)
        assert [each["type"] for each in await stored(site)] == [
            "text", "heading", "button", "quote",
        ]  # fmt: skip


async def test_a_block_is_moved_into_columns_and_out_by_keyboard(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    quote = {"type": "quote", "text": "To be"}
    columns = {"type": "columns", "columns": [[{"type": "divider"}], []]}
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, [quote, columns]))
        into = page.get_by_role("button", name="Move into columns")
        shown = canvas(page).get_by_role("group", name="Quote")
        await shown.focus()
        await expect(into).to_be_visible(timeout=PATIENCE)
        await page.keyboard.press("Alt+Shift+ArrowUp")
        await expect(page.locator("#block-status")).to_have_text("No columns above")
        await page.keyboard.press("Alt+Shift+ArrowDown")
        await until_kinds(page, ["columns"])
        assert (await document_of(page))["blocks"][0]["columns"] == [
            [quote, {"type": "divider"}],
            [],
        ]
        await expect(shown).to_be_focused(timeout=PATIENCE)
        await expect(into).to_be_hidden()
        await page.keyboard.press("Alt+ArrowDown")
        await page.keyboard.press("Alt+ArrowDown")
        assert (await document_of(page))["blocks"][0]["columns"] == [[{"type": "divider"}], [quote]]
        await page.keyboard.press("Alt+ArrowDown")
        await until_kinds(page, ["columns", "quote"])
        await expect(into).to_be_visible(timeout=PATIENCE)
        await into.press("Enter")
        await until_kinds(page, ["columns"])
        assert (await document_of(page))["blocks"][0]["columns"] == [[{"type": "divider"}], [quote]]
        await saved(page)


async def until_kinds(page: Page, expected: list[str]) -> None:
    await page.wait_for_function(
        "(wanted) => JSON.stringify((JSON.parse(document.getElementById('body').value || '{}')"
        ".blocks ?? []).map((each) => each.type)) === wanted",
        arg=json.dumps(expected, separators=(",", ":")),
    )


async def test_typing_changes_the_block_that_is_shown_when_the_canvas_cannot_follow(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    first = {"type": "text", "html": "<p>Dear {{ first_name }}</p>"}
    second = {"type": "text", "html": "<p>Second</p>"}
    button = {"type": "button", "text": "Shop", "link": "https://www.example.com"}
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, [button, first, second]))
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        problems = page.locator("#block-problems")
        await expect(problems).to_contain_text("{{ first_name }} may be empty", timeout=PATIENCE)
        await page.route("**/messages/compile", lambda route: route.abort())
        text = canvas(page).get_by_role("textbox", name="Text").filter(has_text="Second")
        await text.focus()
        for _ in range(2):
            await page.keyboard.press("Alt+ArrowUp")
        await expect(problems).to_contain_text("cannot be shown", timeout=PATIENCE)
        await page.keyboard.press("End")
        await page.keyboard.type("!")
        second["html"] = "<p>Second!</p>"
        assert (await document_of(page))["blocks"] == [second, button, first]
        await canvas(page).get_by_role("group", name="Button: Shop").focus()
        await page.keyboard.press("Delete")
        assert (await document_of(page))["blocks"] == [second, first]
        await expect(page.locator("#panel-title")).to_have_text("Text")
        await page.unroute("**/messages/compile")
        await text.focus()
        await page.keyboard.press("Alt+ArrowDown")
        await expect(blocks_on(page)).to_have_text(
            ["Dear {{ first_name }}", "Second!"], timeout=PATIENCE
        )
        await saved(page)
        assert await stored(site) == [first, second]


async def test_text_typed_while_the_canvas_is_compiled_is_kept(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    may_answer = asyncio.Event()
    may_answer.set()

    async def answer(route: Route) -> None:
        await asyncio.wait_for(may_answer.wait(), PATIENCE / 1000)
        await route.continue_()

    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        await page.route("**/messages/compile", answer)
        heading = canvas(page).get_by_role("textbox", name="Heading")
        expected = "Winter"
        for key, letters, count in (
            ("Enter", " is", 4),
            ("ControlOrMeta+z", " coming", 4),
            ("ControlOrMeta+d", " soon", 5),
        ):
            if key.endswith("z"):
                await add_block(page, "Divider")
            await heading.focus()
            await page.keyboard.press("End")
            may_answer.clear()
            await page.keyboard.press(key)
            await page.keyboard.type(letters)
            may_answer.set()
            expected += letters
            await expect(blocks_on(page)).to_have_count(count, timeout=PATIENCE)
            await expect(heading.first).to_have_text(expected)
            assert (await document_of(page))["blocks"][0]["text"] == expected
        await heading.first.focus()
        await page.keyboard.press("End")
        await page.keyboard.type("!")
        await saved(page)
        assert [each["text"] for each in await stored(site) if each["type"] == "heading"] == [
            "Winter is coming soon!", "Winter is coming",
        ]  # fmt: skip


async def test_blocks_are_dragged_also_into_columns(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        await canvas(page).get_by_text("Shop").click()
        handle = page.get_by_role("button", name="Drag to move")
        heading = canvas(page).get_by_text("Winter").first
        await handle.drag_to(heading, target_position={"x": 5, "y": 2})
        await until_kinds(page, ["button", "heading", "text"])
        await expect(blocks_on(page).first).to_have_attribute("aria-label", "Button: Shop")
        palette = page.locator("#block-palette")
        await palette.get_by_role("button", name="2 columns").drag_to(
            canvas(page).get_by_text("Hello")
        )
        await page.wait_for_function(
            "() => document.getElementById('body').value.includes('columns')"
        )
        await add_to_column(page, 1, "Text")
        await expect(blocks_on(page)).to_have_count(5, timeout=PATIENCE)
        column = canvas(page).get_by_role("button", name="Add block to column 2")
        await palette.get_by_role("button", name="Divider").drag_to(column)
        await expect(blocks_on(page)).to_have_count(6, timeout=PATIENCE)
        found = (await document_of(page))["blocks"]
        [columns] = [each for each in found if each["type"] == "columns"]
        assert [[each["type"] for each in column] for column in columns["columns"]] == [
            ["text"], ["divider"],
        ]  # fmt: skip


async def test_a_picture_is_dropped_pasted_and_described(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        for event, count in (("drop", 4), ("paste", 5)):
            await page.evaluate(_SEND_PICTURE, [event, list(picture(size=(80 + count, 60)))])
            await expect(blocks_on(page)).to_have_count(count, timeout=PATIENCE)
            alt = page.locator("#block-panel").get_by_label("Alt text")
            await alt.fill(f"Snow, by {event}")
        await saved(page)
        pictures = [each for each in await stored(site) if each["type"] == "picture"]
        assert {each["alt"] for each in pictures} == {"Snow, by drop", "Snow, by paste"}
        assert all(
            str(each["src"]).startswith(f"{site.context.base_url}/media/") for each in pictures
        )
        # What only pretends to be a picture is refused, and says so.
        await page.evaluate(
            _SEND_PICTURE, ["paste", list(b"<svg xmlns='http://www.w3.org/2000/svg'/>")]
        )
        await expect(page.locator("#block-problems")).to_contain_text("file.png", timeout=PATIENCE)


_SEND_PICTURE = """([type, bytes]) => {
  const doc = document.getElementById("canvas").contentDocument, transfer = new DataTransfer();
  transfer.items.add(new File([new Uint8Array(bytes)], "file.png", { type: "image/png" }));
  const target = doc.querySelector("[data-place]"), at = target.getBoundingClientRect();
  const more = { bubbles: true, cancelable: true, clientX: at.left + 5, clientY: at.bottom - 1 };
  target.dispatchEvent(type === "drop" ? new DragEvent("drop", { ...more, dataTransfer: transfer })
    : new ClipboardEvent("paste", { ...more, clipboardData: transfer }));
}"""


async def test_on_a_phone_blocks_and_properties_are_sheets(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, PHONE, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        box = await page.locator("#canvas").bounding_box()
        assert box is not None
        assert box["width"] >= PHONE[0] - 2
        await page.get_by_role("button", name="Add block").click()
        sheet = page.locator("#block-palette")
        await expect(sheet).to_be_visible()
        await sheet.get_by_role("button", name="Button", exact=True).click()
        await expect(sheet).to_be_hidden()
        await expect(blocks_on(page)).to_have_count(4, timeout=PATIENCE)
        await page.locator(".phone-bar").get_by_role("button", name="Properties").click()
        panel = page.locator("#block-panel")
        await panel.get_by_label("Text").fill("Come in")
        await expect(canvas(page).get_by_text("Come in")).to_be_visible(timeout=PATIENCE)
        await page.keyboard.press("Escape")
        await expect(panel).to_be_hidden()


HOSTILE = (
    "<p>Hi</p><script>window.parent.pwned = 1</script><img src=x onerror='window.parent.pwned = 1'>"
    "<svg onload='window.parent.pwned = 1'></svg>"
    "<a href='javascript:window.parent.pwned = 1'>go</a>"
    "<img src='http://127.0.0.1:9/a.png'><img src='http://localhost:9/b.png'>"
    "<p style=\"background: url('http://127.0.0.1:9/c.png')\">x</p><iframe src='/'></iframe>"
)


@pytest.mark.parametrize("format", [MessageFormat.BLOCKS, MessageFormat.HTML])
async def test_hostile_content_is_neither_run_nor_fetched(
    browser: Browser, site: Site, writer: Visitor, format: MessageFormat
) -> None:
    blocks = [
        {"type": "html", "html": HOSTILE},
        {"type": "text", "html": HOSTILE},
        {"type": "picture", "src": "http://127.0.0.1:9/d.png", "alt": "x"},
    ]
    where = await drafted(site, blocks)
    if format is MessageFormat.HTML:
        [draft] = await site.services.times.drafts(limit=1)
        change = ContentChange(format=format, body=HOSTILE, text="")
        await site.services.composing.save(draft.ref, change, "writer@example.org")
    fetched: list[str] = []

    def note(request: Request) -> None:
        fetched.append(request.url)

    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        page.on("requestfinished", note)
        page.on(
            "requestfailed",
            lambda request: note(request) if "csp" not in str(request.failure) else None,
        )
        await page.goto(where)
        frame = page.frame_locator("iframe.preview")
        await expect(frame.get_by_text("Hi").first).to_be_visible(timeout=PATIENCE)
        if format is MessageFormat.BLOCKS:
            await expect(canvas(page).get_by_text("Hi").first).to_be_visible(timeout=PATIENCE)
            await canvas(page).get_by_text("go").first.click()
        await page.get_by_label("Subject", exact=True).fill("Still here")
        await saved(page)
        assert await page.evaluate("() => window.pwned") is None
        assert page.url.endswith(where)
    foreign = [each for each in fetched if ":9/" in each]
    assert foreign == []


async def test_after_undo_typing_continues_in_what_is_shown(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    """Even if the server takes long: what was undone does not come back with the next letter."""
    reply = asyncio.Event()

    async def wait(route: Route) -> None:
        await asyncio.wait_for(reply.wait(), PATIENCE / 1000)
        await route.continue_()

    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        text = canvas(page).get_by_role("textbox", name="Text")
        await text.click()
        await page.keyboard.press("ControlOrMeta+a")
        await page.keyboard.press("ArrowRight")
        await page.keyboard.type("abc")
        await expect(text).to_have_text("Helloabc")
        await page.route("**/messages/compile", wait)
        await page.keyboard.press("ControlOrMeta+z")
        await expect(text).to_have_text("Hello")
        await page.keyboard.type("xyz")
        await expect(text).to_have_text("Helloxyz")
        async with page.expect_response("**/messages/compile"):
            reply.set()
        await page.keyboard.type("!")
        await expect(text).to_have_text("Helloxyz!")
        await page.keyboard.press("ControlOrMeta+z")
        await expect(text).to_have_text("Hello")
        await page.keyboard.press("ControlOrMeta+Shift+z")
        await expect(text).to_have_text("Helloxyz!")
        await page.keyboard.type("?")
        await saved(page)
        assert (await stored(site))[1]["html"] == "<p>Helloxyz!?</p>"


async def test_a_dialog_keeps_the_focus_when_the_canvas_is_shown_late(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    reply = asyncio.Event()

    async def wait(route: Route) -> None:
        await asyncio.wait_for(reply.wait(), PATIENCE / 1000)
        await route.continue_()

    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await open_editor(page, await drafted(site, BLOCKS))
        await blocks_on(page).first.focus()
        await page.route("**/messages/compile", wait)
        await page.keyboard.press("Alt+ArrowDown")
        await page.keyboard.press("/")
        find = page.get_by_role("dialog", name="Insert block").get_by_label("Find")
        await expect(find).to_be_focused(timeout=PATIENCE)
        async with page.expect_response("**/messages/compile") as late:
            reply.set()
        await (await late.value).finished()
        first = blocks_on(page).first
        await expect(first).to_have_attribute("aria-label", "Text: Hello", timeout=PATIENCE)
        await page.keyboard.type("quo")
        await expect(find).to_have_value("quo")
        await page.keyboard.press("Enter")
        await until_kinds(page, ["text", "heading", "quote", "button"])


async def test_the_editor_is_accessible(browser: Browser, site: Site, writer: Visitor) -> None:
    """With a block selected, and with each dialog open."""
    async with window(browser, site.url, whose=writer) as context:
        looker = await Looker.open(await context.new_page(), site.url, set())
        page = looker.page
        response = await page.goto(await drafted(site, BLOCKS, "newsletter"))
        assert response is not None
        await expect(blocks_on(page)).to_have_count(3, timeout=PATIENCE)
        await canvas(page).get_by_text("Shop").click()
        looker.begin()
        assert await looker.examine(response) == []
        await canvas(page).get_by_text("Shop").press("/")
        assert await looker.examine(response) == []
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Browse templates").click()
        assert await looker.examine(response) == []
        await page.keyboard.press("Escape")
        await add_block(page, "Picture")
        await page.get_by_role("button", name="Choose picture").click()
        await expect(page.get_by_text("No pictures yet")).to_be_visible(timeout=PATIENCE)
        assert await looker.examine(response) == []
