"""Mailing lists, over HTTP: index, create, edit, delete, export."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest

from postroom.services import entities
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Entity
from tests.web.site import Site, Visitor

LIST = {"name": "news", "description": "Contoso <News>", "from_address": "news@contoso.example"}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    return await site.user(Role.EDITOR)


async def make(site: Site, name: str = "news") -> None:
    await site.services.lists.create(name, "Contoso <News>", "news@contoso.example")


async def test_the_first_list_is_created_and_shown(site: Site, editor: Visitor) -> None:
    assert "No lists yet" in (await editor.get("/lists")).text
    made = await editor.post("/lists/new", LIST)
    assert made.headers["location"] == "/lists/news"
    assert await editor.said(made) == "List news created."
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    await site.services.subscriptions.add("news", "bob@example.com")
    index, details = await editor.get("/lists"), await editor.get("/lists/news")
    for page in (index.text, details.text):
        assert "Contoso &lt;News&gt;" in page
        assert "<News>" not in page
    assert '<a href="/lists/news">Contoso &lt;News&gt;</a>' in index.text, "not its technical name"
    assert '<span class="figure large">2</span>' in details.text
    assert "1 confirmed · 1 waiting to confirm" in details.text
    base = site.context.base_url
    assert f'href="{base}/subscribe?list=news"' in details.text


async def test_a_list_has_a_language(site: Site, editor: Visitor) -> None:
    await editor.post("/lists/new", {**LIST, "language": "ko"})
    made = await site.services.lists.get("news")
    assert made.language == "ko"
    await site.services.lists.edit("news", postal_address="Contoso & Co\n1 Main Street")
    made = await site.services.lists.get("news")
    details, form = await editor.get("/lists/news"), await editor.get("/lists/news/edit")
    assert "한국어" in details.text
    assert "Contoso &amp; Co\n1 Main Street" in details.text
    assert re.search(r'<option value="ko" lang="ko" selected>', form.text)
    changed = {**LIST, "etag": made.etag, "language": "fr"}
    await editor.post("/lists/news/edit", changed)
    saved = await site.services.lists.get("news")
    assert (saved.language, saved.postal_address) == ("fr", made.postal_address)
    answer = await editor.post("/lists/news/edit", {**changed, "language": "xx", "etag": ""})
    assert answer.status_code == 422
    assert 'id="language-help" class="wrong"' in answer.text


WRONG = (
    ("name", "a b", 422),
    ("name", "", 422),
    ("name", "new", 422),
    ("name", "taken", 409),
    ("description", "x" * 201, 422),
    ("description", "a\u202eb", 422),
    ("from_address", "nobody", 422),
)


async def test_errors_are_shown_next_to_the_field_and_no_input_is_lost(
    site: Site, editor: Visitor
) -> None:
    await make(site, "taken")
    for field, value, status in WRONG:
        answer = await editor.post("/lists/new", {**LIST, field: value})
        assert answer.status_code == status, value
        assert f'id="{field}-help" class="wrong"' in answer.text
        for typed in {**LIST, field: value}.values():
            assert f'value="{html.escape(typed)}"' in answer.text
    assert [each.name for each in (await site.services.lists.slice()).lists] == ["taken"]


async def test_lists_are_found_by_the_beginning_of_their_name_and_paged(
    site: Site, editor: Visitor
) -> None:
    for number in range(53):
        await make(site, f"list{number:02}")
    first = await editor.get("/lists")
    [following] = re.findall(r'href="([^"]+)" rel="next"', first.text)
    second = await editor.get(html.unescape(following))
    shown = re.findall(r'href="/lists/(list\d\d)"', first.text + second.text)
    assert shown == [f"list{number:02}" for number in range(53)]
    found = await editor.get("/lists?q=list1")
    assert re.findall(r'href="/lists/(list\d\d)"', found.text) == [f"list1{n}" for n in range(10)]
    assert "No lists match" in (await editor.get("/lists?q=zoe")).text


async def test_the_second_to_save_sees_both_versions_and_loses_nothing(
    site: Site, editor: Visitor
) -> None:
    await make(site)
    page = await editor.get("/lists/news/edit")
    [etag] = re.findall(r'name="etag" value="([^"]+)"', page.text)
    await site.services.lists.edit("news", description="Theirs <1>")
    mine = {"description": "Mine", "from_address": "me@contoso.example"}
    answer = await editor.post("/lists/news/edit", {**mine, "etag": html.unescape(etag)})
    assert answer.status_code == 409
    assert "Someone else saved changes first" in answer.text
    assert "Theirs &lt;1&gt;" in answer.text
    assert 'value="Mine"' in answer.text
    assert (await site.services.lists.get("news")).description == "Theirs <1>"
    [fresh] = re.findall(r'name="etag" value="([^"]+)"', answer.text)
    saved = await editor.post("/lists/news/edit", {**mine, "etag": html.unescape(fresh)})
    assert await editor.said(saved) == "Saved."
    assert (await site.services.lists.get("news")).description == "Mine"


async def test_a_list_is_deleted_after_a_question_but_not_while_a_message_needs_it(
    site: Site, editor: Visitor
) -> None:
    await make(site)
    await site.services.subscriptions.add("news", "ann@example.com")
    at = datetime.now(UTC) + timedelta(days=1)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    question = await editor.get("/lists/news/delete")
    assert "Delete list “news”?" in question.text
    assert "its 1 subscriber are deleted" in question.text
    assert f"its message {message.ref} is Scheduled" in question.text
    assert ">Delete list</button>" not in question.text
    refused = await editor.post("/lists/news/delete")
    assert refused.status_code == 409
    assert message.ref in refused.text
    await site.services.messages.delete(message.ref)
    assert ">Delete list</button>" in (await editor.get("/lists/news/delete")).text
    done = await editor.post("/lists/news/delete")
    assert await editor.said(done) == "List news deleted, with 1 subscriber."
    assert (await editor.get("/lists/news")).status_code == 404


async def test_an_interrupted_deletion_is_shown_and_can_be_finished(
    site: Site, editor: Visitor
) -> None:
    await make(site)
    mark = Entity("news", entities.LIST_ROW, {"Deleting": True})
    await site.services.store.table(entities.LISTS).merge(mark)
    page = await editor.get("/lists")
    assert "Deleting the list news and its subscribers." in page.text
    await editor.said(await editor.post("/lists/news/delete"))
    assert "news" not in re.findall(r"/lists/(\w+)/delete", (await editor.get("/lists")).text)


async def test_an_export_is_a_file_that_no_spreadsheet_takes_for_formulas(
    site: Site, editor: Visitor
) -> None:
    await make(site)
    for email in ("+sum@example.com", "ann@example.com"):
        await site.services.subscriptions.add("news", email, verified=True)
    answer = await editor.get("/lists/news/export")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="news.csv"'
    lines = answer.text.splitlines()
    assert lines[0].startswith("email,verified,blocked,created_at,first_name,last_name,")
    assert lines[1].startswith("'+sum@example.com,true,")
    assert (await editor.get("/lists/nowhere/export")).status_code == 404


async def test_a_viewer_sees_but_is_offered_nothing_to_change(site: Site) -> None:
    await make(site)
    await site.services.subscriptions.add("news", "ann@example.com")
    viewer = await site.user(Role.VIEWER)
    for path in (
        "/lists",
        "/lists/news",
        "/lists/news/subscribers",
        "/lists/news/subscribers/ann@example.com",
        "/messages",
        "/messages/sent",
    ):
        page = await viewer.get(path)
        assert page.status_code == 200, path
        main = page.text.partition("<main")[2].partition("</main>")[0]
        assert 'method="post"' not in main, path
        for offer in ("new", "edit", "delete", "import", "export", "add"):
            assert not re.search(rf'href="[^"]*/{offer}["?]', main), (path, offer)


async def test_a_new_list_is_public_or_private(site: Site, editor: Visitor) -> None:
    form = await editor.get("/lists/new")
    assert re.search(r'value="yes" checked> Anyone', form.text)
    fields = {"description": "Board", "from_address": "board@contoso.example"}
    await editor.said(await editor.post("/lists/new", {**fields, "name": "a", "public": "yes"}))
    await editor.said(await editor.post("/lists/new", {**fields, "name": "b", "public": "no"}))
    assert (await site.services.lists.get("a")).public
    assert not (await site.services.lists.get("b")).public
    wrong = await editor.post("/lists/new", {**fields, "name": "b", "public": "no"})
    assert re.search(r'value="no" checked> Nobody', wrong.text)
    assert "Name is already taken" in wrong.text


async def test_a_list_links_to_its_own_examples(site: Site, editor: Visitor) -> None:
    for name in ("first", "second"):
        await site.services.lists.create(name, name, "news@contoso.example")
    page = await editor.get("/lists/second")
    assert 'href="/embed?list=second"' in page.text
    examples = await editor.get("/embed?list=second")
    assert "list_name&#34;: &#34;second" in examples.text


async def test_an_error_leads_back_to_where_it_happened(site: Site, editor: Visitor) -> None:
    await make(site)
    missing = await editor.get("/lists/nope")
    assert (
        missing.status_code,
        '<a href="/lists" class="button">Go to Lists</a>' in missing.text,
    ) == (404, True)
    at = datetime.now(UTC) + timedelta(days=1)
    ref = (await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)).ref
    early = await editor.get(f"/messages/{ref}/follow-up")
    assert (early.status_code, f'<a href="/messages/{ref}" class="button">' in early.text) == (
        409,
        True,
    )
    viewer = await site.user(Role.VIEWER)
    denied = await viewer.get("/lists/new")
    assert (denied.status_code, "Go to Home" in denied.text) == (403, True)
