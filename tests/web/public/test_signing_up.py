"""The sign-up form: friendly to everybody, telling nobody who is on a list."""

import asyncio
import re

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.accounts.users import Role
from postroom.services.audience.signup.changed_details import CHANGES
from tests.web.site import Site

ANN = "ann@example.com"
FROM = "news@contoso.example"


@pytest.fixture
async def lists(site: Site) -> None:
    await site.services.lists.create("contoso1", "Contoso <News> & more", FROM)
    await site.services.lists.create(
        "garden", "Garden", FROM, colour="#2e7d32", signup_text="A\n\nB"
    )
    await site.services.lists.create("staff", "Staff only", FROM, public=False)


async def asked(site: Site) -> list[tuple[str, str]]:
    """Lists and languages of the confirmations that are on their way."""
    items = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    return sorted(
        (each.body.partition(",")[2], each.properties.get("language", "")) for each in items
    )


@pytest.mark.usefixtures("lists")
async def test_a_form_asks_for_an_address_and_the_answer_says_to_check_the_mail(site: Site) -> None:
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=contoso1")
    assert page.status_code == 200
    assert "<h1>Contoso &lt;News&gt; &amp; more</h1>" in page.text
    assert 'name="email" type="email"' in page.text
    assert 'action="/subscribe?list=contoso1&amp;lang=en"' in page.text

    answer = await visitor.http.post(
        "/subscribe?list=contoso1&lang=fr", data={"list": "contoso1", "email": f" {ANN} "}
    )
    assert answer.status_code == 200
    assert '<html lang="fr">' in answer.text
    assert ANN in answer.text
    assert await asked(site) == [("contoso1", "fr")]
    subscriber = await site.services.subscriptions.get("contoso1", ANN)
    assert not subscriber.verified


@pytest.mark.usefixtures("lists")
async def test_a_form_on_another_site_needs_no_cookie_no_token_and_no_query(site: Site) -> None:
    visitor = site.visitor()
    visitor.http.cookies.clear()
    answer = await visitor.http.post(
        "/subscribe",
        data={"list": "garden", "email": ANN, "website": ""},
        headers={"Origin": "https://shop.example", "Accept-Language": "de-AT,de;q=0.9"},
    )
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert await asked(site) == [("garden", "de")]


@pytest.mark.usefixtures("lists")
async def test_the_response_does_not_reveal_who_is_on_the_list(site: Site) -> None:
    use = site.services.subscriptions
    await use.add("contoso1", "v@example.com", verified=True)
    await use.add("contoso1", "u@example.com")
    await use.add("contoso1", "b@example.com", verified=True)
    await use.edit("contoso1", "b@example.com", blocked="complained")
    for _ in range(3):
        await use.subscribe("contoso1", "l@example.com")
    visitor = site.visitor()
    seen = set()
    for who in "vunbl":
        email = f"{who}@example.com"
        began = asyncio.get_running_loop().time()
        answer = await visitor.http.post("/subscribe?list=contoso1", data={"email": email})
        assert asyncio.get_running_loop().time() - began > 0.3
        seen.add((answer.status_code, answer.text.replace(email, "")))
        assert email in answer.text
    assert len(seen) == 1


@pytest.mark.usefixtures("lists")
async def test_a_program_that_fills_in_every_field_gets_the_same_page_and_nothing_else(
    site: Site,
) -> None:
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=contoso1")
    assert 'name="website"' in page.text
    answer = await visitor.http.post(
        "/subscribe?list=contoso1", data={"email": ANN, "website": "https://spam.example"}
    )
    honest = await visitor.http.post("/subscribe?list=contoso1", data={"email": "b@example.com"})
    assert answer.text.replace(ANN, "") == honest.text.replace("b@example.com", "")
    assert await asked(site) == [("contoso1", "")]
    page_of_list = await site.services.subscriptions.slice("contoso1")
    assert [each.address for each in page_of_list.subscribers] == ["b@example.com"]


