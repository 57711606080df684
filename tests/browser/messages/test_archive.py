"""A hostile message in the web archive: nothing in it runs, and it reaches nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.async_api import Browser, Response, expect

from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from tests.browser.support.chromium import PATIENCE, window
from tests.integration.usecases.pages import fan_out_whole
from tests.web.site import Site

pytestmark = pytest.mark.timeout(300)
HOSTILE = """<!DOCTYPE html><html><head>
<meta http-equiv="refresh" content="0;url=/login?from=refresh">
<link rel="stylesheet" href="/static/evil.css"><style>@import "/static/evil2.css";</style>
<script>top.document.title = "owned"; fetch("/static/evil3")</script></head>
<body onload="top.location = '/login?from=onload'"><p id="seen">Hello</p>
<img src="x" onerror="top.document.title = 'owned'">
<iframe src="/login?from=iframe"></iframe><object data="/login?from=object"></object>
<form id="f" action="/login?from=form"><button id="send">Send</button></form>
<a id="js" href="javascript:top.document.title='owned'">x</a>
<svg><script>top.document.title = "owned"</script></svg></body></html>"""


async def test_a_hostile_message_neither_runs_nor_loads_anything(
    browser: Browser, site: Site
) -> None:
    await site.services.lists.create("news", "The news", "news@contoso.example")
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    made = await site.services.messages.create(
        "news",
        "A letter",
        NewBodies(HOSTILE),
        datetime.now(UTC),
        options=SendingOptions(published=True),
    )
    await fan_out_whole(site.services.store, made.ref)
    async with window(browser, site.url) as context:
        page = await context.new_page()
        answered: list[str] = []

        def remember(response: Response) -> None:
            answered.append(response.url)

        context.on("response", remember)  # what the policy blocks gets none
        for path in (f"/archive/news/{made.ref}", f"/view?ref={made.ref}&key={made.web_key}"):
            await page.goto(path)
            frame = page.frame_locator("main iframe")
            await expect(frame.locator("#seen")).to_have_text("Hello", timeout=PATIENCE)
            await frame.locator("#send").click()
            await expect(page.get_by_role("heading", name="A letter")).to_be_visible()
            assert await page.title() == "A letter · The news"
            assert "login" not in page.url
    assert any(each.endswith("/html") for each in answered)
    assert [each for each in answered if "from=" in each or "evil" in each] == []
