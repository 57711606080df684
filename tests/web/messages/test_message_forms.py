"""Writing messages, over HTTP: schedule, preview, test, edit, with all that can go wrong."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from postroom.domain.messages.messages import Message
from postroom.mail.html import has_remote_pictures
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from tests.services.smtp_sink import running_smtp_sink
from tests.web.forms import forms_in
from tests.web.site import Site, Visitor, problem_in, running_site

LATER = {"when": "later", "day": "2099-07-01", "clock": "09:00", "zone": "Europe/Paris"}
SANDBOX = 'sandbox="allow-popups allow-popups-to-escape-sandbox"'
FORM = {"list": "news", "subject": "Hello", "html": "<p>Hi <b>you</b></p>", "text": "", **LATER}
NOW = {**FORM, "when": "now", "day": ""}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def only_message(site: Site) -> Message:
    [message] = (await site.services.messages.page()).messages
    return message


async def test_without_a_list_it_says_to_make_one(site: Site) -> None:
    editor = await site.user(Role.EDITOR)
    page = await editor.get("/messages/new")
    assert "No lists yet" in page.text
    assert "/lists/new" in page.text


async def test_a_message_is_scheduled_in_a_time_zone_with_a_text_generated_from_its_html(
    site: Site, editor: Visitor
) -> None:
    made = await editor.post("/messages/new", FORM)
    assert await editor.said(made) == "Message scheduled."
    message = await only_message(site)
    assert made.headers["location"] == f"/messages/{message.ref}"
    assert message.scheduled_at == datetime(2099, 7, 1, 7, tzinfo=UTC)
    bodies = await site.services.messages.bodies(message)
    assert bodies == NewBodies("<p>Hi <b>you</b></p>", "Hi you\n")
    page = await editor.get(f"/messages/{message.ref}")
    assert "Pending" in page.text
    assert "confirmed subscribers" in page.text, "an estimate"


async def test_now_means_now(site: Site, editor: Visitor) -> None:
    before = datetime.now(UTC)
    made = await editor.post("/messages/new", {**NOW, "sure": "yes"})
    assert await editor.said(made) == "Sending started."
    message = await only_message(site)
    assert before <= message.due_at <= datetime.now(UTC)


async def test_sending_to_everyone_needs_a_confirmation(site: Site, editor: Visitor) -> None:
    for number in range(3):
        await site.services.subscriptions.add("news", f"r{number}@example.com", verified=number > 0)
    asked = await editor.post("/messages/new", {**NOW, "subject": "A & B", "text": "One\r\ntwo"})
    assert asked.status_code == 200, problem_in(asked)
    shown = html.unescape(asked.text)
    assert "Send “A & B” to 2 subscribers of news now?" in shown
    assert "has passed" not in shown
    assert (await site.services.messages.page()).messages == []
    assert (await site.services.audit.newest()).entries == [], "nothing was done yet"
    [form] = [each for each in forms_in(asked.text, "") if each.action == "/messages/new"]
    carried = {name: text for name, text in form.fields if name != "csrf"}
    back = await editor.post("/messages/new", {**carried, "sure": "back"})
    for text in ('value="A &amp; B"', "&lt;p&gt;Hi &lt;b&gt;you", ">\nOne\ntwo</textarea>"):
        assert text in back.text.replace("\r\n", "\n"), text
    assert (await site.services.messages.page()).messages == []
    made = await editor.post("/messages/new", {**carried, "sure": "yes"})
    assert await editor.said(made) == "Sending started."
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>Hi <b>you</b></p>", "One\ntwo")


async def test_a_time_in_the_past_is_pointed_out_before_sending(
    site: Site, editor: Visitor
) -> None:
    past = {**FORM, "day": "2020-07-01"}
    asked = await editor.post("/messages/new", past)
    assert "The scheduled time" in asked.text
    assert '<time datetime="2020-07-01T07:00:00Z"' in asked.text
    assert "The list news has no confirmed subscribers" in asked.text
    await editor.post("/messages/new", FORM)
    where = f"/messages/{(await only_message(site)).ref}/edit"
    asked = await editor.post(where, past)
    assert "The scheduled time" in asked.text
    assert f'action="{where}"' in asked.text
    assert (await only_message(site)).due_at.year == 2099
    saved = await editor.post(where, {**past, "sure": "yes"})
    assert await editor.said(saved) == "Saved."
    assert (await only_message(site)).due_at.year == 2020


async def test_images_that_nobody_would_see_are_reported_before_sending(
    site: Site, editor: Visitor
) -> None:
    body = '<p><img alt="x" src="bild.png"><img src=https://example.org/seen.png></p>'
    with_pictures = {**FORM, "html": body}
    words = await editor.post("/messages/preview/text", with_pictures)
    assert "Subscribers will not see this picture: bild.png." in words.text
    asked = await editor.post("/messages/new", {**with_pictures, "when": "now"})
    assert "Subscribers will not see this picture: bild.png." in asked.text
    assert "seen.png" not in asked.text.partition("<form")[0].partition("main")[2]
    made = await editor.post("/messages/new", with_pictures)
    assert "Subscribers will not see: bild.png" in await editor.said(made)
    preview = await editor.get(f"{made.headers['location']}/preview")
    assert "Subscribers will not see this picture: bild.png." in preview.text


async def test_the_only_list_is_chosen_and_a_message_can_be_used_again(
    site: Site, editor: Visitor
) -> None:
    assert "<option selected>news</option>" in (await editor.get("/messages/new")).text
    await site.services.lists.create("other", "Other", "other@contoso.example")
    assert "<option selected>news" not in (await editor.get("/messages/new")).text
    await editor.post("/messages/new", {**FORM, "subject": "Again & again"})
    ref = (await only_message(site)).ref
    await site.services.messages.cancel(ref)
    page = await editor.get(f"/messages/{ref}")
    assert f'href="/messages/new?like={ref}"' in page.text
    again = await editor.get(f"/messages/new?like={ref}")
    assert 'value="Again &amp; again"' in again.text
    assert "&lt;p&gt;Hi &lt;b&gt;you" in again.text
    assert 'name="ref" value=""' in again.text
    assert 'name="etag" value=""' in again.text
    assert (await editor.get("/messages/new?like=1")).status_code in (404, 422)


async def test_files_are_taken_in_the_encoding_that_they_are_in(
    site: Site, editor: Visitor
) -> None:
    files = {
        "html_file": ("a.htm", "<p>Grüße</p>".encode("utf-16"), "text/html"),
        "text_file": ("a.txt", "Zoé".encode("windows-1252"), "text/plain"),
    }
    read = await editor.post("/messages/read-file", {"which": "html"}, files=files)
    assert read.text == "<p>Grüße</p>"
    await editor.said(await editor.post("/messages/new", FORM, files=files))
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>Grüße</p>", "Zoé")
    nul = {"html_file": ("<i>.htm", b"a\x00" * 3 + b"b", "text/html")}
    answer = await editor.post("/messages/new", FORM, files=nul)
    assert answer.status_code == 422
    assert "&lt;i&gt;.htm: " in answer.text
    refused = await editor.post("/messages/read-file", {"which": "html"}, files=nul)
    assert refused.status_code == 422


async def test_a_large_body_may_be_typed(site: Site, editor: Visitor) -> None:
    large = f"<p>{'word ' * 500_000}</p>"
    files = {"text_file": ("", b"", "text/plain")}  # as a browser sends it
    made = await editor.post("/messages/new", {**FORM, "html": large}, files=files)
    assert made.status_code == 303, problem_in(made)
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies.html == large


async def test_a_form_that_is_sent_twice_makes_one_message(site: Site, editor: Visitor) -> None:
    page = await editor.get("/messages/new?list=news")
    [key] = re.findall(r'name="key" value="([^"]+)"', page.text)
    first = await editor.post("/messages/new", {**FORM, "key": key})
    second = await editor.post("/messages/new", {**FORM, "key": key})
    assert first.headers["location"] == second.headers["location"]
    await only_message(site)
    other = await editor.post("/messages/new", {**FORM, "key": key, "subject": "Another"})
    assert other.headers["location"] != first.headers["location"]
    await editor.post("/messages/new", {**FORM, "key": "not.ours"})
    assert len((await site.services.messages.page()).messages) == 3


WRONG: tuple[tuple[dict[str, str], str], ...] = (
    ({"list": "nowhere"}, "list"),
    ({"list": ""}, "list"),
    ({"subject": ""}, "subject"),
    ({"subject": "a\nb"}, "subject"),
    ({"subject": "{{ unsubscribe_url }}"}, "subject"),
    ({"html": ""}, "html"),
    ({"html": "<p>{{ nothing }}</p>"}, "html"),
    ({"html": "  \n"}, "html"),
    ({"html": "<p>&nbsp;</p>", "text": "Hi"}, "html"),
    ({"text": "{{ broken"}, "text"),
    ({"day": ""}, "scheduled_at"),
    ({"day": "2099-03-29", "clock": "02:30"}, "scheduled_at"),
    ({"zone": "Nowhere/Land"}, "scheduled_at"),
)


async def test_errors_are_shown_beside_the_field_and_no_input_is_lost(
    site: Site, editor: Visitor
) -> None:
    for changed, field in WRONG:
        given = {**FORM, "subject": "Keep <this>", **changed}
        answer = await editor.post("/messages/new", given)
        assert answer.status_code == 422, changed
        assert f'id="{field}-help" class="wrong"' in answer.text, changed
        shown = html.unescape(answer.text)
        assert given["html"] in shown
        assert given["subject"].replace("\n", "") in shown.replace("\n", "")
        assert "Keep <this>" not in answer.text
    assert (await site.services.messages.page()).messages == []


async def test_the_preview_is_the_mail_in_a_frame_without_rights(
    site: Site, editor: Visitor
) -> None:
    body = "<h1 style='color:red'>Hi {{ email }}</h1><script>alert(1)</script>"
    frame = await editor.post("/messages/preview/html", {**FORM, "html": body})
    assert "<h1 style='color:red'>Hi subscriber@example.com</h1>" in frame.text
    assert "/unsubscribe?" in frame.text, "the footer is there, too"
    policy_of_frame = frame.headers["content-security-policy"]
    rights = policy_of_frame.partition(";")[0]
    # Of the same origin, so that the page can keep the scroll position; but without scripts.
    assert rights == "sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox"
    assert "default-src 'none'" in policy_of_frame
    assert "img-src data: https: http:" in policy_of_frame, "who wrote it sees its pictures"
    assert frame.headers["referrer-policy"] == "no-referrer"
    assert "script-src" not in policy_of_frame
    assert "frame-ancestors 'self'" in policy_of_frame
    assert frame.headers["x-frame-options"] == "SAMEORIGIN"
    words = await editor.post("/messages/preview/text", {**FORM, "html": body, "subject": "<i>"})
    assert "Subject: <strong>&lt;i&gt;</strong>" in words.text
    assert "Hi subscriber@example.com" in words.text
    assert "0</strong> confirmed subscribers" in words.text
    assert "<script>" not in words.text
    broken = await editor.post("/messages/preview/text", {**FORM, "html": "{{ x }}"})
    assert "there is no merge field" in broken.text
    nothing = await editor.post("/messages/preview/html", {**FORM, "html": "{{ x }}"})
    assert nothing.status_code == 200
    assert nothing.headers["content-security-policy"] == policy_of_frame


async def test_a_document_keeps_its_type_in_the_frame(site: Site, editor: Visitor) -> None:
    body = "<!DOCTYPE html><html><body><p>Hi</p></body></html>"
    frame = await editor.post("/messages/preview/html", {**FORM, "html": body})
    assert frame.text.startswith('<!DOCTYPE html><base target="_blank">')


async def test_a_message_has_its_preview_for_viewers(site: Site, editor: Visitor) -> None:
    await editor.post("/messages/new", FORM)
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
    await editor.post("/messages/new", {**FORM, "html": body})
    ref = (await only_message(site)).ref
    for somebody in (await site.user(Role.VIEWER), editor):
        page = await somebody.get(f"/messages/{ref}/preview")
        assert f'<a href="/messages/{ref}/preview?pictures=yes">Load pictures</a>' in page.text
        frame = await somebody.get(f"/messages/{ref}/preview/html")
        assert "img-src data:;" in frame.headers["content-security-policy"]
        asked = await somebody.get(f"/messages/{ref}/preview?pictures=yes")
        assert "Load pictures" not in asked.text
        assert f'src="/messages/{ref}/preview/html?pictures=yes"' in asked.text
        frame = await somebody.get(f"/messages/{ref}/preview/html?pictures=yes")
        assert "img-src data: https: http:;" in frame.headers["content-security-policy"]


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


async def test_a_test_mail_is_marked_and_leaves_no_trace(site: Site, editor: Visitor) -> None:
    sent = await editor.post(
        "/messages/test", {**FORM, "test_to": "me@example.org"}, headers={"HX-Request": "true"}
    )
    assert "Test sent to me@example.org." in sent.text
    [file] = (site.context.settings.storage.data / "outbox").glob("*.eml")
    mail = message_from_bytes(file.read_bytes(), policy=policy.default)
    assert mail["Subject"] == "[Test] Hello"
    assert mail["To"] == "me@example.org"
    assert mail.get_content_type() == "multipart/alternative"
    assert (await site.services.messages.page()).messages == []
    whole = await editor.post("/messages/test", {**FORM, "test_to": "<b>"})
    assert whole.status_code == 200
    assert 'class="problem"' in whole.text
    assert "<b>:" not in whole.text
    assert 'value="Hello"' in whole.text, "without a script the form comes back as it was"


async def test_a_test_mail_that_cannot_be_sent_says_why(
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
    await editor.post("/messages/new", FORM)
    message = await only_message(site)
    where = f"/messages/{message.ref}/edit"
    page = await editor.get(where)
    [etag] = re.findall(r'name="etag" value="([^"]+)"', page.text)
    assert "&lt;p&gt;Hi &lt;b&gt;you" in page.text
    theirs = NewBodies("<p>Their <i>words</i></p>", "Their words")
    await site.services.messages.edit(message.ref, subject="Theirs", bodies=theirs)
    mine = {**FORM, "subject": "Mine", "html": "<p>My words</p>", "etag": html.unescape(etag)}
    answer = await editor.post(where, mine)
    assert answer.status_code == 409
    assert "Someone else saved changes first" in answer.text
    for text in ("Theirs", "Their &lt;i&gt;words", 'value="Mine"', "My words"):
        assert text in answer.text, text
    assert (await only_message(site)).subject == "Theirs"
    [fresh] = re.findall(r'name="etag" value="([^"]+)"', answer.text)
    saved = await editor.post(where, {**mine, "etag": html.unescape(fresh)})
    assert await editor.said(saved) == "Saved."
    assert (await only_message(site)).subject == "Mine"
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>My words</p>", "My words\n")


async def test_a_generated_text_follows_the_html(site: Site, editor: Visitor) -> None:
    await editor.post("/messages/new", FORM)
    where = f"/messages/{(await only_message(site)).ref}/edit"
    page = await editor.get(where)
    assert re.search(r'<textarea id="text"[^>]*>\n</textarea>', page.text)
    await editor.said(await editor.post(where, {**FORM, "html": "<p>New words</p>"}))
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies("<p>New words</p>", "New words\n")
    await editor.said(await editor.post(where, {**FORM, "text": "My own"}))
    assert "My own</textarea>" in (await editor.get(where)).text
    only_text = {**FORM, "html": "", "text": "My own"}
    await editor.said(await editor.post(where, only_text))
    bodies = await site.services.messages.bodies(await only_message(site))
    assert bodies == NewBodies(None, "My own")


async def test_only_a_pending_message_is_edited_or_deleted(site: Site, editor: Visitor) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    question = await editor.get(f"/messages/{message.ref}/delete")
    assert "Delete this message?" in question.text
    await site.services.messages.pause(message.ref)
    assert (await editor.get(f"/messages/{message.ref}/delete")).status_code == 409
    assert (await editor.post(f"/messages/{message.ref}/delete")).status_code == 409
    assert (await editor.get(f"/messages/{message.ref}/edit")).status_code == 200
    await site.services.messages.cancel(message.ref)
    assert (await editor.get(f"/messages/{message.ref}/edit")).status_code == 409
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    await site.services.messages.pause(message.ref)
    await site.services.messages.resume(message.ref)
    gone = await editor.post(f"/messages/{message.ref}/delete")
    assert await editor.said(gone) == "Message deleted."
    assert (await editor.get(f"/messages/{message.ref}")).status_code == 404
