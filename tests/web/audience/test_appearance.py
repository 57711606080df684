"""A list's sign-up page and its brand, edited by an editor."""

import html
import re

import pytest

from postroom.domain.audience.lists.brand import Brand
from postroom.services.accounts.users import Role
from tests.unit.audience.test_images import jpeg, png
from tests.web.site import Site, Visitor

PAGE, BRAND = "/lists/garden/signup-page", "/lists/garden/brand"
FIELDS = {"public": "yes", "signup_text": "Soon\r\n<b>now</b>", "welcome_text": "Hi"}
BRAND_FIELDS = {
    "colour": "#2E7D32",
    "font": "serif",
    "website": "www.contoso.example",
    "social_links": "https://www.instagram.com/contoso\r\nhttps://social.example/@contoso",
    "footer_text": "Registered <b>charity</b>",
    "postal_address": "1 Main Street\r\nDublin",
}


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("garden", "The <Garden>", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def etag(site: Site) -> str:
    return (await site.services.lists.get("garden")).etag


async def test_the_texts_of_the_sign_up_page_are_saved_and_shown(
    site: Site, editor: Visitor
) -> None:
    page = await editor.get(PAGE)
    assert page.status_code == 200
    saved = await editor.post(PAGE, {**FIELDS, "etag": await etag(site)})
    assert await editor.said(saved) == "Saved."
    found = await site.services.lists.get("garden")
    assert (found.public, found.signup_text) == (True, "Soon\n<b>now</b>")
    page = await editor.get(PAGE)
    assert "Soon\n&lt;b&gt;now&lt;/b&gt;" in page.text
    assert "<b>now" not in page.text
    await editor.post(PAGE, {"etag": found.etag})
    plain = await site.services.lists.get("garden")
    assert (plain.public, plain.signup_text) == (False, "")


async def test_the_brand_is_saved_and_is_on_the_public_pages(site: Site, editor: Visitor) -> None:
    assert (await editor.get(BRAND)).status_code == 200
    saved = await editor.post(BRAND, {**BRAND_FIELDS, "etag": await etag(site)})
    assert await editor.said(saved) == "Saved."
    found = await site.services.lists.get("garden")
    assert (found.colour, found.font) == ("#2e7d32", "serif")
    assert found.website == "https://www.contoso.example"
    visitor = site.visitor()
    shown = (await visitor.get("/subscribe?list=garden")).text
    [style] = re.findall(r'href="(/subscribe/style.css[^"]+)"', shown)
    sheet = (await visitor.get(html.unescape(style))).text
    assert "--accent-fill: light-dark(#2e7d32, #2e7d32);" in sheet
    assert "Georgia, serif;" in sheet
    for url, text in (
        ("https://www.contoso.example", "contoso.example"),
        ("https://www.instagram.com/contoso", "Instagram"),
        ("https://social.example/@contoso", "social.example"),
    ):
        assert f'<a href="{url}" rel="noopener">{text}</a>' in shown
    assert "Registered &lt;b&gt;charity&lt;/b&gt;" in shown
    assert "1 Main Street\nDublin</address>" in shown
    assert '<span class="monogram" aria-hidden="true">T</span>' in shown
    details = (await editor.get("/lists/garden")).text
    assert "https://www.contoso.example" in details
    await editor.post(BRAND, {"etag": found.etag})
    assert (await site.services.lists.get("garden")).brand == Brand(font="serif")


async def test_the_brand_is_in_the_sample_of_the_email(site: Site, editor: Visitor) -> None:
    part = (await editor.post(f"{BRAND}/preview", BRAND_FIELDS)).text
    assert "<html" not in part
    assert "/subscribe/style.css?colour=2e7d32&amp;font=serif" in part
    assert "Registered &lt;b&gt;charity&lt;/b&gt;" in part
    [url] = re.findall(r'<iframe class="email-sample" src="([^"]+)"', part)
    email = await editor.get(html.unescape(url))
    assert "background:#2e7d32" in email.text
    assert "Registered &lt;b&gt;charity&lt;/b&gt;" in email.text
    assert email.headers["content-security-policy"].startswith("sandbox ")
    half = await editor.post(f"{BRAND}/preview", {"colour": "#2e", "website": "ftp:"})
    assert half.status_code == 200
    assert "style.css" not in half.text
    assert (await site.services.lists.get("garden")).colour == ""


async def test_a_logo_is_uploaded_shown_replaced_and_removed(site: Site, editor: Visitor) -> None:
    visitor = site.visitor()
    for data, kind in ((png(), "png"), (jpeg(), "jpeg")):
        sent = {**BRAND_FIELDS, "etag": await etag(site)}
        saved = await editor.post(BRAND, sent, files={"logo": ("x.svg", data, "image/svg+xml")})
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
    gone = {**BRAND_FIELDS, "etag": await etag(site), "remove_logo": "yes"}
    await editor.post(BRAND, gone)
    assert (await visitor.get("/logo/garden")).status_code == 404
    for nothing in ("/logo/nowhere", "/logo/a%2Fb", "/logo/%00", "/logo/" + "x" * 5000):
        assert (await visitor.get(nothing)).status_code == 404


async def test_errors_are_shown_next_to_the_field_and_nothing_is_saved(
    site: Site, editor: Visitor
) -> None:
    before = await site.services.lists.get("garden")
    for page, field, value, problem in (
        (BRAND, "colour", "red;}", "must be a colour such as #1d5fbf"),
        (BRAND, "font", "Comic Sans", "must be one of sans, humanist, serif, mono"),
        (BRAND, "website", "javascript:alert(1)", "must look like https://www.example.com"),
        (BRAND, "social_links", "https://a@b.example", "must look like https://www.example.com"),
        (BRAND, "footer_text", "x" * 501, "at most 500 characters"),
        (PAGE, "signup_text", "x" * 2001, "at most 2000 characters"),
        (PAGE, "welcome_text", "a\u202eb", "U+202E"),
    ):
        fields = {**(FIELDS if page == PAGE else BRAND_FIELDS), "etag": before.etag}
        answer = await editor.post(page, {**fields, field: value})
        assert answer.status_code == 422
        assert problem in html.unescape(answer.text)
        if field != "font":
            assert value in html.unescape(answer.text), "nothing that was typed is lost"
    for data in (b"<svg onload=alert(1)/>", png() + bytes(200_001), png(width=5000)):
        answer = await editor.post(
            BRAND,
            {**BRAND_FIELDS, "etag": before.etag},
            files={"logo": ("a.png", data, "image/png")},
        )
        assert answer.status_code == 422
        assert "The logo " in answer.text
    picture = {"logo": ("a.png", bytes(1_000_000), "image/png")}
    huge = await editor.post(BRAND, BRAND_FIELDS, files=picture)
    assert huge.status_code == 413
    assert await site.services.lists.get("garden") == before


async def test_the_second_to_save_sees_both_versions_and_loses_nothing(
    site: Site, editor: Visitor
) -> None:
    seen = await etag(site)
    await site.services.lists.edit("garden", colour="#ff0000", signup_text="Theirs")
    for page, fields, texts in (
        (PAGE, FIELDS, ("Theirs", "Soon")),
        (BRAND, BRAND_FIELDS, ("#ff0000", "#2E7D32")),
    ):
        answer = await editor.post(page, {**fields, "etag": seen})
        assert answer.status_code == 409
        for text in ("Someone else saved changes first", *texts):
            assert text in answer.text
        [fresh] = re.findall(r'name="etag" value="([^"]+)"', answer.text)
        again = await editor.post(page, {**fields, "etag": html.unescape(fresh)})
        assert await editor.said(again) == "Saved."
    assert (await site.services.lists.get("garden")).colour == "#2e7d32"


async def test_the_preview_follows_what_is_typed_without_saving(
    site: Site, editor: Visitor
) -> None:
    before = await site.services.lists.get("garden")
    part = await editor.post(f"{PAGE}/preview", FIELDS)
    assert part.status_code == 200
    assert "<html" not in part.text
    assert "&lt;b&gt;now&lt;/b&gt;" in part.text
    long = await editor.post(f"{PAGE}/preview", {"welcome_text": "x" * 100_000})
    assert long.status_code == 200
    assert await site.services.lists.get("garden") == before


async def test_the_form_for_a_clients_site_signs_up(site: Site, editor: Visitor) -> None:
    page = await editor.get(PAGE)
    [snippet] = re.findall(r'<code id="form">(.*?)</code>', page.text, re.DOTALL)
    form = html.unescape(snippet)
    assert f'action="{site.context.base_url}/subscribe"' in form
    fields = dict(re.findall(r'name="(\w+)" value="(\w+)"', form))
    assert fields == {"list": "garden"}
    assert 'name="website"' in form
    answer = await site.visitor().http.post("/subscribe", data={**fields, "email": "a@example.com"})
    assert answer.status_code == 200
    assert not (await site.services.subscriptions.get("garden", "a@example.com")).verified


async def test_the_form_for_a_clients_site_is_in_the_lists_language(
    site: Site, editor: Visitor
) -> None:
    await site.services.lists.edit(
        "garden", language="de", ask_name=True, privacy_url="https://example.com/privacy"
    )
    page = await editor.get(PAGE)
    [snippet] = re.findall(r'<code id="form">(.*?)</code>', page.text, re.DOTALL)
    form = html.unescape(snippet)
    for text in ("Ihre E-Mail-Adresse", "Vorname", "Datenschutz"):
        assert text in form
    assert not re.search("Email address|First name|Privacy|Subscribe<", form)


async def test_a_viewer_may_not(site: Site, editor: Visitor) -> None:
    viewer = await site.user(Role.VIEWER)
    for path in (PAGE, f"{PAGE}/preview", BRAND, f"{BRAND}/preview"):
        assert (await viewer.post(path, FIELDS)).status_code == 403
    assert (await viewer.get(f"{BRAND}/email")).status_code == 403
    for page in ("signup-page", "brand", "brand/email"):
        assert (await editor.get(f"/lists/nowhere/{page}")).status_code == 404
