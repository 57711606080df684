"""The formats of a draft, over HTTP: blocks by default, changed freely while empty, converted after
a question; and what the editor asks while somebody writes."""

from __future__ import annotations

import html
import json
import re

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.messages.messages import Message, MessageFormat
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from tests.services.pictures import picture
from tests.web.messages.test_editor import only_draft
from tests.web.site import Site, Visitor

MARKDOWN = "# Winter\n\nDear {{ email }}, *welcome*.\n"
BLOCKS = json.dumps({"version": 1, "blocks": [{"type": "text", "html": "<p>Dear {{ email }}</p>"}]})


@pytest.fixture
async def writer(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.WRITER)


async def created(site: Site, format: MessageFormat, body: str, template: str = "") -> Message:
    change = ContentChange(
        list_name="news", subject="Winter", format=format, body=body, template=template, text=""
    )
    return await site.services.composing.create(change, "writer@example.org")


async def test_a_new_message_is_made_of_blocks_in_the_template_that_was_chosen(
    site: Site, writer: Visitor
) -> None:
    link = "/messages/new?template=letter"
    assert f'href="{link}"' in (await writer.get("/templates/letter")).text
    page = await writer.get(link)
    assert '<input type="hidden" name="format" value="blocks">' in page.text
    assert '<option value="letter" selected>' in page.text
    assert "Message (Blocks)" in page.text, "editable without scripts, too"
    saved = await writer.post("/messages/save", {"format": "blocks", "body": BLOCKS, "subject": ""})
    assert saved.status_code == 200
    assert (await only_draft(site)).format is MessageFormat.BLOCKS


async def test_an_empty_draft_takes_any_format(site: Site, writer: Visitor) -> None:
    empty = '{"version": 1, "blocks": []}'
    form = {"list": "news", "subject": "Winter", "format": "blocks", "body": empty}
    for wanted in ("markdown", "mjml", "html", "blocks"):
        draft = await site.services.times.drafts(limit=1)
        ref, etag = (draft[0].ref, draft[0].etag) if draft else ("", "")
        answer = await writer.post(
            "/messages/format", {**form, "to": wanted, "ref": ref, "etag": etag}
        )
        assert answer.headers["location"].endswith("/edit")
        found = await only_draft(site)
        assert (found.format.value, found.subject) == (wanted, "Winter")
        form = {**form, "format": wanted, "body": ""}


async def test_a_draft_with_slots_but_no_blocks_is_not_empty(site: Site, writer: Visitor) -> None:
    body = json.dumps({"version": 1, "blocks": [], "slots": {"title": "Winter"}})
    made = await created(site, MessageFormat.BLOCKS, body, "newsletter")
    form = {"list": "news", "format": "blocks", "template": "newsletter", "body": body}
    answer = await writer.post(
        "/messages/format", {**form, "to": "markdown", "ref": made.ref, "etag": made.etag}
    )
    assert answer.headers["location"] == f"/messages/{made.ref}/format?to=markdown"
    draft, content = await site.services.composing.read(made.ref)
    assert draft.format is MessageFormat.BLOCKS
    assert "Winter" in content.body


@pytest.mark.parametrize("body", ["# My words", ""])
async def test_a_conflict_while_the_format_is_chosen_shows_both_versions(
    site: Site, writer: Visitor, body: str
) -> None:
    made = await created(site, MessageFormat.MARKDOWN, "# Old words")
    theirs = ContentChange(body="# Their words")
    await site.services.composing.save(made.ref, theirs, "other@example.org")
    form = {"list": "news", "subject": "Mine", "format": "markdown", "body": body}
    answer = await writer.post(
        "/messages/format", {**form, "to": "blocks", "ref": made.ref, "etag": made.etag}
    )
    assert answer.status_code == 409
    page = html.unescape(answer.text)
    assert "# Their words" in page
    assert f">{body}</textarea>" in page.replace("\n", "")
    assert '<input type="hidden" name="format" value="markdown">' in page
    draft, content = await site.services.composing.read(made.ref)
    assert (draft.format, content.body) == (MessageFormat.MARKDOWN, "# Their words")


@pytest.mark.parametrize(
    ("given", "body", "wanted", "found"),
    [
        (MessageFormat.MARKDOWN, MARKDOWN, MessageFormat.BLOCKS, '"type": "heading"'),
        (MessageFormat.BLOCKS, BLOCKS, MessageFormat.MJML, "<mj-text"),
        (
            MessageFormat.MJML,
            "<mjml><mj-body><mj-section><mj-column><mj-text>Hi</mj-text></mj-column></mj-section>"
            "</mj-body></mjml>",
            MessageFormat.HTML,
            "<!doctype html>",
        ),
    ],
)
async def test_a_draft_is_converted_after_a_question(
    site: Site,
    writer: Visitor,
    given: MessageFormat,
    body: str,
    wanted: MessageFormat,
    found: str,
) -> None:
    made = await created(site, given, body)
    form = {"list": "news", "subject": "Winter", "format": given.value, "body": body}
    asked = await writer.post(
        "/messages/format", {**form, "to": wanted.value, "ref": made.ref, "etag": made.etag}
    )
    where = asked.headers["location"]
    assert where == f"/messages/{made.ref}/format?to={wanted.value}"
    question = await writer.get(where)
    assert "the current text is kept under Versions" in question.text
    assert (await only_draft(site)).format is given, "not yet"
    etag = (await only_draft(site)).etag
    done = await writer.post(f"/messages/{made.ref}/format", {"to": wanted.value, "etag": etag})
    assert "Converted to" in await writer.said(done)
    draft, content = await site.services.composing.read(made.ref)
    assert draft.format is wanted
    assert found in content.body
    versions = await site.services.composing.versions.all(draft.ref)
    kept = [(await site.services.composing.content(each)) for each in versions]
    assert (given, body.strip()) in [(each.format, each.body.strip()) for each in kept]
    # Somebody who comes late converts nothing.
    late = await writer.post(f"/messages/{made.ref}/format", {"to": wanted.value, "etag": etag})
    assert late.status_code == 303
    assert (await only_draft(site)).etag == draft.etag


