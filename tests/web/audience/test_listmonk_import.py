"""Subscribers of a listmonk installation, through its API: states, attributes, and old links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address, masked
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid
from postroom.services.accounts.users import Role
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.listmonk.listmonk_api import (
    ListmonkAccount,
    ListmonkApi,
    anywhere,
)
from postroom.services.audience.listmonk.listmonk_file import USES, listmonk_file
from postroom.services.messages.checks.link_checks import is_public
from postroom.storage import KeyRange
from tests.services.listmonk_api import TOKEN, USER, ListmonkServer, running_listmonk
from tests.services.postroom import CommandLine
from tests.web.audience.test_import_pages import finished
from tests.web.site import Site, Visitor

HERE = "/lists/news/import/listmonk"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
async def listmonk() -> AsyncIterator[ListmonkServer]:
    async with running_listmonk() as server:
        news, other = server.add_list("News"), server.add_list("Offers", "single")
        attributes = {"City": "Bern", "tags": ["vip", "new"], "name": "=x", "nested": {"a": 1}}
        server.add("ann@example.com", {news: "confirmed"}, name="Ann Lee", attribs=attributes)
        server.add("bob@example.com", {news: "unconfirmed", other: "unconfirmed"})
        server.add("cid@example.com", {news: "unsubscribed", other: "confirmed"})
        server.add("dan@example.com", {news: "confirmed"}, status="blocklisted")
        server.add("eve@example.com", {news: "confirmed"}, status="disabled")
        server.add("fay@example.com", {other: "confirmed"})
        for number in range(120):  # three pages
            server.add(f"user{number:03}@example.com", {news: "confirmed"})
        yield server


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    site.context.may_import_from = anywhere
    return await site.user(Role.EDITOR)


async def imported(
    site: Site, server: ListmonkServer, wanted: str, *, create_fields: bool = False
) -> ImportReport:
    api = ListmonkApi(ListmonkAccount(server.url, USER, TOKEN), anywhere)
    with await listmonk_file(api, await api.list(wanted), lambda count, total: None) as file:
        return await site.services.imports.import_csv(
            "news", file, columns=dict(USES), create_fields=create_fields
        )


async def test_a_program_imports_with_a_key(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    body = {"url": listmonk.url, "user": USER, "token": TOKEN, "listmonk_list": "News"}
    path = "/api/v1/lists/news/import/listmonk"
    key = (await site.services.keys.create("moving")).secret
    call = partial(site.visitor().http.post, path, headers={"Authorization": f"Bearer {key}"})
    planned = await call(json={**body, "dry_run": True})
    assert (planned.status_code, planned.json()["added"]) == (200, 123)
    assert (await site.services.subscriptions.slice("news")).subscribers == []
    done = (await call(json=body)).json()
    assert (done["added"], done["unsubscribed"], done["rejected"]) == (123, 2, 0)
    assert (await call(json={**body, "listmonk_list": "x"})).status_code == 422
    assert (await call(json={**body, "token": "wrong"})).status_code == 422
    site.context.may_import_from = is_public
    assert (await call(json=body)).status_code == 422, "a private address"


async def test_states_and_attributes_come_along(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    report = await imported(site, listmonk, "News", create_fields=True)
    assert (report.added, report.unsubscribed, report.rejected) == (123, 2, 0), report.errors
    get = site.services.subscriptions.get
    ann = await get("news", "ann@example.com")
    assert ann.may_receive
    assert f"{ann.created_at:%Y-%m-%d %H:%M}" == "2020-02-10 22:07"
    assert ann.attributes == {
        "first_name": "Ann", "last_name": "Lee", "city": "Bern", "tags": ["vip", "new"],
        "name_attribute": "=x", "nested": '{"a":1}',
    }  # fmt: skip
    assert not (await get("news", "bob@example.com")).verified
    assert (
        await get("news", "dan@example.com")
    ).blocked == "suppressed: blocklisted in the imported file"
    again = await imported(site, listmonk, "1")
    assert (again.added, again.updated, again.unsubscribed, again.rejected) == (0, 0, 0, 0)


async def test_people_of_a_single_opt_in_list_who_never_confirmed_are_left_to_the_user(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    await imported(site, listmonk, "Offers")
    assert not (await site.services.subscriptions.get("news", "bob@example.com")).verified
    assert (await site.services.subscriptions.get("news", "fay@example.com")).verified


async def test_nobody_is_missed_when_a_subscriber_is_deleted_meanwhile(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    listmonk.delete_before_page = 2
    await imported(site, listmonk, "News")
    names = [each.address async for each in site.services.subscriptions.all(ListName("news"))]
    assert {f"user{number:03}@example.com" for number in range(120)} <= set(names)
    assert "ann@example.com" not in names


async def test_the_page_reads_the_list_and_shows_a_preview(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    form = {"url": f"{listmonk.url}/", "user": USER, "token": TOKEN, "listmonk_list": "Mews"}
    assert 'href="/lists/news/import/listmonk"' in (await editor.get("/lists/news/import")).text
    assert "Access token" in (await editor.get(HERE)).text
    wrong = await editor.post(HERE, form)
    assert wrong.status_code == 422
    assert "Its lists: News (1), Offers (2)" in wrong.text
    assert TOKEN not in wrong.text
    page, _ = await finished(editor, await editor.post(HERE, {**form, "listmonk_list": "News"}))
    assert "Import complete." in page
    assert ">123<" in page
    refused = await editor.post(HERE, {**form, "token": "wrong"})
    assert "The user or the token is wrong" in refused.text


async def test_the_page_connects_only_to_public_addresses_and_follows_no_redirect(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    site.context.may_import_from = is_public
    form = {"url": listmonk.url, "user": USER, "token": TOKEN, "listmonk_list": "News"}
    refused = await editor.post(HERE, form)
    assert refused.status_code == 422
    assert "which is not a public address" in refused.text
    assert listmonk.requests == []
    api = ListmonkApi(ListmonkAccount(f"{listmonk.url}/elsewhere", USER, TOKEN), anywhere)
    with pytest.raises(Invalid, match="returned status 302"):
        await api.lists()
    assert listmonk.requests == []


@pytest.mark.parametrize(
    "url", ["", "listmonk.example.org", "ftp://x.org", "https://u:p@x.org", "https://x.org/?a=b"]
)
def test_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="url: must be"):
        ListmonkAccount(url, USER, TOKEN)


async def test_a_path_with_other_letters_is_sent_as_browsers_send_it(
    editor: Visitor, listmonk: ListmonkServer
) -> None:
    form = {"url": f"{listmonk.url}/Grüße an/%C3%A4", "user": USER, "token": TOKEN}
    answer = await editor.post(HERE, {**form, "listmonk_list": "News"})
    assert answer.status_code == 422
    assert "URL of listmonk returned status 404" in answer.text


# -- old unsubscribe links ------------------------------------------------------------------------


async def test_an_old_link_unsubscribes_like_one_of_ours(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    await imported(site, listmonk, "News")
    ann, visitor = listmonk.subscribers[0], site.visitor()
    link = f"/unsubscribe/imported?id={ann['uuid']}"
    page = await visitor.get(link)
    assert page.status_code == 200
    assert f"{masked(Address('ann@example.com'))} will no longer receive emails from News." in (
        page.text
    )
    assert "ann@example.com" not in page.text
    stays = await visitor.http.post(link, data={"action": "cancel"})
    assert "You are still subscribed" in stays.text
    assert (await site.services.subscriptions.get("news", "ann@example.com")).verified
    gone = await visitor.http.post(link, data={"action": "confirm"})
    assert "You are unsubscribed" in gone.text
    assert "You are already unsubscribed" in (await visitor.get(link)).text
    again = await imported(site, listmonk, "News")
    assert again.rejected == 1  # no import brings her back
    assert (await visitor.get("/unsubscribe/imported?id=12345678901")).status_code == 404
    bob = f"/unsubscribe/imported?id={listmonk.subscribers[1]['uuid']}"
    never = "/unsubscribe/imported?id=5d9f5a6c-0f3e-4c55-9b1d-999999999999"
    for unknown in (never, f"{bob}&listName=offers"):
        for answer in (
            await visitor.get(unknown),
            await visitor.http.post(unknown, data=ONE_CLICK),
        ):
            assert answer.status_code == 404
            assert "This link does not work" in answer.text
    assert len(await _lists_of(site, "bob@example.com")) == 1


async def test_an_old_link_with_one_click_leaves_every_list_that_the_id_was_imported_into(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    await site.services.lists.create("offers", "Offers", "news@contoso.example")
    listmonk.subscribers[5]["lists"].append({"id": 1, "subscription_status": "confirmed"})
    await imported(site, listmonk, "News")
    api = ListmonkApi(ListmonkAccount(listmonk.url, USER, TOKEN), anywhere)
    with await listmonk_file(api, await api.list("Offers"), lambda count, total: None) as file:
        await site.services.imports.import_csv("offers", file, columns=dict(USES))
    fay, visitor = listmonk.subscribers[5], site.visitor()
    link = f"/unsubscribe/imported?id={fay['uuid']}"
    assert "emails from News, Offers." in (await visitor.get(link)).text
    only = await visitor.http.post(f"{link}&listName=offers", data=ONE_CLICK)
    assert only.status_code == 200
    assert await _lists_of(site, "fay@example.com") == ["news"]
    await visitor.http.post(link, data=ONE_CLICK)
    assert await _lists_of(site, "fay@example.com") == []


async def _lists_of(site: Site, email: str) -> list[str]:
    found = await site.services.tracing.subscriptions(Address(email))
    return [str(each.list_name) for each in found]


async def test_erasing_a_person_and_deleting_a_list_remove_the_ids(
    site: Site, editor: Visitor, listmonk: ListmonkServer
) -> None:
    await imported(site, listmonk, "News")
    ann, bob = listmonk.subscribers[:2]
    subscriber = await site.services.subscriptions.get("news", "bob@example.com")
    await site.services.subscriptions.unsubscribe("news", subscriber.guid)
    for each in (ann, bob):
        assert await site.services.foreign_ids.owners(each["uuid"])
        await site.services.personal_data.erase(each["email"])
        assert await site.services.foreign_ids.owners(each["uuid"]) == []
    await site.services.lists.delete("news")
    rows = [each async for each in site.services.store.table("foreignid").scan(KeyRange())]
    assert rows == []


async def test_the_command_imports_from_a_private_address(
    listmonk: ListmonkServer, tmp_path: Path
) -> None:
    cli = CommandLine(tmp_path, {"LISTMONK_TOKEN": TOKEN})
    cli.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    command = ("subscriber", "import-listmonk", "news", listmonk.url, "--user", USER)
    assert "Offers" in await asyncio.to_thread(cli.ok, *command)
    chosen = ("--list", "News", "--column", "City=new:text")
    said = await asyncio.to_thread(cli.ok, *command, *chosen)
    assert "news: 123 added, 0 updated, 0 unchanged, 2 unsubscribed, 0 rejected" in said
    assert "Fields created: city" in said
    stranger = CommandLine(tmp_path, {"LISTMONK_TOKEN": "wrong"})
    said = await asyncio.to_thread(stranger.fails, *command, *chosen)
    assert "the user or the token is wrong" in said
