"""How a list meets the public, edited by an editor."""

import html
import re

import pytest

from postroom.services.accounts.users import Role
from tests.unit.audience.test_images import jpeg, png
from tests.web.site import Site, Visitor

PAGE = "/lists/garden/signup-page"
FIELDS = {
    "public": "yes",
    "signup_text": "Soon\r\n<b>now</b>",
    "welcome_text": "Hi",
    "colour": "#2E7D32",
}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("garden", "The <Garden>", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def etag(site: Site) -> str:
    return (await site.services.lists.get("garden")).etag


async def test_words_and_colour_are_saved_and_shown(site: Site, editor: Visitor) -> None:
    page = await editor.get(PAGE)
    assert page.status_code == 200
    saved = await editor.post(PAGE, {**FIELDS, "etag": await etag(site)})
    assert await editor.said(saved) == "Saved."
    found = await site.services.lists.get("garden")
    assert (found.public, found.signup_text, found.colour) == (True, "Soon\n<b>now</b>", "#2e7d32")
    page = await editor.get(PAGE)
    assert "Soon\n&lt;b&gt;now&lt;/b&gt;" in page.text
    assert "<b>now" not in page.text
    await editor.post(PAGE, {"etag": found.etag})
    plain = await site.services.lists.get("garden")
    assert (plain.public, plain.signup_text, plain.colour) == (False, "", "")


async def test_a_logo_is_uploaded_shown_replaced_and_removed(site: Site, editor: Visitor) -> None:
    visitor = site.visitor()
    for data, kind in ((png(), "png"), (jpeg(), "jpeg")):
        sent = {**FIELDS, "etag": await etag(site)}
        saved = await editor.post(PAGE, sent, files={"logo": ("x.svg", data, "image/svg+xml")})
        assert await editor.said(saved) == "Saved."
        page = await visitor.get("/subscribe?list=garden")
        [url] = re.findall(r'<img class="logo" src="([^"]+)" alt="">', page.text)
        picture = await visitor.get(url)
        assert picture.content == data
        assert picture.headers["content-type"] == f"image/{kind}"
        assert picture.headers["x-content-type-options"] == "nosniff"
        assert "immutable" in picture.headers["cache-control"]
        unversioned = await visitor.get("/logo/garden")
        assert unversioned.headers["cache-control"] == "no-cache"
    await editor.post(PAGE, {**FIELDS, "etag": await etag(site), "remove_logo": "yes"})
    assert (await visitor.get("/logo/garden")).status_code == 404
    for nothing in ("/logo/nowhere", "/logo/a%2Fb", "/logo/%00", "/logo/" + "x" * 5000):
        assert (await visitor.get(nothing)).status_code == 404


async def test_errors_are_shown_beside_the_field_and_nothing_is_saved(
    site: Site, editor: Visitor
) -> None:
    before = await site.services.lists.get("garden")
    for field, value, problem in (
        ("colour", "red;}", "must be a colour such as #1d5fbf"),
        ("signup_text", "x" * 2001, "at most 2000 characters"),
        ("welcome_text", "a\u202eb", "U+202E"),
    ):
        answer = await editor.post(PAGE, {**FIELDS, "etag": before.etag, field: value})
        assert answer.status_code == 422
        assert problem in html.unescape(answer.text)
        assert value in html.unescape(answer.text), "nothing that was typed is lost"
    for data in (b"<svg onload=alert(1)/>", png() + bytes(200_001), png(width=5000)):
        answer = await editor.post(
            PAGE, {**FIELDS, "etag": before.etag}, files={"logo": ("a.png", data, "image/png")}
        )
        assert answer.status_code == 422
        assert "The logo " in answer.text
    huge = await editor.post(PAGE, FIELDS, files={"logo": ("a.png", bytes(1_000_000), "image/png")})
    assert huge.status_code == 413
    assert await site.services.lists.get("garden") == before


async def test_the_second_to_save_sees_both_versions_and_loses_nothing(
    site: Site, editor: Visitor
) -> None:
    seen = await etag(site)
    await site.services.lists.edit("garden", colour="#ff0000", signup_text="Theirs")
    answer = await editor.post(PAGE, {**FIELDS, "etag": seen})
    assert answer.status_code == 409
    for text in ("Someone else saved changes first", "Theirs", "#ff0000", "#2E7D32", "Soon"):
        assert text in answer.text
    [fresh] = re.findall(r'name="etag" value="([^"]+)"', answer.text)
    again = await editor.post(PAGE, {**FIELDS, "etag": html.unescape(fresh)})
    assert await editor.said(again) == "Saved."
    assert (await site.services.lists.get("garden")).colour == "#2e7d32"


async def test_the_look_follows_what_is_typed_without_saving(site: Site, editor: Visitor) -> None:
    before = await site.services.lists.get("garden")
    part = await editor.post(f"{PAGE}/preview", FIELDS)
    assert part.status_code == 200
    assert "<html" not in part.text
    assert "/subscribe/style.css?colour=2e7d32" in part.text
    assert "&lt;b&gt;now&lt;/b&gt;" in part.text
    half = await editor.post(f"{PAGE}/preview", {"colour": "#2e", "welcome_text": "x" * 100_000})
    assert "style.css" not in half.text
    assert await site.services.lists.get("garden") == before


async def test_the_form_for_a_clients_site_signs_up(site: Site, editor: Visitor) -> None:
    page = await editor.get(PAGE)
    [snippet] = re.findall(r'<code id="embed">(.*?)</code>', page.text, re.DOTALL)
    form = html.unescape(snippet)
    assert f'action="{site.context.base_url}/subscribe"' in form
    fields = dict(re.findall(r'name="(\w+)" value="(\w+)"', form))
    assert fields == {"list": "garden"}
    assert 'name="website"' in form
    answer = await site.visitor().http.post("/subscribe", data={**fields, "email": "a@example.com"})
    assert answer.status_code == 200
    assert not (await site.services.subscriptions.get("garden", "a@example.com")).verified


async def test_a_viewer_may_not(site: Site, editor: Visitor) -> None:
    viewer = await site.user(Role.VIEWER)
    for path in (PAGE, f"{PAGE}/preview"):
        assert (await viewer.post(path, FIELDS)).status_code == 403
    assert (await editor.get("/lists/nowhere/signup-page")).status_code == 404
