"""Everything about one person, over HTTP: shown, downloaded and erased."""

from __future__ import annotations

import json

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import ConsentSource
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.services.accounts.users import Role
from tests.web.site import Site, Visitor

ANN = "ann@example.com"
ABOUT = f"?email={ANN}"


@pytest.fixture
async def admin(site: Site) -> Visitor:
    services = site.services
    for name in ("news", "shop"):
        await services.lists.create(name, name.title(), "news@contoso.example")
        source = ConsentSource("sign-up page", "I agree.", "0123456789abcdef")
        await services.subscriptions.subscribe(name, ANN, source=source)
    guid = (await services.subscriptions.get("shop", ANN)).guid
    await services.subscriptions.unsubscribe("shop", guid)
    return await site.user(Role.ADMINISTRATOR)


async def test_the_history_shows_what_was_agreed_to_and_where(site: Site, admin: Visitor) -> None:
    for page in (f"/trace{ABOUT}", f"/lists/news/subscribers/{ANN}"):
        text = (await admin.get(page)).text
        assert "Consent ledger: 3 entries, intact." in text
        assert "IP digest 0123456789abcdef" in text
        assert text.count("unsubscribed") == 1


async def test_everything_about_a_person_is_one_file(site: Site, admin: Visitor) -> None:
    ann = await site.services.subscriptions.get("news", ANN)
    await site.services.foreign_ids.note(ann.list_name, {"an-id-of-listmonk": ann.guid})
    response = await admin.get(f"/trace/export{ABOUT}")
    assert "attachment" in response.headers["Content-Disposition"]
    data = json.loads(response.text)
    assert [each["list"] for each in data["lists"]] == ["news"]
    assert [each["list"] for each in data["left"]] == ["shop"]
    assert data["foreign_ids"] == [{"list": "news", "id": "an-id-of-listmonk"}]
    newest = (await site.services.audit.newest()).entries[0]
    assert (newest.what, newest.on) == ("downloaded personal data of", ANN)
    acts = [(each["list"], each["act"]) for each in data["consent"]]
    assert acts == [("news", "signed up"), ("shop", "signed up"), ("shop", "unsubscribed")]


async def test_erasing_asks_first_and_leaves_no_address_in_the_audit_log(
    site: Site, admin: Visitor
) -> None:
    question = await admin.get(f"/trace/erase{ABOUT}")
    assert "removed from 1 list: news" in question.text
    assert "of these segments" not in question.text
    await site.services.segments.create("shop", "ann", f'email in ("x@b.org", "{ANN.upper()}")')
    await site.services.segments.create("shop", "others", 'email ends with "@b.org"')
    question = await admin.get(f"/trace/erase{ABOUT}")
    assert "contain the address until you edit them: ann of shop." in question.text
    assert await site.services.tracing.subscriptions(Address(ANN)) != []

    done = await admin.post("/trace/erase", {"email": ANN})

    assert (done.status_code, done.headers["Location"]) == (303, "/trace")
    traced = await site.services.tracing.trace(ANN)
    assert (traced.subscriptions, traced.unsubscribes, traced.consent) == ([], [], [])
    audit = (await site.services.audit.newest()).entries
    assert ("erased a person", "from 1 list") in [(each.what, each.on) for each in audit]
    assert ANN not in repr(audit)


async def test_only_administrators_download_and_erase(site: Site, admin: Visitor) -> None:
    editor = await site.user(Role.EDITOR)
    assert "Erase…" not in (await editor.get(f"/trace{ABOUT}")).text
    assert "Erase…" in (await admin.get(f"/trace{ABOUT}")).text
    for page in ("/trace/export", "/trace/erase"):
        assert (await editor.get(page + ABOUT)).status_code == 403
    assert (await editor.post("/trace/erase", {"email": ANN})).status_code == 403


async def test_an_invalid_address_gets_a_clear_error(site: Site, admin: Visitor) -> None:
    for page in ("/trace/export", "/trace/erase"):
        assert (await admin.get(f"{page}?email=nobody")).status_code == 422
    assert (await admin.post("/trace/erase", {"email": "nobody"})).status_code == 422


async def test_pages_show_where_an_address_was_changed_and_erasing_names_it(
    site: Site, admin: Visitor
) -> None:
    services = site.services
    await services.lists.create("board", "Board", "news@contoso.example")
    await services.subscriptions.add("board", ANN)
    for name in ("news", "board"):
        await services.subscriptions.change_address(name, ANN, f"ann@{name}.example")

    before = (await admin.get(f"/trace{ABOUT}")).text
    assert "ann@news.example</a> on news" in before
    after = (await admin.get("/trace?email=ann@news.example")).text
    assert "Formerly <a" in after
    page = (await admin.get("/lists/news/subscribers/ann@news.example")).text
    assert "Former addresses" in page
    assert (
        "stays: ann@board.example on board, ann@news.example on news"
        in (await admin.get(f"/trace/erase{ABOUT}")).text
    )
    asked = (await admin.get("/trace/erase?email=ann@news.example")).text
    assert f"former addresses ({ANN}) are erased" in asked

    member = await site.user(Role.MEMBER, "eve@example.org")
    await services.list_grants.set(
        "user:eve@example.org", ListName("news"), frozenset({ListRight.VIEW})
    )
    theirs = (await member.get(f"/trace{ABOUT}")).text
    assert "ann@news.example" in theirs
    assert "ann@board.example" not in theirs
    hidden = (await member.get("/trace?email=ann@board.example")).text
    assert "Formerly" not in hidden
    assert ANN not in hidden
