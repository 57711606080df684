"""The builder of segments in a browser: it writes and reads the rule's text, by keyboard, too."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.async_api import Browser, expect

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.messages.tracking import Track
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from tests.browser.support.chromium import PATIENCE, window
from tests.browser.support.looking import Looker
from tests.web.site import Site

pytestmark = pytest.mark.timeout(300)


async def _create(site: Site) -> None:
    services = site.services
    await services.lists.create("garden", "Garden club", "garden@example.com")
    plan = Field("plan", FieldType.CHOICE, choices=("free", "pro"))
    fields = [Field("city", label="Home town"), Field("age", FieldType.INTEGER), plan]
    await services.fields.declare("garden", fields)
    for name, city, age in (("ann", "Bern", 30), ("bob", "Ulm", 40), ("cid", "Bern", 50)):
        values = {"city": city, "age": age, "plan": "pro" if age > 35 else "free"}
        await services.subscriptions.add("garden", f"{name}@b.org", attributes=values)


async def test_a_segment_is_built_counted_explained_and_saved(browser: Browser, site: Site) -> None:
    await _create(site)
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/lists/garden/segment")
        rule = page.locator("#rule")
        row = page.locator(".builder-row")
        await row.get_by_label("Field").select_option("city")
        await row.get_by_label("Comparison").select_option("=")
        await row.get_by_label("Value").fill('Be"rn')
        await expect(rule).to_have_value('city = "Be\\"rn"')
        await row.get_by_label("Value").fill("bern")
        await expect(page.locator("#count")).to_contain_text("2 subscribers", timeout=PATIENCE)
        await expect(page.locator("#count")).to_contain_text("cid@b.org")

        # A group, by keyboard only.
        await page.get_by_role("button", name="Add group").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")  # from the field of the new row to its comparison
        group = page.get_by_role("group", name="Group of conditions")
        await expect(group.get_by_label("Comparison")).to_be_focused()
        await group.get_by_label("Field").select_option("plan")
        await group.get_by_label("Comparison").select_option("=")
        await group.get_by_label("Value").select_option("pro")
        await group.get_by_role("button", name="Add condition").click()
        second = group.locator(".builder-row").nth(1)
        await second.get_by_label("Field").select_option("joined")
        await second.get_by_label("Comparison").select_option("not within")
        await second.get_by_label("Number").fill("3")
        await second.get_by_label("Unit").select_option("weeks")
        written = 'city = "bern" and (plan = "pro" or not joined within 3 weeks)'
        await expect(rule).to_have_value(written)
        await expect(page.locator("#count")).to_contain_text("1 subscriber", timeout=PATIENCE)

        await page.get_by_label("Address of a subscriber").fill("ann@b.org")
        await page.get_by_role("button", name="Explain").click()
        reasons = page.locator("#reasons")
        await expect(reasons).to_contain_text("does not match this rule", timeout=PATIENCE)
        await expect(reasons.locator("li.fails")).to_have_count(4)

        await page.get_by_label("Name").fill("bern")
        await page.get_by_role("button", name="Create segment").click()
        await expect(page.locator("#toast")).to_contain_text("created", timeout=PATIENCE)
        assert (await site.services.segments.get("garden", "bern")).rule == written
        await expect(page.locator(".builder-row")).to_have_count(3)
        await expect(page.locator("#count")).to_contain_text("1 subscriber", timeout=PATIENCE)


async def test_the_builder_asks_who_received_a_message(browser: Browser, site: Site) -> None:
    await _create(site)
    services = site.services
    bodies = NewBodies("<p>Hi</p>")
    sent = await services.messages.create("garden", "Spring", bodies, datetime.now(UTC))
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/lists/garden/segment")
        rule, row = page.locator("#rule"), page.locator(".builder-row")
        await row.get_by_label("Field").select_option("received")
        await expect(rule).to_have_value(f"received {sent.ref}")
        await row.get_by_label("Comparison").select_option("not received")
        await expect(rule).to_have_value(f"not received {sent.ref}")
        await expect(row.get_by_label("Message", exact=True)).to_have_value(sent.ref)
        await expect(page.locator("#count")).to_contain_text("3 subscribers", timeout=PATIENCE)


async def test_typed_text_and_builder_stay_in_step(browser: Browser, site: Site) -> None:
    await _create(site)
    await site.services.segments.create("garden", "bern", 'city = "Bern"')
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        looker = await Looker.open(page, site.url, set())
        looker.begin()
        response = await page.goto("/lists/garden/segment?segment=bern")
        assert response is not None
        await expect(page.locator("#count")).to_contain_text("2 subscribers", timeout=PATIENCE)
        await page.get_by_text("Rule as text").click()
        rule = page.get_by_label("Rule", exact=True)
        await rule.fill('not (age >= 40 or city in ("Ulm", "Rome")) and plan contains "fr"')
        await expect(page.locator(".builder-row")).to_have_count(3, timeout=PATIENCE)
        values = page.get_by_label("Values, one per line")
        await expect(values).to_have_value("Ulm\nRome")
        await values.fill("Ulm\nBern\n")
        expected = 'not (age >= 40 or city in ("Ulm", "Bern")) and plan contains "fr"'
        await expect(rule).to_have_value(expected)
        # Values stay as they are written, also an empty one, while another row is edited.
        await rule.fill('city contains " x " and city != "" and age > 1 and city in ("", "Ulm")')
        await expect(page.locator(".builder-row")).to_have_count(4, timeout=PATIENCE)
        await page.locator(".builder-row").nth(2).get_by_label("Value").fill("2")
        kept = 'city contains " x " and city != "" and age > 2 and city in ("", "Ulm")'
        await expect(rule).to_have_value(kept)
        await page.locator(".builder-row").nth(1).get_by_label("Value").fill(" ")
        await expect(rule).to_have_value(kept.replace('!= ""', '!= " "'))
        await page.locator(".builder-row").nth(1).get_by_label("Value").fill("")
        await expect(rule).to_have_value(kept.replace('city != "" and ', ""))
        # A condition without a value would silently be left out: it has to be filled in or removed.
        save = page.get_by_role("button", name="Save")
        await save.click()
        await expect(page.locator(".builder-row").nth(1).get_by_label("Value")).to_be_focused()
        assert (await site.services.segments.get("garden", "bern")).rule == 'city = "Bern"'
        await rule.fill("age >=")
        await expect(page.locator("#count")).to_contain_text("ends too early", timeout=PATIENCE)
        await expect(page.locator("#builder")).to_be_hidden()
        await save.click()  # nothing that is hidden has to be filled in
        await expect(page.get_by_text("ends too early").first).to_be_visible(timeout=PATIENCE)
        rule = page.get_by_label("Rule", exact=True)
        await rule.fill("age >= 40")
        await expect(page.locator("#count")).to_contain_text("2 subscribers", timeout=PATIENCE)
        await expect(page.locator(".builder-row")).to_have_count(1, timeout=PATIENCE)
        await page.get_by_role("button", name="Remove the condition on Age").click()
        await expect(rule).to_have_value("")
        assert "\n".join(await looker.examine(response)) == ""


async def test_the_builder_asks_who_clicked_and_is_inactive(browser: Browser, site: Site) -> None:
    await _create(site)
    create, bodies, at = site.services.messages.create, NewBodies("<p>Hi</p>"), datetime.now(UTC)
    sent = await create("garden", "Spring", bodies, at, options=SendingOptions(Track.PERSONAL))
    await create("garden", "Not personal", bodies, at)
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/lists/garden/segment")
        rule, row = page.locator("#rule"), page.locator(".builder-row")
        await row.get_by_label("Field").select_option("clicked")
        await expect(rule).to_have_value(f"clicked {sent.ref}")
        await expect(row.get_by_label("Message", exact=True).locator("option")).to_have_count(1)
        await row.get_by_label("Comparison").select_option("not clicked")
        await expect(rule).to_have_value(f"not clicked {sent.ref}")
        await row.get_by_label("Field").select_option("clicked link")
        await row.get_by_label("Value").fill('/"shop"/')
        await expect(rule).to_have_value('clicked "/\\"shop\\"/"')
        await row.get_by_label("Field").select_option("activity")
        await row.get_by_label("Number").fill("90")
        await expect(rule).to_have_value("clicked within 90 days")
        await row.get_by_label("Comparison").select_option("inactive for")
        await row.get_by_label("Unit").select_option("months")
        await expect(rule).to_have_value("inactive for 90 months")
        await expect(page.locator("#count")).to_contain_text("0 subscribers", timeout=PATIENCE)
        await page.reload()
        await page.get_by_text("Rule as text").click()
        written = f'opened {sent.ref} and not clicked "shop" and not clicked within 2 weeks'
        await rule.fill(written)
        await expect(page.locator(".builder-row")).to_have_count(3, timeout=PATIENCE)
        first = page.locator(".builder-row").first
        await expect(first.get_by_label("Field")).to_have_value("opened")
        last = page.locator(".builder-row").last
        await expect(last.get_by_label("Comparison")).to_have_value("not clicked within")
        await last.get_by_label("Number").fill("3")
        await expect(rule).to_have_value(written.replace("2 weeks", "3 weeks"))