@pytest.mark.usefixtures("lists")
async def test_without_a_list_there_is_a_choice_of_those_that_are_open(site: Site) -> None:
    visitor = site.visitor()
    page = await visitor.get("/subscribe")
    assert re.findall(r'type="checkbox" name="list" value="(\w+)"', page.text) == [
        "contoso1",
        "garden",
    ]
    some = await visitor.get("/subscribe?list=garden&list=staff&list=nowhere&list=contoso1")
    assert re.findall(r'type="checkbox" name="list" value="(\w+)"', some.text) == [
        "garden",
        "contoso1",
    ]
    one = await visitor.get("/subscribe?list=garden&list=staff")
    assert "<h1>Garden</h1>" in one.text

    nothing = await visitor.http.post("/subscribe?lang=en", data={"choice": "yes", "email": ANN})
    assert nothing.status_code == 422
    assert "Choose at least one." in nothing.text
    assert f'value="{ANN}"' in nothing.text
    assert await asked(site) == []
    both = await visitor.http.post(
        "/subscribe?lang=ko", data={"choice": "yes", "email": ANN, "list": ["contoso1", "garden"]}
    )
    assert both.status_code == 200
    assert await asked(site) == [("contoso1", "ko"), ("garden", "ko")]


async def test_an_address_alone_is_a_sign_up_only_where_there_is_one_list(site: Site) -> None:
    visitor = site.visitor()
    await site.services.lists.create("garden", "Garden", FROM)
    await site.services.lists.create("staff", "Staff only", FROM, public=False)
    alone = await visitor.http.post("/subscribe?lang=en", data={"email": ANN})
    assert alone.status_code == 200
    assert await asked(site) == [("garden", "en")]

    await site.services.lists.create("contoso1", "Contoso", FROM)
    several = await visitor.http.post("/subscribe?lang=en", data={"email": "b@example.com"})
    assert several.status_code == 422
    assert "Choose at least one." in several.text
    assert 'value="b@example.com"' in several.text
    assert await asked(site) == [("garden", "en")]
    linked = await visitor.http.post(
        "/subscribe?lang=en&list=garden&list=contoso1", data={"email": "b@example.com"}
    )
    assert linked.status_code == 200
    assert await asked(site) == [("contoso1", "en"), ("garden", "en"), ("garden", "en")]


@pytest.mark.usefixtures("lists")
async def test_a_private_list_looks_like_a_missing_one(site: Site) -> None:
    visitor = site.visitor()
    for name in ("staff", "nowhere", "a/b", "'--", "%00"):
        page = await visitor.get("/subscribe", params={"list": name})
        assert page.status_code == 404
        assert "List not found" in page.text
        answer = await visitor.http.post("/subscribe", data={"list": name, "email": ANN})
        assert answer.status_code == 404
    assert await asked(site) == []
    await site.services.lists.edit("contoso1", public=False)
    await site.services.lists.edit("garden", public=False)
    empty = await visitor.get("/subscribe")
    assert empty.status_code == 200
    assert "Nothing to sign up for" in empty.text


@pytest.mark.usefixtures("lists")
async def test_an_invalid_address_gets_a_hint(site: Site) -> None:
    visitor = site.visitor()
    for wrong in ("", "ann", "ann@", "a b@example.com", "ann@example.com\r\nBcc: x@example.com"):
        answer = await visitor.http.post("/subscribe?list=contoso1", data={"email": wrong})
        assert answer.status_code == 422
        assert "Please enter a valid email address" in answer.text
        assert 'aria-invalid="true"' in answer.text
    assert await asked(site) == []


@pytest.mark.usefixtures("lists")
async def test_the_colour_and_the_words_of_a_list_are_on_its_page(site: Site) -> None:
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=garden")
    assert '<p class="lines">A\n\nB</p>' in page.text
    [style] = re.findall(r'href="(/subscribe/style.css[^"]+)"', page.text)
    sheet = await visitor.get(style)
    assert sheet.status_code == 200
    assert sheet.headers["content-type"].startswith("text/css")
    assert "immutable" in sheet.headers["cache-control"]
    assert "--accent-fill: light-dark(#2e7d32, #2e7d32);" in sheet.text
    assert "--on-accent: light-dark(#ffffff, #ffffff);" in sheet.text
    for wrong in ("", "red", "}body{", "2e7d32;x", "0" * 5000, "\x00"):
        answer = await visitor.get("/subscribe/style.css", params={"colour": wrong})
        assert (answer.status_code, answer.text) == (404, "")


