"""Indexes sorted by a column, over HTTP: with filters, with pages, and not when they are long."""

from __future__ import annotations

import html
import io
import re
from datetime import UTC, datetime, timedelta

import pytest

from postroom.services.accounts.users import Role
from postroom.services.audience.growth import growth_history, list_growth
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import KeyRange
from postroom.web.rendering.sorting import MOST
from tests.web.site import Site, Visitor, problem_in
from tests.web.world import World, furnished

HERE = "/lists/news/subscribers"
SORTED = {
    "/lists": ("list", "confirmed", "subscribers", "created"),
    "/lists/{list}/subscribers": ("address", "state", "since"),
    "/messages": ("subject", "list", "status", "time"),
    "/messages/sending": ("subject", "list", "status", "time"),
    "/messages/sent": (
        "subject", "status", "time",
        "recipients", "accepted", "refused", "skipped", "uncertain",
    ),
    "/messages/{done}/emails": ("address", "outcome", "attempts", "reply"),
    "/outbox": ("to", "time"),
    "/audit": ("time", "actor", "action", "target", "from"),
    "/events": ("time", "severity", "source", "event"),
    "/queues": (
        "queue", "waiting", "oldest", "retry", "poison", "dead_letters", "application", "state",
    ),
    "/users": ("email", "role", "second_factor", "joined"),
    "/keys": ("name", "scopes", "created", "last_used"),
    "/explorer/containers/mailbodies": ("name", "size", "modified"),
}  # fmt: skip


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


def ticked(page: str) -> list[str]:
    return re.findall(r'name="email" value="([^"]+)"', page)


def heads(page: str) -> dict[str, tuple[str, str]]:
    """Of each column that has a link: how it is sorted now, and where the link leads."""
    found = re.findall(
        r'<th scope="col"[^>]*?(?: aria-sort="(\w+)")?><a class="sort" href="([^"]+)">([^<]+)</a>',
        page,
    )
    return {label: (direction, html.unescape(url)) for direction, url, label in found}


def next_in(page: str) -> str:
    [found] = re.findall(r'href="([^"]+)" rel="next"', page)
    return html.unescape(found)


