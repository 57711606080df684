"""Links in mails: looking changes nothing, the button does, and repeating is harmless."""

import re

import pytest

from postroom.domain.audience.consent import details_of
from postroom.domain.audience.lists.form_properties import consent_version
from postroom.domain.audience.lists.lists import Subscriber, new_guid
from tests.unit.audience.test_images import png
from tests.web.site import Site

ANN = "annabel@example.com"
MASKED = "an*****@example.com"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
async def ann(site: Site) -> Subscriber:
    await site.services.lists.create("contoso1", "Contoso News", "news@contoso.example")
    return await site.services.subscriptions.add("contoso1", ANN)


def link(page: str, subscriber: Subscriber, language: str = "en") -> str:
    return f"/{page}?id={subscriber.guid}&listName={subscriber.list_name}&lang={language}"


async def find(site: Site, subscriber: Subscriber) -> Subscriber | None:
    return await site.services.subscriptions.by_guid(subscriber.list_name, subscriber.guid)


async def test_the_button_confirms_and_repeating_is_harmless(site: Site, ann: Subscriber) -> None:
    visitor = site.visitor()
    page = await visitor.get(link("confirm", ann))
    assert page.status_code == 200
    assert f"{MASKED} will receive Contoso News." in page.text
    assert ANN not in page.text
    assert page.text.count("<button") == 1
    for _ in range(3):
        welcome = await visitor.http.post(link("confirm", ann))
        assert welcome.status_code == 200
        assert "<h1>Welcome!</h1>" in welcome.text
    found = await find(site, ann)
    assert found is not None
    assert found.verified
    again = await visitor.get(link("confirm", ann))
    assert "<h1>Welcome!</h1>" in again.text
    await site.services.lists.edit("contoso1", welcome_text="Hello\n<b>you</b>")
    own = await visitor.get(link("confirm", ann))
    assert "Hello\n&lt;b&gt;you&lt;/b&gt;" in own.text


@pytest.mark.parametrize("page", ["confirm", "unsubscribe"])
async def test_looking_changes_nothing(site: Site, ann: Subscriber, page: str) -> None:
    visitor = site.visitor()
    for method in ("GET", "HEAD"):
        answer = await visitor.http.request(method, link(page, ann))
        assert answer.status_code == 200
        both = await visitor.http.request(
            method, f"{link(page, ann)}&action=confirm&List-Unsubscribe=One-Click"
        )
        assert both.status_code == 200
    assert await find(site, ann) == ann
    for method in ("PUT", "DELETE", "PATCH"):
        assert (await visitor.http.request(method, link(page, ann))).status_code == 405


async def test_unsubscribing_is_confirmed_and_a_second_visit_says_so(
    site: Site, ann: Subscriber
) -> None:
    visitor = site.visitor()
    await site.services.subscriptions.confirm("contoso1", ann.guid)
    page = await visitor.get(link("unsubscribe", ann))
    assert MASKED in page.text
    assert ANN not in page.text
    for said in ({}, {"action": "what"}, {"List-Unsubscribe": "Perhaps"}):
        asked_again = await visitor.http.post(link("unsubscribe", ann), data=said)
        assert "Do you want to unsubscribe?" in asked_again.text
    stays = await visitor.http.post(link("unsubscribe", ann), data={"action": "cancel"})
    assert stays.status_code == 200
    assert "You are still subscribed" in stays.text
    assert await find(site, ann) is not None

    left = await visitor.http.post(link("unsubscribe", ann), data={"action": "confirm"})
    assert left.status_code == 200
    assert "You are unsubscribed" in left.text
    assert await find(site, ann) is None
    for answer in (
        await visitor.get(link("unsubscribe", ann)),
        await visitor.http.post(link("unsubscribe", ann), data={"action": "confirm"}),
        await visitor.http.post(link("unsubscribe", ann), data={"action": "cancel"}),
    ):
        assert answer.status_code == 200
        assert "You are already unsubscribed" in answer.text
    gone = await visitor.get(link("confirm", ann))
    assert gone.status_code == 404
    assert "/subscribe?list=contoso1&amp;lang=en" in gone.text


@pytest.mark.parametrize("is_multipart", [False, True])
async def test_an_email_program_unsubscribes_with_one_click(
    site: Site, ann: Subscriber, is_multipart: bool
) -> None:
    visitor = site.visitor()
    visitor.http.cookies.clear()
    url = f"/unsubscribe?id={ann.guid}&listName=contoso1"
    for _ in range(2):
        if is_multipart:
            body = (
                b'--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\n'
                b"One-Click\r\n--x--\r\n"
            )
            headers = {"Content-Type": "multipart/form-data; boundary=x"}
            answer = await visitor.http.post(url, content=body, headers=headers)
        else:
            answer = await visitor.http.post(url, data=ONE_CLICK)
        assert answer.status_code == 200
        assert await find(site, ann) is None


