"""The editor, over HTTP: drafts that save themselves, preview, test, schedule, and all that can go
wrong."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path

import httpx2
import pytest

from postroom.domain.audience.fields import Field
from postroom.domain.messages.messages import Message, MessageFormat, MessageStatus
from postroom.mail.bodies.html import has_remote_pictures
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from tests.services.mail.smtp_sink import running_smtp_sink
from tests.web.site import Site, Visitor, problem_in, running_site

LATER = {"when": "later", "day": "2099-07-01", "clock": "09:00", "zone": "Europe/Paris"}
SANDBOX = 'sandbox="allow-popups allow-popups-to-escape-sandbox"'
FORM = {"list": "news", "subject": "Hello", "body": "<p>Hi <b>you</b></p>", "text": "", **LATER}
NOW = {**FORM, "when": "now", "day": ""}
EDITOR, WRITER = "editor@example.org", "writer@example.org"
HTMX = {"HX-Request": "true"}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def only_message(site: Site) -> Message:
    [message] = (await site.services.messages.slice()).messages
    return message


async def only_draft(site: Site) -> Message:
    [draft] = await site.services.times.drafts(limit=10)
    return draft


def etag_in(page: httpx2.Response) -> str:
    [etag] = re.findall(r'<form id="message".*?name="etag" value="([^"]*)"', page.text, re.DOTALL)
    return html.unescape(etag)


async def ask(editor: Visitor, form: dict[str, str]) -> tuple[str, httpx2.Response]:
    """Write a draft and go on to the question before it is sent; return where it is."""
    saved = await editor.post("/messages/new", {**form, "then": "schedule"})
    assert saved.status_code == 303, problem_in(saved)
    where = saved.headers["location"]
    return where, await editor.get(where)


async def schedule(editor: Visitor, form: dict[str, str]) -> httpx2.Response:
    where, _ = await ask(editor, form)
    return await editor.post(where, {})


async def test_without_a_list_it_says_to_create_one(site: Site) -> None:
    editor = await site.user(Role.EDITOR)
    page = await editor.get("/messages/new")
    assert "No lists yet" in page.text
    assert "/lists/new" in page.text


async def test_a_message_is_scheduled_in_a_time_zone_with_a_text_generated_from_its_html(
    site: Site, editor: Visitor
) -> None:
    made = await schedule(editor, FORM)
    assert await editor.said(made) == "Message scheduled."
    message = await only_message(site)
    assert made.headers["location"] == f"/messages/{message.ref}"
    assert message.scheduled_at == datetime(2099, 7, 1, 7, tzinfo=UTC)
    bodies = await site.services.messages.bodies(message)
    assert bodies == NewBodies("<p>Hi <b>you</b></p>", "Hi you\n")
    page = await editor.get(f"/messages/{message.ref}")
    assert "Scheduled" in page.text
    assert "confirmed subscribers" in page.text, "an estimate"
    said = [each.what for each in (await site.services.audit.newest()).entries]
    assert said == ["scheduled message", "created draft"]


async def test_now_means_now(site: Site, editor: Visitor) -> None:
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    before = datetime.now(UTC)
    made = await schedule(editor, NOW)
    assert await editor.said(made) == "Sending started."
    message = await only_message(site)
    assert before <= message.due_at <= datetime.now(UTC)


async def test_sending_to_everyone_needs_a_confirmation(site: Site, editor: Visitor) -> None:
    for number in range(3):
        await site.services.subscriptions.add("news", f"r{number}@example.com", verified=number > 0)
    where, asked = await ask(editor, {**NOW, "subject": "A & B", "text": "One\r\ntwo"})
    shown = html.unescape(asked.text)
    assert "Send “A & B” to 2 subscribers of news now?" in shown
    assert "has passed" not in shown
    assert (await site.services.messages.slice()).messages == []
    draft = await only_draft(site)
    back = await editor.get(f"/messages/{draft.ref}/edit")
    for text in ('value="A &amp; B"', "&lt;p&gt;Hi &lt;b&gt;you", ">\nOne\ntwo</textarea>"):
        assert text in back.text.replace("\r\n", "\n"), text
    await site.services.composing.save(draft.ref, ContentChange(subject="A or B"), "bob@x.example")
    stale = await editor.post(where, {"etag": draft.etag})
    assert "changed in the meantime" in await editor.said(stale)
    later = await editor.get(where)
    assert "Send “A or B” to 2 subscribers" in html.unescape(later.text)
    made = await editor.post(where, {"etag": (await only_draft(site)).etag})
    assert await editor.said(made) == "Sending started."
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>Hi <b>you</b></p>", "One\ntwo")
    assert (await editor.get(where)).headers["location"] == where.removesuffix("/schedule")


async def test_a_time_in_the_past_is_pointed_out_before_sending(
    site: Site, editor: Visitor
) -> None:
    past = {**FORM, "day": "2020-07-01"}
    _, asked = await ask(editor, past)
    assert "The scheduled time" in asked.text
    assert '<time datetime="2020-07-01T07:00:00Z"' in asked.text
    assert "The list news has no confirmed subscribers" in asked.text
    await schedule(editor, FORM)
    where = f"/messages/{(await only_message(site)).ref}/edit"
    refused = await editor.post(where, past)
    assert refused.status_code == 422
    assert "has passed: choose a later time" in refused.text
    assert (await only_message(site)).due_at.year == 2099
    saved = await editor.post(where, {**FORM, "day": "2098-07-01"})
    assert await editor.said(saved) == "Saved."
    assert (await only_message(site)).due_at.year == 2098


async def test_images_that_nobody_would_see_are_reported_before_sending(
    site: Site, editor: Visitor
) -> None:
    body = '<p><img alt="x" src="bild.png"><img alt="y" src=https://x.contoso.com/seen.png></p>'
    with_pictures = {**FORM, "body": body}
    words = await editor.post("/messages/preview/text", with_pictures)
    assert "Subscribers will not see this picture: bild.png." in words.text
    where, asked = await ask(editor, with_pictures)
    assert "Subscribers will not see this picture: bild.png." in asked.text
    assert "seen.png" not in asked.text
    preview = await editor.get(where.replace("/schedule", "/preview"))
    assert "Subscribers will not see this picture: bild.png." in preview.text


async def test_the_only_list_is_chosen_and_a_message_can_be_duplicated(
    site: Site, editor: Visitor
) -> None:
    assert "<option selected>news</option>" in (await editor.get("/messages/new")).text
    await site.services.lists.create("other", "Other", "other@contoso.example")
    assert "<option selected>news" not in (await editor.get("/messages/new")).text
    assert "<option selected>news" in (await editor.get("/messages/new?list=news")).text
    await schedule(editor, {**FORM, "subject": "Again & again"})
    ref = (await only_message(site)).ref
    assert f'action="/messages/{ref}/duplicate"' in (await editor.get(f"/messages/{ref}")).text
    made = await editor.post(f"/messages/{ref}/duplicate", {})
    again = await editor.get(made.headers["location"])
    assert 'value="Again &amp; again"' in again.text
    assert "&lt;p&gt;Hi &lt;b&gt;you" in again.text
    assert (await only_draft(site)).ref != ref
    assert (await editor.post("/messages/1/duplicate", {})).status_code in (404, 422)


async def test_files_are_taken_in_the_encoding_that_they_are_in(
    site: Site, editor: Visitor
) -> None:
    files = {
        "body_file": ("a.htm", "<p>Grüße</p>".encode("utf-16"), "text/html"),
        "text_file": ("a.txt", "Zoé".encode("windows-1252"), "text/plain"),
    }
    read = await editor.post("/messages/read-file", {"which": "body"}, files=files)
    assert read.text == "<p>Grüße</p>"
    await editor.said(await editor.post("/messages/new", FORM, files=files))
    content = await site.services.composing.content(await only_draft(site))
    assert (content.body, content.text) == ("<p>Grüße</p>", "Zoé")
    nul = {"body_file": ("<i>.htm", b"a\x00" * 3 + b"b", "text/html")}
    answer = await editor.post("/messages/new", FORM, files=nul)
    assert answer.status_code == 422
    assert "&lt;i&gt;.htm: " in answer.text
    refused = await editor.post("/messages/read-file", {"which": "body"}, files=nul)
    assert refused.status_code == 422


async def test_a_large_body_may_be_typed(site: Site, editor: Visitor) -> None:
    large = f"<p>{'word ' * 500_000}</p>"
    files = {"text_file": ("", b"", "text/plain")}  # as a browser sends it
    made = await editor.post("/messages/new", {**FORM, "body": large}, files=files)
    assert made.status_code == 303, problem_in(made)
    content = await site.services.composing.content(await only_draft(site))
    assert content.body == large


async def test_a_draft_saves_itself_and_the_first_save_creates_one_draft(
    site: Site, editor: Visitor
) -> None:
    page = await editor.get("/messages/new?list=news")
    [key] = re.findall(r'name="key" value="([^"]+)"', page.text)
    form = {**FORM, "subject": "", "body": "", "day": "", "key": key}
    first = await editor.post("/messages/save", form, headers=HTMX)
    assert first.status_code == 200, problem_in(first)
    again = await editor.post("/messages/save", {**form, "body": "<p>A"}, headers=HTMX)
    assert again.json()["ref"] == first.json()["ref"], "although its answer was lost"
    saved = {**form, **again.json(), "body": "<p>B", "subject": "Hi\x00"}
    third = await editor.post("/messages/save", saved, headers=HTMX)
    draft = await only_draft(site)
    assert (draft.ref, draft.etag) == (third.json()["ref"], third.json()["etag"])
    assert (await site.services.composing.content(draft)).body == "<p>B"
    assert draft.edited_by == EDITOR
    page = await editor.get(f"/messages/{draft.ref}")
    assert page.headers["location"] == f"/messages/{draft.ref}/edit"
    assert "&lt;p&gt;B" in (await editor.get(page.headers["location"])).text
    saved |= {**third.json(), "subject": "x" * 501}
    long = await editor.post("/messages/save", saved, headers=HTMX)
    assert long.status_code == 422
    assert "Subject: must have at most 500 characters" in long.json()["problem"]
    said = [each.what for each in (await site.services.audit.newest()).entries]
    assert said.count("created draft") == 1
    assert not [each for each in said if each.startswith("POST")], "not an entry every second"


async def test_saving_again_what_was_saved_is_not_a_conflict(site: Site, editor: Visitor) -> None:
    first = (await editor.post("/messages/save", FORM, headers=HTMX)).json()
    changed = {**FORM, **first, "subject": "Changed", "text": "  "}
    second = (await editor.post("/messages/save", changed, headers=HTMX)).json()
    again = await editor.post("/messages/save", changed, headers=HTMX)  # the response was lost
    assert again.status_code == 200, again.text
    assert again.json() == second
    button = await editor.post(f"/messages/{first['ref']}/edit", changed)
    assert button.status_code == 303, problem_in(button)
    differing = await editor.post("/messages/save", {**changed, "subject": "x"}, headers=HTMX)
    assert differing.status_code == 409


async def test_the_second_window_sees_both_versions_and_neither_is_lost(
    site: Site, editor: Visitor
) -> None:
    first = (await editor.post("/messages/save", FORM, headers=HTMX)).json()
    theirs = {**FORM, **first, "body": "<p>Their <i>words"}
    other = await site.user(Role.WRITER)
    saved = await other.post("/messages/save", theirs, headers=HTMX)
    assert saved.status_code == 200, problem_in(saved)
    mine = {**FORM, **first, "body": "<p>My words"}
    conflict = await editor.post("/messages/save", mine, headers=HTMX)
    assert conflict.status_code == 409
    for text in (f"{WRITER} saved this draft", "Their &lt;i&gt;words", "My words"):
        assert text in conflict.text, text
    [etag] = re.findall(r'data-etag="([^"]+)"', conflict.text)
    kept = {**mine, "etag": html.unescape(etag)}
    done = await editor.post("/messages/save", {**kept, "resolve": "mine"}, headers=HTMX)
    assert done.status_code == 200
    composing, draft = site.services.composing, await only_draft(site)
    assert (await composing.content(draft)).body == "<p>My words"
    [theirs_kept, _] = await composing.versions.all(draft.ref)
    assert (await composing.content(theirs_kept)).body == "<p>Their <i>words"

    aside = {**mine, "body": "<p>Given up", "resolve": "theirs"}
    assert (await editor.post("/messages/save", aside, headers=HTMX)).status_code == 200
    assert (await composing.content(await only_draft(site))).body == "<p>My words"
    bodies = [
        (await composing.content(each)).body for each in await composing.versions.all(draft.ref)
    ]
    assert "<p>Given up" in bodies

    await site.services.composing.schedule(draft.ref)
    late = await editor.post("/messages/save", mine, headers=HTMX)
    assert late.status_code == 409
    assert "no longer a draft" in late.text
    await site.services.messages.delete(draft.ref)
    gone = await editor.post("/messages/save", mine, headers=HTMX)
    assert "This draft was deleted" in gone.text
    [key] = re.findall(r'data-key="([^"]+)"', gone.text)
    second = await editor.post(
        "/messages/save", {**mine, "ref": "", "etag": "", "key": key}, headers=HTMX
    )
    assert second.json()["ref"] == (await only_draft(site)).ref != draft.ref


async def test_a_version_is_compared_and_restored(site: Site, editor: Visitor) -> None:
    composing = site.services.composing
    old = ContentChange(subject="Old", body="<p>One</p>\n<p>Two words</p>\n", text="")
    draft = await composing.create(old, "bob@contoso.example")
    new = ContentChange(subject="New", body="<p>One</p>\n<p>Two swords</p>\n", text="")
    await composing.save(draft.ref, new, EDITOR)
    page = await editor.get(f"/messages/{draft.ref}/versions")
    assert "<del>words</del><ins>swords</ins>" in page.text
    assert "<del>Old</del><ins>New</ins>" in page.text
    [version] = re.findall(r'name="version" value="([^"]+)"', page.text)
    etag = (await only_draft(site)).etag
    done = await editor.post(f"/messages/{draft.ref}/restore", {"version": version, "etag": etag})
    assert "Version restored." in await editor.said(done)
    assert (await only_draft(site)).subject == "Old"
    stale = await editor.post(f"/messages/{draft.ref}/restore", {"version": version, "etag": etag})
    assert "changed in the meantime" in await editor.said(stale)
    empty = await composing.create(ContentChange(), EDITOR)
    assert "No earlier versions" in (await editor.get(f"/messages/{empty.ref}/versions")).text


async def test_a_writer_hands_over_what_an_editor_sends(site: Site, editor: Visitor) -> None:
    writer = await site.user(Role.WRITER)
    page = await writer.get("/messages/new")
    assert "Hand over for sending" in page.text
    assert "Send now…" not in page.text
    handed = await writer.post("/messages/new", {**FORM, "then": "hand-over"})
    assert "Withdrawn." in await writer.undo(handed)
    draft = await only_draft(site)
    assert draft.ready_by == ""
    where = f"/messages/{draft.ref}"
    form = {**FORM, "etag": draft.etag, "then": "hand-over"}
    assert "Handed over." in await writer.said(await writer.post(f"{where}/edit", form))
    assert (await only_draft(site)).ready_by == WRITER
    for path in ("schedule", "unschedule", "pause"):
        assert (await writer.post(f"{where}/{path}", {})).status_code == 403
    for page in (await editor.get("/"), await editor.get("/messages/drafts")):
        assert "ready to send" in page.text
        assert WRITER in page.text
    back = await editor.post(f"{where}/take-back", {})
    assert "Withdrawn." in await editor.said(back)
    assert (await only_draft(site)).ready_by == ""
    await editor.post(f"{where}/schedule", {})
    message = await only_message(site)
    assert message.status is MessageStatus.PENDING
    for path in ("edit", "delete"):
        assert (await writer.get(f"{where}/{path}")).status_code == 403
    unscheduled = await editor.post(f"{where}/unschedule", {})
    assert "draft again" in await editor.said(unscheduled)
    question = await writer.get(f"{where}/delete")
    assert "Delete this draft?" in question.text
    assert await writer.said(await writer.post(f"{where}/delete", {})) == "Draft deleted."
    assert await site.services.times.drafts(limit=1) == []


async def test_a_scheduled_message_offers_what_its_format_allows(
    site: Site, editor: Visitor
) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    writer = await site.user(Role.WRITER)
    for format, body in ((MessageFormat.HTML, "<p>x</p>"), (MessageFormat.MARKDOWN, "x")):
        change = ContentChange(
            list_name="news", subject="Hi", format=format, body=body, text="", scheduled_at=at
        )
        draft = await site.services.composing.create(change, EDITOR)
        await site.services.composing.schedule(draft.ref)
        where = f"/messages/{draft.ref}"
        page = (await editor.get(where)).text
        has_source = format is not MessageFormat.HTML
        assert (f'href="{where}/edit"' in page) is not has_source
        assert (">Unschedule and edit<" in page) is has_source
        page = (await writer.get(where)).text
        assert f'action="{where}/duplicate"' in page, "writers may duplicate"
        assert f"{where}/unschedule" not in page
        assert (await writer.post(f"{where}/duplicate", {})).status_code == 303
        if has_source:
            moved = await editor.get(f"{where}/edit")
            assert "unschedule it first" in await editor.said(moved)
            opened = await editor.post(f"{where}/unschedule", {})
            assert opened.headers["location"] == f"{where}/edit"


async def test_drafts_are_listed_searched_and_seen_by_viewers(site: Site, editor: Visitor) -> None:
    composing = site.services.composing
    nameless = await composing.create(ContentChange(), "ann@contoso.example")
    winter = await composing.create(
        ContentChange(subject="Winter <sale>", list_name="news"), "bob@contoso.example"
    )
    viewer = await site.user(Role.VIEWER)
    page = await viewer.get("/messages/drafts")
    assert page.text.index("Winter &lt;sale&gt;") < page.text.index("(no subject)")
    assert re.search(r'Drafts <span class="count">2</span>', page.text)
    assert nameless.ref not in (await viewer.get("/messages/drafts?list=news")).text
    assert winter.ref in (await viewer.get("/search?q=winter")).text
    opened = await viewer.get(f"/messages/{winter.ref}")
    assert opened.headers["location"] == f"/messages/{winter.ref}/preview"
    assert (await viewer.get(f"/messages/{winter.ref}/edit")).status_code == 403


WRONG: tuple[tuple[dict[str, str], str], ...] = (
    ({"list": "nowhere"}, "list"),
    ({"list": ""}, "list"),
    ({"subject": ""}, "subject"),
    ({"subject": "{{ unsubscribe_url }}"}, "subject"),
    ({"reply_to": "nobody"}, "reply_to"),
    ({"body": ""}, "body"),
    ({"body": "<p>{{ nothing }}</p>"}, "body"),
    ({"body": "  \n"}, "body"),
    ({"body": "<p>&nbsp;</p>", "text": "Hi"}, "body"),
    ({"text": "{{ broken"}, "text"),
    ({"day": ""}, "scheduled_at"),
    ({"day": "2099-03-29", "clock": "02:30"}, "scheduled_at"),
    ({"zone": "Nowhere/Land"}, "scheduled_at"),
)


async def test_errors_are_shown_next_to_the_field_and_no_input_is_lost(
    site: Site, editor: Visitor
) -> None:
    for changed, field in WRONG:
        given = {**FORM, "subject": "Keep <this>", **changed}
        answer = await editor.post("/messages/new", {**given, "then": "schedule"})
        if answer.status_code == 303:
            answer = await editor.get(answer.headers["location"])
        assert answer.status_code == 422, changed
        assert f'id="{field}-help" class="wrong"' in answer.text, changed
        shown = html.unescape(answer.text)
        assert given["body"].strip() in shown
        assert given["subject"] in shown
        assert "Keep <this>" not in answer.text
    assert (await site.services.messages.slice()).messages == []


async def test_the_preview_is_the_mail_in_a_frame_without_rights(
    site: Site, editor: Visitor
) -> None:
    body = "<h1 style='color:red'>Hi {{ email }}</h1><script>alert(1)</script>"
    frame = await editor.post("/messages/preview/html", {**FORM, "body": body})
    assert "<h1 style='color:red'>Hi subscriber@example.com</h1>" in frame.text
    assert "/unsubscribe?" in frame.text, "the footer is there, too"
    policy_of_frame = frame.headers["content-security-policy"]
    rights = policy_of_frame.partition(";")[0]
    # Of the same origin, so that the page can keep the scroll position; but without scripts.
    assert rights == "sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox"
    assert "default-src 'none'" in policy_of_frame
    own = f"{site.context.base_url}/media/ {site.context.base_url}/logo/"
    assert f"img-src data: {own};" in policy_of_frame, "it has no others"
    assert frame.headers["referrer-policy"] == "no-referrer"
    assert "script-src" not in policy_of_frame
    assert "frame-ancestors 'self'" in policy_of_frame
    assert frame.headers["x-frame-options"] == "SAMEORIGIN"
    words = await editor.post("/messages/preview/text", {**FORM, "body": body, "subject": "<i>"})
    assert '<span class="inbox-subject">&lt;i&gt;</span>' in words.text
    assert "Hi subscriber@example.com" in words.text
    assert "0</strong> confirmed subscribers" in words.text
    assert "<script>" not in words.text
    broken = await editor.post("/messages/preview/text", {**FORM, "body": "{{ x }}"})
    assert "merge field" in broken.text
    nothing = await editor.post("/messages/preview/html", {**FORM, "body": "{{ x }}"})
    assert nothing.status_code == 200
    assert nothing.headers["content-security-policy"] == policy_of_frame


async def test_a_document_keeps_its_type_in_the_frame(site: Site, editor: Visitor) -> None:
    body = "<!DOCTYPE html><html><body><p>Hi</p></body></html>"
    frame = await editor.post("/messages/preview/html", {**FORM, "body": body})
    assert frame.text.startswith('<!DOCTYPE html><base target="_blank">')


async def test_a_message_has_its_preview_for_viewers(site: Site, editor: Visitor) -> None:
    await schedule(editor, FORM)
    ref = (await only_message(site)).ref
    viewer = await site.user(Role.VIEWER)
    page = await viewer.get(f"/messages/{ref}/preview")
    assert f'{SANDBOX} src="/messages/{ref}/preview/html"' in page.text
    frame = await viewer.get(f"/messages/{ref}/preview/html")
    assert "<p>Hi <b>you</b></p>" in frame.text
    assert frame.headers["content-security-policy"].startswith("sandbox allow-popups")


async def test_pictures_of_other_sites_are_loaded_only_for_those_who_ask(
    site: Site, editor: Visitor
) -> None:
    body = '<p>Hi</p><img src="https://pictures.example/seen.png">'
    await schedule(editor, {**FORM, "body": body})
    ref = (await only_message(site)).ref
    for somebody in (await site.user(Role.VIEWER), editor):
        page = await somebody.get(f"/messages/{ref}/preview")
        assert f'<a href="/messages/{ref}/preview?pictures=yes">Load pictures</a>' in page.text
        frame = await somebody.get(f"/messages/{ref}/preview/html")
        own = f"{site.context.base_url}/media/ {site.context.base_url}/logo/"
        assert f"img-src data: {own};" in frame.headers["content-security-policy"]
        asked = await somebody.get(f"/messages/{ref}/preview?pictures=yes")
        assert "Load pictures" not in asked.text
        assert f'src="/messages/{ref}/preview/html?pictures=yes"' in asked.text
        frame = await somebody.get(f"/messages/{ref}/preview/html?pictures=yes")
        shown = f"img-src data: {own} https://pictures.example;"
        assert shown in frame.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("body", "remote"),
    [
        ("<img src=https://a.example/b.png>", True),
        ("<td background='//a.example/b.png'>", True),
        ("<style>p { background: url( 'http://a.example/b.png') }</style>", True),
        ("<img src='data:image/png;base64,AA=='><a href='https://a.example'>a</a>", False),
    ],
)
def test_pictures_on_other_web_servers_are_found(body: str, remote: bool) -> None:
    assert has_remote_pictures(body) is remote


async def test_a_test_email_is_marked_and_leaves_no_trace(site: Site, editor: Visitor) -> None:
    sent = await editor.post(
        "/messages/test", {**FORM, "test_to": "me@example.org"}, headers={"HX-Request": "true"}
    )
    assert "Test sent to me@example.org." in sent.text
    [file] = (site.context.settings.storage.data / "outbox").glob("*.eml")
    mail = message_from_bytes(file.read_bytes(), policy=policy.default)
    assert mail["Subject"] == "[Test] Hello"
    assert mail["To"] == "me@example.org"
    assert mail.get_content_type() == "multipart/alternative"
    assert (await site.services.messages.slice()).messages == []
    whole = await editor.post("/messages/test", {**FORM, "test_to": "<b>"})
    assert whole.status_code == 200
    assert 'class="problem"' in whole.text
    assert "<b>:" not in whole.text
    assert 'value="Hello"' in whole.text, "without a script the form comes back as it was"


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "Enter at least one address"),
        (11, "A test goes to at most 10 addresses, not 11: remove 1"),
    ],
)
async def test_a_test_goes_to_one_to_ten_addresses(
    site: Site, editor: Visitor, count: int, said: str
) -> None:
    to = ", ".join(f"user{number}@example.org" for number in range(count))
    answer = await editor.post("/messages/test", {**FORM, "test_to": to}, headers=HTMX)
    assert f'<p class="problem" role="status">{said}</p>' in answer.text
    assert list((site.context.settings.storage.data / "outbox").glob("*.eml")) == []


async def test_a_test_email_reads_as_the_chosen_subscriber_gets_it(
    site: Site, editor: Visitor
) -> None:
    await site.services.fields.declare("news", [Field("city")])
    await site.services.subscriptions.add(
        "news", "ann@example.com", verified=True, attributes={"city": "Bern"}
    )
    body = '<p>Hi from {{ city | default: "nowhere" }}</p>'
    form = {**FORM, "body": body, "test_to": "me@example.org"}
    for chosen, shown in (("", "nowhere"), ("Ann@example.com", "Bern")):
        sent = await editor.post("/messages/test", {**form, "preview_as": chosen}, headers=HTMX)
        assert "Test sent to me@example.org." in sent.text
        [file] = (site.context.settings.storage.data / "outbox").glob("*.eml")
        mail = message_from_bytes(file.read_bytes(), policy=policy.default)
        text = mail.get_body(("plain",))
        assert text is not None
        assert f"Hi from {shown}" in text.get_content()
        file.unlink()
    unknown = {**form, "preview_as": "nobody@example.com"}
    refused = await editor.post("/messages/test", unknown, headers=HTMX)
    assert "Test sent" not in refused.text
    assert "nobody@example.com" in refused.text


async def test_the_link_to_the_web_page_leads_to_the_preview_until_someone_got_the_message(
    site: Site, editor: Visitor
) -> None:
    body = '<p><a href="{{ web_url }}">View in browser</a></p>'
    saved = (await editor.post("/messages/save", {**FORM, "body": body}, headers=HTMX)).json()
    preview = f"{site.context.base_url}/messages/{saved['ref']}/preview"
    form = {**FORM, **saved, "body": body}
    assert f'href="{preview}"' in (await editor.post("/messages/preview/html", form)).text
    await editor.post("/messages/test", {**form, "test_to": "me@example.org"}, headers=HTMX)
    [file] = (site.context.settings.storage.data / "outbox").glob("*.eml")
    mail = message_from_bytes(file.read_bytes(), policy=policy.default)
    text = mail.get_body(("plain",))
    assert text is not None
    assert preview in text.get_content()
    await editor.post(f"/messages/{saved['ref']}/schedule", {})
    rendered = await site.context.renderer.render(saved["ref"])
    assert f'href="{preview}"' in (rendered.html or "")


async def test_a_test_email_that_cannot_be_sent_says_why(
    tmp_path: Path, quick_passwords: None
) -> None:
    with running_smtp_sink("-f", "RCPT") as sink:
        await check_refused(tmp_path, f"smtp://127.0.0.1:{sink.port}")


async def check_refused(folder: Path, transport: str) -> None:
    async with running_site(folder, {"transport": transport}) as site:
        await site.services.lists.create("news", "News", "news@contoso.example")
        editor = await site.user(Role.EDITOR)
        answer = await editor.post("/messages/test", {**FORM, "test_to": "me@example.org"})
        assert 'class="problem"' in answer.text
        assert "me@example.org was refused: 500 " in answer.text


async def test_the_second_to_save_sees_both_versions_and_loses_nothing(
    site: Site, editor: Visitor
) -> None:
    await schedule(editor, FORM)
    message = await only_message(site)
    where = f"/messages/{message.ref}/edit"
    page = await editor.get(where)
    etag = etag_in(page)
    assert "&lt;p&gt;Hi &lt;b&gt;you" in page.text
    theirs = NewBodies("<p>Their <i>words</i></p>", "Their words")
    await site.services.messages.edit(message.ref, subject="Theirs", bodies=theirs)
    mine = {**FORM, "subject": "Mine", "body": "<p>My words</p>", "etag": etag}
    answer = await editor.post(where, mine)
    assert answer.status_code == 409
    assert "Someone else saved changes first" in answer.text
    for text in ("Theirs", "Their &lt;i&gt;words", 'value="Mine"', "My words"):
        assert text in answer.text, text
    assert (await only_message(site)).subject == "Theirs"
    saved = await editor.post(where, {**mine, "etag": etag_in(answer)})
    assert await editor.said(saved) == "Saved."
    assert (await only_message(site)).subject == "Mine"
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>My words</p>", "My words\n")


async def test_a_generated_text_follows_the_html(site: Site, editor: Visitor) -> None:
    await schedule(editor, FORM)
    where = f"/messages/{(await only_message(site)).ref}/edit"
    page = await editor.get(where)
    assert re.search(r'<textarea id="text"[^>]*>\n</textarea>', page.text)
    await editor.said(await editor.post(where, {**FORM, "body": "<p>New words</p>"}))
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>New words</p>", "New words\n")
    await editor.said(await editor.post(where, {**FORM, "text": "My own"}))
    assert "My own</textarea>" in (await editor.get(where)).text
    only_text = {**FORM, "body": "", "text": "My own"}
    await editor.said(await editor.post(where, only_text))
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies(None, "My own")


async def test_only_a_draft_or_a_pending_message_is_edited_or_deleted(
    site: Site, editor: Visitor
) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    question = await editor.get(f"/messages/{message.ref}/delete")
    assert "Delete this message?" in question.text
    await site.services.message_states.pause(message.ref)
    assert (await editor.get(f"/messages/{message.ref}/delete")).status_code == 409
    assert (await editor.post(f"/messages/{message.ref}/delete")).status_code == 409
    assert (await editor.get(f"/messages/{message.ref}/edit")).status_code == 200
    await site.services.message_states.cancel(message.ref)
    assert (await editor.get(f"/messages/{message.ref}/edit")).status_code == 409
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    await site.services.message_states.pause(message.ref)
    await site.services.message_states.resume(message.ref)
    gone = await editor.post(f"/messages/{message.ref}/delete")
    assert await editor.said(gone) == "Message deleted."
    assert (await editor.get(f"/messages/{message.ref}")).status_code == 404
