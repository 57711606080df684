"""Subscribers, over HTTP: found, added, changed, moved, removed, many at once."""

from __future__ import annotations

import html
import io
import re
from urllib.parse import quote

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.accounts.users import Role
from postroom.services.audience.bulk_changes import BLOCKED_BY_HAND
from postroom.web.admin.audience.subscribers import subscriber_index
from postroom.web.rendering.sorting import MOST
from tests.web.site import Site, Visitor

HERE = "/lists/news/subscribers"
ODD = "o'neil/a+b?c%d#e@example.com"


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def fill(site: Site, count: int) -> list[str]:
    made = [f"user{number:03}@example.com" for number in range(count)]
    for number, email in enumerate(made):
        await site.services.subscriptions.add("news", email, verified=bool(number % 2))
    return made


def shown(page: str) -> list[str]:
    return re.findall(r'name="email" value="([^"]+)"', page)


async def test_an_empty_list_says_what_to_do_next(site: Site, editor: Visitor) -> None:
    page = await editor.get(HERE)
    assert "No subscribers yet" in page.text
    assert "/lists/news/import" in page.text


async def test_they_are_paged_searched_and_filtered(site: Site, editor: Visitor) -> None:
    made = await fill(site, 60)
    await site.services.subscriptions.edit("news", made[7], blocked="asked for it")
    first = await editor.get(HERE)
    [following] = re.findall(r'href="([^"]+)" rel="next"', first.text)
    second = await editor.get(html.unescape(following))
    assert shown(first.text) + shown(second.text) == made
    assert shown((await editor.get(f"{HERE}?q=user01")).text) == made[10:20]
    assert shown((await editor.get(f"{HERE}?q=user011@EXAMPLE")).text) == made[11:12]
    assert shown((await editor.get(f"{HERE}?state=unverified")).text) == made[::2]
    assert shown((await editor.get(f"{HERE}?state=blocked")).text) == [made[7]]
    assert shown((await editor.get(f"{HERE}?q=R01")).text) == made[10:20], "any part, any case"
    assert shown((await editor.get(f"{HERE}?q=9@exam&state=verified")).text) == made[9::10]
    assert "No subscribers match “zoe”" in (await editor.get(f"{HERE}?q=zoe")).text
    [before] = re.findall(r'href="([^"]+)" rel="prev"', second.text)
    assert shown((await editor.get(html.unescape(before))).text) == made[:50]
    assert 'rel="prev"' not in first.text
    part = await editor.get(f"{HERE}?state=blocked", headers={"HX-Request": "true"})
    assert "<html" not in part.text
    assert shown(part.text) == [made[7]]


async def test_an_address_is_added_changed_and_removed(site: Site, editor: Visitor) -> None:
    added = await editor.post(f"{HERE}/add", {"email": "Ann@EXAMPLE.com", "verified": "yes"})
    assert await editor.said(added) == "Ann@example.com added."
    again = await editor.post(f"{HERE}/add", {"email": "Ann@example.com"})
    assert again.status_code == 409
    assert "is already on the list" in again.text
    bad = await editor.post(f"{HERE}/add", {"email": "<b>ann"})
    assert bad.status_code == 422
    assert "&lt;b&gt;ann" in bad.text
    before = await site.services.subscriptions.get("news", "Ann@example.com")
    given = {"email": "anna@example.com", "blocked": "left us", "etag": before.etag}
    saved = await editor.post(f"{HERE}/Ann@example.com", given)
    assert saved.headers["location"] == f"{HERE}/anna%40example.com"
    after = await site.services.subscriptions.get("news", "anna@example.com")
    assert (after.guid, after.verified, after.blocked) == (before.guid, False, "left us")
    question = await editor.get(f"{HERE}/anna@example.com/delete")
    assert "Remove anna@example.com?" in question.text
    gone = await editor.post(f"{HERE}/anna@example.com/delete", {"etag": after.etag})
    assert await editor.said(gone) == "anna@example.com removed."
    assert (await editor.get(f"{HERE}/anna@example.com")).status_code == 404


async def test_an_address_with_odd_characters_has_its_page(site: Site, editor: Visitor) -> None:
    await site.services.subscriptions.add("news", ODD)
    index = await editor.get(HERE)
    [link] = re.findall(rf'href="({HERE}/[^"]+example.com)"', index.text)
    page = await editor.get(html.unescape(link))
    assert page.status_code == 200
    assert f"<h1>{html.escape(ODD)}</h1>".replace("&#x27;", "&#39;") in page.text
    gone = await editor.post(f"{HERE}/{quote(ODD)}/delete")
    assert gone.status_code == 303
    assert (await site.services.search.find("news")).subscribers == []