async def test_what_cannot_be_converted_says_why(site: Site, writer: Visitor) -> None:
    made = await created(site, MessageFormat.BLOCKS, BLOCKS)
    answer = await writer.get(f"/messages/{made.ref}/format?to=markdown")
    assert "It can be converted to MJML" in await writer.said(answer)
    broken = await created(site, MessageFormat.MJML, "<mjml><mj-body><mj-x/></mj-body></mjml>")
    answer = await writer.post(f"/messages/{broken.ref}/format", {"to": "html"})
    assert answer.status_code == 422
    assert "there is no tag <mj-x>" in html.unescape(answer.text)


async def test_compiling_returns_the_canvas_with_the_slots_of_its_template(
    site: Site, writer: Visitor
) -> None:
    form = {"list": "news", "format": "blocks", "body": BLOCKS, "template": "newsletter"}
    found = (await writer.post("/messages/compile", form)).json()
    assert "pr-block-0" in found["html"]
    assert {"name": "title", "is_required": True, "default": ""} in found["slots"]
    assert found["findings"] == []
    broken = {**form, "body": '{"version": 1, "blocks": [{"type": "nothing"}]}'}
    found = (await writer.post("/messages/compile", broken)).json()
    assert (found["html"], found["findings"][0]["level"]) == ("", "error")
    found = (await writer.post("/messages/compile", {**form, "template": "gone"})).json()
    assert "gone" in found["findings"][0]["text"]
    assert await site.services.times.drafts(limit=1) == []


async def test_mistakes_in_mjml_have_their_lines(site: Site, writer: Visitor) -> None:
    body = "<mjml>\n<mj-body>\n  <mj-nothing></mj-nothing>\n</mj-body>\n</mjml>"
    form = {"list": "news", "format": "mjml", "body": body}
    [finding] = (await writer.post("/messages/compile", form)).json()["findings"]
    assert (finding["line"], finding["column"]) == (3, 3)
    assert "there is no tag <mj-nothing>" in finding["text"]


async def test_the_canvas_loads_pictures_from_public_sites_only(
    site: Site, writer: Visitor
) -> None:
    sites = "https://cdn.example.com http://127.0.0.1:9 http://localhost *"
    frame = await writer.get(f"/messages/canvas?sites={sites}")
    policy = frame.headers["content-security-policy"]
    pictures = policy.partition("img-src ")[2].partition(";")[0]
    own = f"{site.context.base_url}/media/ {site.context.base_url}/logo/"
    assert pictures == f"'self' data: {own} https://cdn.example.com"
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


async def test_the_preview_is_compiled_light_or_dark_and_as_a_subscriber(
    site: Site, writer: Visitor
) -> None:
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    form = {"list": "news", "subject": "Winter", "format": "blocks", "body": BLOCKS}
    frame = await writer.post("/messages/preview/html", form)
    assert "Dear subscriber@example.com" in frame.text
    assert "prefers-color-scheme" not in frame.text
    dark = await writer.post(
        "/messages/preview/html", {**form, "theme": "dark", "preview_as": "ann@example.com"}
    )
    assert "Dear ann@example.com" in dark.text
    assert "@media (min-width: 0)" in dark.text
    preheader = 'Hi {{ first_name | default: "there" }}, look & read'
    words = await writer.post("/messages/preview/text", {**form, "preheader": preheader})
    row = '<span class="inbox-preheader">Hi there, look &amp; read</span>'
    for part in ("News", "Winter", row, "Dear subscriber@example.com"):
        assert part in words.text
    nobody = await writer.post("/messages/preview/text", {**form, "preview_as": "bob@example.com"})
    assert "bob@example.com" in nobody.text
    assert 'class="problem"' in nobody.text


async def test_fields_of_the_list_are_offered_and_previewed(site: Site, writer: Visitor) -> None:
    await site.services.fields.declare("news", [Field("city", FieldType.TEXT)])
    values = {"first_name": "Ann", "city": "Berlin"}
    await site.services.subscriptions.add(
        "news", "ann@example.com", verified=True, attributes=values
    )
    page = html.unescape((await writer.get("/messages/new?list=news")).text)
    assert '{{ city | default: "" }}' in page
    offered = re.findall(r'data-merge-field="[{ ]+([a-z_]+)', page)
    assert offered[:4] == ["first_name", "last_name", "city", "email"], "the most used ones first"
    body = '<p>{{ first_name | default: "friend" }} of {{ city | default: "anywhere" }}</p>'
    form = {"list": "news", "subject": "Hello", "format": "html", "body": body}
    assert "friend of anywhere" in (await writer.post("/messages/preview/html", form)).text
    ann = await writer.post("/messages/preview/html", {**form, "preview_as": "ann@example.com"})
    assert "Ann of Berlin" in ann.text


async def test_pictures_are_offered_to_the_editor(site: Site, writer: Visitor) -> None:
    empty = await writer.get("/pictures/choose")
    assert "No pictures yet" in empty.text
    made, _ = await site.services.pictures.upload(picture(), "cat.png", by="ann")
    offered = await writer.get("/pictures/choose?q=cat")
    assert f'data-url="{site.context.base_url}{made.path}"' in offered.text