async def test_links_survive_what_mail_programs_do_to_them(site: Site, ann: Subscriber) -> None:
    visitor = site.visitor()
    guid = ann.guid
    for odd in (
        guid.upper(),
        f" {guid} ",
        f"{guid[:10]}\r\n {guid[10:]}",
        guid.replace("-", ""),
        f"{{{guid}}}",
        f"\u200b{guid}",
    ):
        page = await visitor.get("/confirm", params={"id": odd, "listName": " contoso1\n"})
        assert page.status_code == 200, odd
        assert MASKED in page.text


async def test_a_dead_link_gets_a_friendly_page(site: Site, ann: Subscriber) -> None:
    visitor = site.visitor()
    other = new_guid()
    wrong: list[dict[str, str]] = [
        {},
        {"id": ann.guid},
        {"listName": "contoso1"},
        {"id": "", "listName": ""},
        {"id": ann.guid, "listName": "nowhere"},
        {"id": f"{ann.guid}0", "listName": "contoso1"},
        {"id": ann.guid[:-1], "listName": "contoso1"},
        {"id": f"email:{ANN}", "listName": "contoso1"},
        {"ID": ann.guid, "listname": "contoso1"},
    ]
    for parameters in wrong:
        for page in ("confirm", "unsubscribe"):
            for method, data in (("GET", None), ("POST", None), ("POST", ONE_CLICK)):
                answer = await visitor.http.request(
                    method, f"/{page}", params=parameters, data=data
                )
                assert answer.status_code == 404, (parameters, method)
                assert "This link does not work" in answer.text
    unknown = await visitor.get(f"/confirm?id={other}&listName=contoso1")
    assert unknown.status_code == 404
    off = await visitor.get(f"/unsubscribe?id={other}&listName=contoso1")
    assert (off.status_code, "already unsubscribed" in off.text) == (200, True)
    assert await find(site, ann) == ann


async def test_of_a_private_list_a_link_with_a_random_identifier_shows_nothing(site: Site) -> None:
    await site.services.lists.create(
        "board", "Secret board", "board@contoso.example", public=False, colour="#123456",
        language="ko",
    )  # fmt: skip
    await site.services.logos.put("board", png())
    bob = await site.services.subscriptions.add("board", "bob@example.com", verified=True)
    visitor = site.visitor()
    stranger = f"?id={new_guid()}&listName=board"
    for answer in (
        await visitor.get(f"/unsubscribe{stranger}"),
        await visitor.http.post(f"/unsubscribe{stranger}", data={"action": "confirm"}),
        await visitor.http.post(f"/unsubscribe{stranger}", data=ONE_CLICK),
        await visitor.get(f"/confirm{stranger}"),
        await visitor.http.post(f"/confirm{stranger}"),
    ):
        assert '<html lang="en">' in answer.text
        for secret in ("Secret", "123456", "/logo/", "/subscribe"):
            assert secret not in answer.text, (answer.url, secret)
    assert (await visitor.get("/logo/board")).status_code == 404
    # Whose link it is sees the list, and a second visit still says that they are off it.
    page = await visitor.get(link("unsubscribe", bob))
    assert "Secret board" in page.text
    [logo] = re.findall(r'src="(/logo/[^"]+)"', page.text)
    assert (await visitor.get(logo)).status_code == 200
    await visitor.http.post(link("unsubscribe", bob), data={"action": "confirm"})
    again = await visitor.get(link("unsubscribe", bob))
    assert (again.status_code, "You are already unsubscribed" in again.text) == (200, True)


async def test_the_ledger_says_how_a_visitor_signed_up_confirmed_and_left(site: Site) -> None:
    services, visitor, text = site.services, site.visitor(), "I agree to the newsletter."
    await services.lists.create("shop", "Shop", "news@contoso.example", consent_text=text)
    form = {"list": "shop", "email": ANN, "consent": consent_version(text)}
    await visitor.http.post("/subscribe?list=shop", data=form)
    new = await services.subscriptions.get("shop", ANN)
    await visitor.http.post(link("confirm", new))
    await visitor.http.post(link("preferences", new), data={"action": "pause"})
    await visitor.http.post(link("unsubscribe", new), data=ONE_CLICK)

    [history] = (await services.tracing.trace(ANN)).consent
    details = [details_of(each) for each in history.entries]
    acts = [each.act.value for each in history.entries]
    assert acts == ["signed up", "confirmed", "paused", "unsubscribed"]
    assert [each.origin for each in details] == [
        *("sign-up page", "confirmation link", "preferences page", "one-click unsubscribing"),
    ]
    assert (details[0].text, details[0].text_version) == (text, consent_version(text))
    assert len({each.ip_digest for each in details}) == 1
    assert len(details[0].ip_digest) == 16