async def test_the_second_to_save_sees_both_versions_and_loses_nothing(
    site: Site, editor: Visitor
) -> None:
    seen = await site.services.subscriptions.add("news", "ann@example.com")
    await site.services.subscriptions.edit("news", "ann@example.com", blocked="their reason")
    given = {"email": "ann@example.com", "blocked": "my reason", "etag": seen.etag}
    answer = await editor.post(f"{HERE}/ann@example.com", given)
    assert answer.status_code == 409
    assert "their reason" in answer.text
    assert 'value="my reason"' in answer.text
    [fresh] = re.findall(r'name="etag" value="([^"]+)"', answer.text)
    await editor.post(f"{HERE}/ann@example.com", {**given, "etag": html.unescape(fresh)})
    now = await site.services.subscriptions.get("news", "ann@example.com")
    assert now.blocked == "my reason"


async def test_a_subscriber_moves_to_another_list_with_the_same_links(
    site: Site, editor: Visitor
) -> None:
    await site.services.lists.create("other", "Other", "other@contoso.example")
    before = await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    moved = await editor.post(f"{HERE}/ann@example.com/move", {"to_list": "other"})
    assert await editor.said(moved) == "Moved to list other."
    after = await site.services.subscriptions.get("other", "ann@example.com")
    assert after.guid == before.guid
    back = "/lists/other/subscribers/ann@example.com/move"
    for nowhere in ("nowhere", "", "<b>"):
        answer = await editor.post(back, {"to_list": nowhere})
        assert answer.status_code == 422
        assert "Choose a list" in answer.text


async def test_a_subscriber_is_added_to_another_list_and_removed_from_it_again(
    site: Site, editor: Visitor
) -> None:
    services = site.services
    await services.lists.create("other", "Other", "other@contoso.example")
    await services.fields.declare("other", [Field("city"), Field("age", FieldType.INTEGER)])
    await services.fields.declare("news", [Field("city"), Field("age")])
    await services.subscriptions.add(
        "news", "ann@example.com", verified=True, attributes={"city": "Bern", "age": "old"}
    )
    here = f"{HERE}/ann@example.com"
    assert "<option>other</option>" in (await editor.get(here)).text

    added = await editor.post(f"{here}/lists", {"to_list": "other"})
    assert await editor.said(added) == "Added to list other."
    there = await services.subscriptions.get("other", "ann@example.com")
    assert (there.verified, there.attributes) == (False, {"city": "Bern"})
    page = (await editor.get(here)).text
    assert 'href="/lists/other/subscribers/ann@example.com/delete?here=news"' in page.replace(
        "%40", "@"
    )
    again = await editor.post(f"{here}/lists", {"to_list": "other"})
    assert again.status_code == 409
    assert "is already on that list" in again.text

    question = await editor.get("/lists/other/subscribers/ann@example.com/delete?here=news")
    assert 'name="here" value="news"' in question.text
    form = {"here": "news", "etag": there.etag}
    removed = await editor.post("/lists/other/subscribers/ann@example.com/delete", form)
    assert removed.headers["location"] == f"{HERE}/ann%40example.com"
    assert await editor.said(removed) == "Removed from list other."
    for nowhere in ("nowhere", "", "<b>"):
        answer = await editor.post(f"{here}/lists", {"to_list": nowhere})
        assert answer.status_code == 422
        assert "Choose a list" in answer.text


async def test_adding_to_a_list_respects_suppression_unsubscribes_and_required_fields(
    site: Site, editor: Visitor
) -> None:
    services, here = site.services, f"{HERE}/ann@example.com"
    for name in ("left", "strict", "other"):
        await services.lists.create(name, name.title(), "other@contoso.example")
    await services.fields.declare("strict", [Field("city", required=True)])
    await services.subscriptions.add("news", "ann@example.com", verified=True)
    left = await services.subscriptions.add("left", "ann@example.com", verified=True)
    await services.subscriptions.unsubscribe("left", left.guid)

    refused = await editor.post(f"{here}/lists", {"to_list": "left", "verified": "yes"})
    assert refused.status_code == 409
    assert "unsubscribed from left" in refused.text
    added = await editor.post(f"{here}/lists", {"to_list": "left"})
    assert await editor.said(added) == "Added to list left."
    missing = await editor.post(f"{here}/lists", {"to_list": "strict"})
    assert missing.status_code == 422
    assert "is required" in missing.text

    await services.suppressions.suppress("ann@example.com", "complaint", source="test")
    blocked = await editor.post(f"{here}/lists", {"to_list": "other", "verified": "yes"})
    assert "They receive nothing: suppressed: complaint." in await editor.said(blocked)
    assert not (await services.subscriptions.get("other", "ann@example.com")).may_receive