async def test_looking_at_public_pages_needs_no_login_and_gives_no_cookie(site: Site) -> None:
    editor = await site.user(Role.EDITOR)
    for visitor in (site.visitor(), editor):
        if visitor is not editor:
            visitor.http.cookies.clear()
        paths = ["/subscribe", "/confirm", "/unsubscribe", "/preferences", "/preferences/address"]
        for path in (*paths, "/logo/x", "/subscribe/style.css"):
            answer = await visitor.get(path)
            assert answer.status_code in (200, 404)
            assert "set-cookie" not in answer.headers


async def with_fields(site: Site) -> None:
    await site.services.lists.create("club", "Club", FROM, ask_name=True)
    await site.services.lists.create("other", "Other", FROM)
    fields = [
        Field("city", label={"en": "Town", "de": "Stadt"}, public=True, required=True),
        Field("age", FieldType.INTEGER, public=True),
        Field("score", FieldType.INTEGER),
    ]
    await site.services.fields.declare("club", fields)


async def test_the_form_has_the_public_fields_and_the_sign_up_keeps_them(site: Site) -> None:
    await with_fields(site)
    visitor = site.visitor()
    page = await visitor.get("/subscribe?list=club")
    assert re.findall(r'name="(attributes\.\w+)"', page.text) == [
        "attributes.first_name", "attributes.last_name", "attributes.city", "attributes.age"
    ]  # fmt: skip
    assert "Town" in page.text
    assert "Stadt" in (await visitor.get("/subscribe?list=club&lang=de")).text
    form = {"list": "club", "email": ANN, "attributes.first_name": "Ann", "attributes.age": "30"}
    refused = await visitor.http.post("/subscribe?list=club&lang=en", data=form)
    assert refused.status_code == 422
    assert "Please fill this in." in refused.text
    assert 'value="Ann"' in refused.text
    wrong = {**form, "attributes.city": "Bern", "attributes.age": "old"}
    assert (await visitor.http.post("/subscribe", data=wrong)).status_code == 422
    assert await asked(site) == []
    right = {**form, "attributes.city": "Bern", "attributes.score": "99"}
    assert (await visitor.http.post("/subscribe", data=right)).status_code == 200
    known = await site.services.subscriptions.get("club", ANN)
    assert known.attributes == {"first_name": "Ann", "city": "Bern", "age": 30}


async def test_signing_up_again_changes_fields_only_after_the_confirmation(site: Site) -> None:
    await with_fields(site)
    subscribe = site.services.subscriptions.subscribe
    await subscribe("club", ANN, attributes={"city": "Bern", "age": 30})
    await subscribe("club", ANN, attributes={"city": "Rome"})
    known = await site.services.subscriptions.get("club", ANN)
    assert known.attributes == {"city": "Bern", "age": 30}
    confirmed = await site.services.subscriptions.confirm("club", known.guid)
    assert confirmed is not None
    assert confirmed.attributes == {"city": "Rome", "age": 30}
    assert not await subscribe("club", ANN, attributes={"city": "Oslo"})
    again = await site.services.subscriptions.get("club", ANN)
    assert again == confirmed


async def confirmed_subscriber(site: Site) -> Subscriber:
    await with_fields(site)
    subscriptions = site.services.subscriptions
    await subscriptions.subscribe("club", ANN, attributes={"city": "Bern", "age": 30})
    guid = (await subscriptions.get("club", ANN)).guid
    known = await subscriptions.confirm("club", guid)
    assert known is not None
    await site.services.store.queue(CONFIRM_QUEUE).purge()
    return known


async def again(site: Site, **values: str) -> str:
    """Sign up by the form; return the text of the answer."""
    form = {"list": "club", "email": ANN} | {f"attributes.{k}": v for k, v in values.items()}
    response = await site.visitor().http.post("/subscribe?list=club&lang=en", data=form)
    assert response.status_code == 200
    return response.text