def cells(page: str, column: int) -> list[str]:
    """The text of a column of the page's first table."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [" ".join(re.sub("<[^>]+>", " ", row[column]).split()) for row in rows]


def names(page: str) -> list[str]:
    """The names in an index of lists, each below its description."""
    return [text.rpartition(" ")[2] for text in cells(page, 0)]


# -- every index ----------------------------------------------------------------------------------


async def test_every_index_is_sorted_by_each_of_its_columns_both_ways(site: Site) -> None:
    world = await furnished(site)
    for path, columns in SORTED.items():
        await check_index(world, path.format(**world.names), columns)


async def check_index(world: World, address: str, columns: tuple[str, ...]) -> None:
    page = await world.admin.get(address)
    links = heads(page.text)
    assert len(links) == len(columns), (address, links)
    assert sum(bool(direction) for direction, _ in links.values()) == 1, "one is sorted by"
    for label, (direction, url) in links.items():
        for _ in range(2):
            page = await world.admin.get(url)
            assert page.status_code == 200, (url, problem_in(page))
            before, (direction, url) = direction, heads(page.text)[label]
            assert direction in {"ascending", "descending"} - {before}, (address, label)
    for column in columns:
        for sort in (column, f"-{column}"):
            assert (await world.admin.get(address, params={"sort": sort})).status_code == 200
    for wrong in ("nothing", "-", "--list", "<b>", "x" * 5000, "\x00", "list,created"):
        answer = await world.admin.get(address, params={"sort": wrong})
        assert answer.status_code == 422, (address, wrong)
        assert "must be one of" in answer.text
        assert columns[0] in answer.text
        assert "<b>" not in answer.text
        assert "x" * 100 not in answer.text.replace("&#39;", "")


# -- subscribers ----------------------------------------------------------------------------------


async def fill(site: Site, count: int) -> list[str]:
    made = [f"user{number:03}@example.com" for number in range(count)]
    for number, email in enumerate(made):
        await site.services.subscriptions.add("news", email, verified=bool(number % 2))
    return made


async def count_again(site: Site) -> None:
    """The server may have counted at its start, and will not again for a while."""
    counts = site.services.store.table(growth_history.TABLE)
    async for row in counts.scan(KeyRange.only(list_growth.LATEST)):
        await counts.delete(row.partition, row.row)
    await site.services.growth.count_due()


async def test_what_is_sorted_is_paged_and_nothing_is_left_out(site: Site, editor: Visitor) -> None:
    made = await fill(site, 110)
    seen: list[str] = []
    url = f"{HERE}?sort=-state"
    for place in ("1 to 50 of 110", "51 to 100 of 110", "101 to 110 of 110"):
        page = (await editor.get(url)).text
        assert place in page
        seen += ticked(page)
        url = next_in(page) if len(seen) < 110 else ""
    assert seen == made[::2] + made[1::2], "equal ones stay in the order of addresses"
    past_the_end = (await editor.get(f"{HERE}?sort=-state&page=99")).text
    assert ticked(past_the_end) == seen[100:]
    assert f'href="{HERE}?sort=-state"' in past_the_end, "back to the first page"
    for wrong in ("0", "-1", "x", "1.5", "9" * 30, "²", "<b>"):
        answer = await editor.get(HERE, params={"sort": "state", "page": wrong})
        assert answer.status_code == 422, wrong
        assert "Page: must be a number" in answer.text


async def test_sorting_goes_together_with_search_and_filter(site: Site, editor: Visitor) -> None:
    made = await fill(site, 110)
    page = (await editor.get(f"{HERE}?q=user0&state=verified&sort=-address")).text
    verified = made[1:100:2][::-1]
    assert ticked(page) == verified
    assert '<input type="hidden" name="sort" value="-address">' in page, "a new search keeps it"
    for label, (_, url) in heads(page).items():
        assert "q=user0" in url, label
        assert "state=verified" in url, label
    # The order of the keys needs no word in the address, and is read as ever.
    assert heads(page)["Address"] == ("descending", f"{HERE}?q=user0&state=verified")
    second = (await editor.get(f"{HERE}?q=user&state=unverified&sort=-address")).text
    assert "q=user&state=unverified&sort=-address&page=2" in next_in(second)
    assert "No subscribers match" in (await editor.get(f"{HERE}?q=zoe&sort=since")).text


async def test_after_a_bulk_action_the_same_page_is_shown(site: Site, editor: Visitor) -> None:
    made = await fill(site, 3)
    given = {"email": made[0], "q": "user", "state": "verified", "sort": "-since"}
    done = await editor.post("/lists/news/bulk", {**given, "action": "block"})
    assert done.headers["location"] == f"{HERE}?q=user&state=verified&sort=-since"
    question = await editor.post("/lists/news/bulk", {**given, "action": "remove"})
    assert '<input type="hidden" name="sort" value="-since">' in question.text


async def test_too_long_a_list_stays_in_the_order_of_addresses_and_says_so(
    site: Site, editor: Visitor
) -> None:
    lines = [f"member{number:05}@example.com,{number % 2}" for number in range(MOST + 1)]
    file = io.BytesIO("\n".join(["email,verified", *lines]).encode())
    report = await site.services.imports.import_csv("news", file)
    assert report.added == MOST + 1
    note = f"Sorted by address: more than {MOST:,} rows can only be shown in this order."
    asked = (await editor.get(f"{HERE}?sort=-state")).text
    assert note in asked
    assert set(heads(asked)) == {"Joined"}, "by age a list of any length is sorted"
    assert ticked(asked) == [f"member{number:05}@example.com" for number in range(50)]
    assert next_in(asked).startswith(f"{HERE}?after="), "the next page need not find out again"
    assert '<input type="hidden" name="sort" value="-state">' in asked, "a search is sorted"
    assert note not in (await editor.get(HERE)).text, "nobody has asked for another order"


# -- others ---------------------------------------------------------------------------------------


async def test_lists_are_sorted_by_size_however_many(site: Site, editor: Visitor) -> None:
    services = site.services
    await services.lists.create("alpha", "zebra", "a@example.com")
    await services.lists.create("beta", "Ape", "b@example.com")
    for number in range(3):
        await services.subscriptions.add("beta", f"b{number}@example.com", verified=number == 0)
    await services.subscriptions.add("news", "n@example.com", verified=True)
    for sort, expected in (
        ("-subscribers", ["beta", "news", "alpha"]),
        ("subscribers", ["alpha", "news", "beta"]),
        ("-confirmed", ["beta", "news", "alpha"]),
        ("created", ["news", "alpha", "beta"]),
    ):
        assert names((await editor.get(f"/lists?sort={sort}")).text) == expected, sort
    # More than one page of them: sorted by the last count, which is what is shown.
    await count_again(site)
    for number in range(50):
        await services.lists.create(f"more{number:02}", "More", "m@example.com")
    page = (await editor.get("/lists?sort=-subscribers")).text
    assert names(page)[:4] == ["beta", "news", "alpha", "more00"]
    assert cells(page, 2)[:4] == ["3", "1", "0", "many"]
    second = (await editor.get(next_in(page))).text
    assert names(second) == ["more47", "more48", "more49"]
    assert names((await editor.get("/lists?q=more1&sort=-list")).text)[0] == "more19"


async def test_messages_are_sorted_by_subject_list_and_status(site: Site, editor: Visitor) -> None:
    services = site.services
    await services.lists.create("other", "Other", "other@example.com")
    at = datetime.now(UTC) + timedelta(days=1)
    refs = []
    for number, (subject, name) in enumerate(
        [("Pears", "news"), ("apples", "other"), ("Zebras", "news")]
    ):
        made = await services.messages.create(
            name, subject, NewBodies("<p>x</p>"), at + timedelta(days=number)
        )
        refs.append(made.ref)
    await services.message_states.pause(refs[0])
    for query, expected in (
        ("", ["Pears", "apples", "Zebras"]),
        ("sort=-time", ["Zebras", "apples", "Pears"]),
        ("sort=subject", ["apples", "Pears", "Zebras"]),
        ("sort=-list", ["apples", "Pears", "Zebras"]),
        ("sort=status", ["apples", "Zebras", "Pears"]),
        ("sort=-subject&list=news", ["Zebras", "Pears"]),
    ):
        page = (await editor.get(f"/messages?{query}")).text
        assert cells(page, 0) == expected, query
    nothing = (await editor.get("/messages?sort=subject&list=nowhere")).text
    assert "No matching messages" in nothing


async def test_queues_that_look_again_stay_sorted(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    for name, count in (("one", 1), ("two", 3), ("three", 2)):
        for number in range(count):
            await site.services.queues.put(name, f"{number}")
    page = (await user.get("/queues?sort=-waiting")).text
    assert cells(page, 0) == ["two", "three", "one"]
    [again] = re.findall(r'hx-get="([^"]+)"', page)
    part = (await user.get(html.unescape(again), headers={"HX-Request": "true"})).text
    assert "<html" not in part
    assert cells(part, 0) == ["two", "three", "one"]


async def test_heads_lead_to_the_index_also_from_a_form_that_was_refused(site: Site) -> None:
    admin = await site.user()
    await site.services.keys.create("the shop")
    for form, index in (("/users/invite", "/users"), ("/keys/create", "/keys")):
        refused = await admin.post(form, {"email": "<b>", "name": ""})
        assert refused.status_code == 422
        assert {url.partition("?")[0] for _, url in heads(refused.text).values()} == {index}
