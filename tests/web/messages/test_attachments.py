"""Files that are attached in the editor: uploaded at once, saved with the form."""

import json

import pytest

from postroom.services.accounts.users import Role
from postroom.services.messages.drafts import stored_attachments
from postroom.services.messages.drafts.draft_contents import ContentChange
from tests.web.site import Site, Visitor


async def upload(visitor: Visitor, ref: str, name: str, content: bytes) -> dict[str, object]:
    answer = await visitor.post(
        f"/messages/{ref}/attachments", {}, files={"file": (name, content, "text/html")}
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()["attachment"]
    return found


async def test_a_file_is_uploaded_saved_shown_and_sent_with_a_test(site: Site) -> None:
    await site.services.lists.create("news", "News", "news@contoso.example")
    writer = await site.user(Role.WRITER)
    draft = await site.services.composing.create(ContentChange(list_name="news"), "ann")
    described = await upload(writer, draft.ref, "plan <1>.pdf", b"%PDF x")
    assert (described["name"], described["type"]) == ("plan <1>.pdf", "application/pdf")
    assert (await site.services.messages.get(draft.ref)).attachments == ()

    form = {"list": "news", "subject": "Hi", "body": "<p>Hi</p>", "ref": draft.ref,
            "etag": draft.etag, "attachments": json.dumps([described])}  # fmt: skip
    saved = await writer.post("/messages/save", form)
    assert saved.status_code == 200, saved.text
    [kept] = (await site.services.messages.get(draft.ref)).attachments
    assert kept.name == "plan <1>.pdf"
    page = await writer.get(f"/messages/{draft.ref}/edit")
    assert "plan &lt;1&gt;.pdf" in page.text
    tested = await writer.post("/messages/test", {**form, "test_to": "ann@example.com"})
    assert "Test sent to" in tested.text
    outbox = await (await site.user()).get("/outbox")
    assert "Hi" in outbox.text

    again = {**form, "etag": saved.json()["etag"], "attachments": ""}
    assert (await writer.post("/messages/save", again)).status_code == 200
    assert (await site.services.messages.get(draft.ref)).attachments == ()


async def test_what_was_not_uploaded_or_may_not_be_attached_is_refused(site: Site) -> None:
    await site.services.lists.create("news", "News", "news@contoso.example")
    writer = await site.user(Role.WRITER)
    draft = await site.services.composing.create(ContentChange(list_name="news"), "ann")
    place = f"/messages/{draft.ref}/attachments"
    for name, content in (("run.exe", b"x"), ("a.pdf", b"MZ"), ("a.pdf", b"")):
        refused = await writer.post(place, {}, files={"file": (name, content, "text/plain")})
        assert refused.status_code == 422
        assert name in refused.text
    assert (await writer.post(place, {})).status_code == 422
    large = await writer.post(place, {}, files={"file": ("a.bin", b"x" * 11_000_000, "a/b")})
    assert large.status_code == 413
    forged = json.dumps([{"name": "a.pdf", "type": "application/pdf", "size": 1, "hash": "a" * 64}])
    form = {"list": "news", "ref": draft.ref, "etag": draft.etag}
    for bad in (forged, "[", '[{"name": "x"}]'):
        saved = await writer.post("/messages/save", {**form, "attachments": bad})
        assert saved.status_code == 422, bad
        assert "Attachments" in saved.text
    viewer = await site.user(Role.VIEWER)
    files = {"file": ("a.pdf", b"x", "text/plain")}
    assert (await viewer.post(place, {}, files=files)).status_code == 403
    assert (await site.visitor().post(place, {}, files=files)).status_code in (303, 403)
    unknown = "/messages/123456789012345678/attachments"
    assert (await writer.post(unknown, {}, files=files)).status_code == 404


async def test_uploads_of_one_message_are_bounded_even_if_they_are_removed_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_attachments, "MOST_UPLOADED", 100)
    writer = await site.user(Role.WRITER)
    draft = await site.services.composing.create(ContentChange(), "ann")
    await upload(writer, draft.ref, "a.txt", b"a" * 60)
    await upload(writer, draft.ref, "again.txt", b"a" * 60)
    files = {"file": ("b.txt", b"b" * 60, "text/plain")}
    refused = await writer.post(f"/messages/{draft.ref}/attachments", {}, files=files)
    assert refused.status_code == 422
    assert "of uploads per message" in refused.text