async def link_to_changes(site: Site, known: Subscriber) -> str:
    """Return the link in the email that asks about changes."""
    [item] = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    assert item.body == f"{known.guid},club"
    changes = item.properties[CHANGES]
    return f"/confirm/changes?id={known.guid}&listName=club&changes={changes}&lang=en"


async def test_confirmed_subscribers_change_details_by_signing_up_again_and_confirming(
    site: Site,
) -> None:
    known = await confirmed_subscriber(site)
    stranger = await again(site, city="Rome", first_name="<b>Ann</b>")
    link, visitor = await link_to_changes(site, known), site.visitor()
    before = await site.services.subscriptions.get("club", ANN)
    assert before.attributes == {"city": "Bern", "age": 30}

    page = await visitor.get(link)
    assert "<dt>Town</dt><dd>Rome</dd>" in page.text
    assert "&lt;b&gt;Ann&lt;/b&gt;" in page.text
    assert "Age" not in page.text
    assert await site.services.subscriptions.get("club", ANN) == before, "GET changes nothing"
    assert "Saved." in (await visitor.http.post(link)).text
    after = await site.services.subscriptions.get("club", ANN)
    assert after.attributes == {"city": "Rome", "age": 30, "first_name": "<b>Ann</b>"}
    assert (after.guid, after.verified) == (known.guid, True)
    assert "There is nothing to confirm" in (await visitor.http.post(link)).text

    form = {"list": "club", "email": "new@example.com", "attributes.city": "Rome"}
    new = await visitor.http.post("/subscribe?list=club&lang=en", data=form)
    assert new.text == stranger.replace(ANN, "new@example.com"), "it reveals nothing"


async def test_signing_up_again_with_the_same_details_sends_nothing(site: Site) -> None:
    await confirmed_subscriber(site)
    await again(site, city="Bern")
    assert await site.services.store.queue(CONFIRM_QUEUE).peek(32) == []
    known = await site.services.subscriptions.get("club", ANN)
    assert known.pending_attributes == {}


async def test_the_link_to_changes_never_confirms_those_of_a_later_sign_up(site: Site) -> None:
    known = await confirmed_subscriber(site)
    await again(site, city="Rome")
    first, visitor = await link_to_changes(site, known), site.visitor()
    await site.services.store.queue(CONFIRM_QUEUE).purge()
    await again(site, city="Oslo")

    assert "There is nothing to confirm" in (await visitor.http.post(first)).text
    assert (await site.services.subscriptions.get("club", ANN)).attributes["city"] == "Bern"
    await visitor.http.post(await link_to_changes(site, known))
    assert (await site.services.subscriptions.get("club", ANN)).attributes["city"] == "Oslo"


async def test_questions_about_changes_are_limited_like_sign_ups(site: Site) -> None:
    known = await confirmed_subscriber(site)
    for city in ("Rome", "Oslo", "Cork", "Nice"):  # two within five minutes
        await again(site, city=city)
    items = await site.services.store.queue(CONFIRM_QUEUE).peek(32)
    assert [each.body for each in items] == [f"{known.guid},club"] * 2
    pending = (await site.services.subscriptions.get("club", ANN)).pending_attributes
    assert pending == {"city": "Oslo"}, "values that nobody is asked about do not wait"


async def test_a_sign_up_by_a_program_never_asks_who_has_confirmed(site: Site) -> None:
    await confirmed_subscriber(site)
    assert not await site.services.subscriptions.subscribe("club", ANN, attributes={"city": "Ulm"})
    assert await site.services.store.queue(CONFIRM_QUEUE).peek(32) == []


async def test_nobody_who_is_blocked_is_asked_about_changes(site: Site) -> None:
    await confirmed_subscriber(site)
    await site.services.subscriptions.edit("club", ANN, blocked="asked us to")
    await again(site, city="Rome")
    assert await site.services.store.queue(CONFIRM_QUEUE).peek(32) == []