async def test_an_added_subscriber_gets_a_confirmation_email(site: Site, editor: Visitor) -> None:
    where = f"{HERE}/ann@example.com"
    ann = await site.services.subscriptions.add("news", "ann@example.com")
    assert "Send confirmation email" in (await editor.get(where)).text
    asked = await editor.post(f"{where}/ask", {})
    assert await editor.said(asked) == "Confirmation email to ann@example.com is on its way."
    [item] = await site.services.store.queue(CONFIRM_QUEUE).peek(10)
    assert item.body == f"{ann.guid},news"
    await editor.post(f"{where}/ask", {})
    refused = await editor.post(f"{where}/ask", {})
    assert refused.status_code == 409
    assert "has been asked too often recently" in refused.text
    await site.services.subscriptions.confirm("news", ann.guid)
    assert "Send confirmation email" not in (await editor.get(where)).text
    refused = await editor.post(f"{where}/ask", {})
    assert refused.status_code == 409
    assert "has already confirmed" in refused.text


async def test_many_are_verified_blocked_and_removed_at_once(site: Site, editor: Visitor) -> None:
    made = await fill(site, 6)
    there = site.services.search.find
    verify: dict[str, str | list[str]] = {"action": "verify", "email": made[:4]}
    question = await editor.post("/lists/news/bulk", verify)
    assert "Mark 4 subscribers as confirmed?" in question.text
    assert "only if each of them has agreed" in question.text
    assert not (await there("news")).subscribers[0].verified, "only asked so far"
    asked = await editor.post("/lists/news/bulk", {"action": "ask", "email": [made[0], made[1]]})
    said = await editor.said(asked)
    assert said.startswith("1 subscriber asked to confirm. Not changed: 1 (")
    assert (await site.services.store.queue(CONFIRM_QUEUE).info()).length == 1
    done = await editor.post("/lists/news/bulk", {**verify, "confirmed": "yes"})
    assert await editor.said(done) == "4 subscribers marked as confirmed."
    done = await editor.post("/lists/news/bulk", {"action": "block", "email": made[:1]})
    assert await editor.said(done) == "1 subscriber blocked."
    assert (await there("news")).subscribers[0].blocked == BLOCKED_BY_HAND
    question = await editor.post("/lists/news/bulk", {"action": "remove", "email": made[:5]})
    assert question.status_code == 200
    assert "Remove 5 subscribers?" in question.text
    assert len((await there("news")).subscribers) == 6, "only asked so far"
    assert re.findall(r'name="email" value="([^"]+)"', question.text) == made[:5]
    sure = {"action": "remove", "email": [*made[:5], "gone@example.com"], "confirmed": "yes"}
    said = await editor.said(await editor.post("/lists/news/bulk", sure))
    assert said.startswith("5 subscribers removed. Not changed: 1 (")
    assert [each.address for each in (await there("news")).subscribers] == made[5:]
    nobody = await editor.post("/lists/news/bulk", {"action": "verify"})
    assert "No subscribers selected" in await editor.said(nobody)
    unknown = await editor.post("/lists/news/bulk", {"action": "explode", "email": made[5:]})
    assert unknown.status_code == 422


async def test_a_long_list_is_searched_and_sorted_by_age_with_visible_progress(
    site: Site, editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_FIRST_SECONDS", "_SECONDS"):
        monkeypatch.setattr(subscriber_index, limit, 0.0)  # each step reads a thousand
    lines = "".join(f"member{number:05}@example.com\n" for number in range(MOST + 1))
    await site.services.imports.import_csv("news", io.BytesIO(f"email\n{lines}".encode()))
    newest = [f"late{number:03}@example.com" for number in range(60)]
    for each in newest:
        await site.services.subscriptions.add("news", each)
    for query, expected in (
        ("q=R0777", [f"member0777{digit}@example.com" for digit in range(10)]),
        ("sort=-since", newest[:-51:-1]),
        ("sort=-since&q=LATE00", newest[9::-1]),
    ):
        page = (await editor.get(f"{HERE}?{query}")).text
        looks = 0
        while 'aria-label="Progress of the search"' in page:
            looks += 1
            assert looks < 20
            [again] = re.findall(r'hx-get="([^"]+)"', page)
            page = (await editor.get(html.unescape(again), headers={"HX-Request": "true"})).text
            assert f" of {MOST + 61:,} subscribers" in page or shown(page) == expected
        assert looks >= 8
        assert shown(page) == expected, query
    monkeypatch.setattr(subscriber_index, "_SECONDS", 60.0)
    page = (await editor.get(f"{HERE}?q=R0777")).text
    [again] = re.findall(r'hx-get="([^"]+)"', page)  # the page itself is shown at once
    page = (await editor.get(html.unescape(again), headers={"HX-Request": "true"})).text
    assert shown(page) == [f"member0777{digit}@example.com" for digit in range(10)]
    monkeypatch.setattr(subscriber_index, "_FIRST_SECONDS", 60.0)
    first = (await editor.get(f"{HERE}?sort=-since")).text
    [following] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = (await editor.get(html.unescape(following))).text
    assert shown(second)[:10] == newest[9::-1]
    assert shown(second)[10] == "member00000@example.com"
    [before] = re.findall(r'href="([^"]+)" rel="prev"', second)
    assert shown((await editor.get(html.unescape(before))).text) == shown(first)
