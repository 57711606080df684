"""Pictures without scripts, and forms that somebody else sends."""

from postroom.services.accounts.users import Role
from tests.services.pictures import picture
from tests.web.site import Site


async def test_a_picture_is_uploaded_without_scripts(site: Site) -> None:
    ann = await site.user(Role.EDITOR)
    sent = await ann.post("/pictures", {}, files={"file": ("a.png", picture(), "text/html")})
    assert (sent.status_code, sent.headers["location"]) == (303, "/pictures")
    again = await ann.post("/pictures", {}, files={"file": ("b.png", picture(), "image/png")})
    assert await ann.said(again) == "a.png is already here."

    refused = await ann.post("/pictures", {}, files={"file": ("x.svg", b"<svg/>", "image/png")})
    assert refused.status_code == 422
    assert "x.svg must be a JPEG, PNG, GIF or WebP picture, not SVG" in refused.text
    without = await ann.post("/pictures", {})
    assert without.status_code == 422
    assert "Choose a picture." in without.text
    large = await ann.post("/pictures", {}, files={"file": ("x.png", bytes(7_000_000), "")})
    assert large.status_code == 413
    assert len((await site.services.pictures.slice()).pictures) == 1


async def test_an_upload_needs_the_token_of_the_page(site: Site) -> None:
    ann = await site.user(Role.EDITOR)
    file = {"file": ("a.png", picture(), "image/png")}
    forged = await ann.http.post("/pictures", files=file)
    assert forged.status_code == 403
    assert (await site.services.pictures.slice()).pictures == []


async def test_two_people_who_describe_a_picture_see_each_others_words(site: Site) -> None:
    ann = await site.user(Role.EDITOR)
    stored, _ = await site.services.pictures.upload(picture(), "a.png", by="bob@example.com")
    await site.services.pictures.describe(stored.hash, "His words")
    stale = {"alt": "Her words", "etag": stored.etag}
    conflict = await ann.post(f"/pictures/{stored.hash}", stale)
    assert conflict.status_code == 409
    assert "His words" in conflict.text
    assert 'value="Her words"' in conflict.text
    too_long = await ann.post(f"/pictures/{stored.hash}", {**stale, "alt": "x" * 501})
    assert too_long.status_code == 422
    assert (await site.services.pictures.get(stored.hash)).alt == "His words"
