"""The explorer, over HTTP."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import EmailState, PageEmails
from postroom.domain.messages.refs import MessageRef
from postroom.services.messages.sending.page_rows import Page, page_entity
from postroom.storage import Entity, Value
from tests.web.site import Site, Visitor

GUID = SubscriberGuid("6d3f0a3e-8f5c-4c8e-9f6e-1b2a3c4d5e6f")
EVERYTHING: dict[str, Value] = {
    "Text": "line one\r\nline <two>\n",
    "Integer": 42,
    "Float": 1.5,
    "Boolean": True,
    "Moment": datetime(2026, 11, 15, 9, tzinfo=UTC),
    "Bytes": b"\x00\xffhello",
}


def fields(page: str) -> dict[str, str]:
    """The form of a page as a browser would send it."""
    form = page[page.index('name="etag"') - 100 :]
    found = {
        name: html.unescape(value)
        for name, value in re.findall(r'<input[^>]*? name="([^"]+)"[^>]*? value="([^"]*)"', form)
        if not name.startswith("remove")
    }
    for name, value in re.findall(
        r'<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>', form, re.S
    ):
        found[name] = html.unescape(value).replace("\r\n", "\n").replace("\n", "\r\n")
    for name, options in re.findall(r'<select[^>]* name="([^"]+)">(.*?)</select>', form, re.S):
        chosen = re.search(r'value="([^"]+)" selected', options)
        assert chosen is not None
        found[name] = chosen[1]
    return found


async def opened(user: Visitor, path: str) -> str:
    answer = await user.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


ENTITY = "/explorer/tables/departed/entity?partition=p%2F1&row=a%20row"


async def make(site: Site) -> None:
    await site.services.store.table("departed").insert(Entity("p/1", "a row", EVERYTHING))


async def now(site: Site) -> dict[str, object]:
    found = await site.services.store.table("departed").get("p/1", "a row")
    assert found is not None
    return dict(found.properties)


async def test_the_explorer_links_from_tables_to_an_entity(site: Site) -> None:
    user = await site.user()
    await make(site)
    index = await opened(user, "/explorer")
    assert "directly into the store" in html.unescape(index)
    assert 'href="/explorer/tables/departed"' in index
    table = await opened(user, "/explorer/tables/departed")
    assert "rows?partition=p%2F1" in table
    rows = await opened(user, "/explorer/tables/departed/rows?partition=p/1")
    assert "Integer: 42" in rows
    assert "line &lt;two&gt;" in rows
    assert "AP9oZWxsbw==" in await opened(user, ENTITY)


async def test_partitions_and_rows_are_paged_and_found_by_prefix(site: Site) -> None:
    user = await site.user()
    table = site.services.store.table("departed")
    for number in range(60):
        await table.insert(Entity(f"p{number:02}", "r", {}))
        await table.insert(Entity("many", f"r{number:02}", {}))
    for path, key in (
        ("/explorer/tables/departed", "p"),
        ("/explorer/tables/departed/rows?partition=many", "r"),
    ):
        first = await opened(user, path)
        assert f"<code>{key}05</code>" in first
        assert f"<code>{key}55</code>" not in first
        further = re.search(r'href="([^"]*)" rel="next"', first)
        assert further is not None
        second = await opened(user, html.unescape(further[1]))
        assert f"<code>{key}55</code>" in second
        assert f"<code>{key}05</code>" not in second
        joined = "&" if "?" in path else "?"
        only = await opened(user, f"{path}{joined}prefix={key}3")
        assert len(set(re.findall(rf"<code>({key}\d\d)</code>", only))) == 10


async def test_an_entity_that_is_saved_unchanged_stays_as_it_is(site: Site) -> None:
    user = await site.user()
    await make(site)
    form = fields(await opened(user, ENTITY))
    assert await user.said(await user.post(ENTITY, form)) == "Saved."
    assert await now(site) == EVERYTHING


async def test_properties_are_changed_added_and_removed(site: Site) -> None:
    user = await site.user()
    await make(site)
    form = fields(await opened(user, ENTITY))
    number = {form[f"name{n}"]: n for n in range(6)}
    form[f"value{number['Integer']}"] = "43"
    form[f"kind{number['Float']}"] = "text"
    form[f"remove{number['Bytes']}"] = "1"
    form |= {"name6": "New", "kind6": "boolean", "value6": "false"}
    await user.said(await user.post(ENTITY, form))
    found = await now(site)
    assert found["Integer"] == 43
    assert found["Float"] == "1.5"
    assert found["New"] is False
    assert "Bytes" not in found
    [action] = (await site.services.audit.newest()).entries
    assert action.what == "changed an entity in the explorer"


async def test_a_value_that_cannot_be_is_named_and_nothing_is_saved(site: Site) -> None:
    user = await site.user()
    await make(site)
    form = fields(await opened(user, ENTITY))
    number = next(n for n in range(6) if form[f"name{n}"] == "Integer")
    form[f"value{number}"] = "many <b>"
    form |= {"name6": "", "value6": "without a name"}
    answer = await user.post(ENTITY, form)
    assert answer.status_code == 422
    assert "must be a whole number" in answer.text
    assert "needs a name" in answer.text
    assert "many &lt;b&gt;" in answer.text
    assert await now(site) == EVERYTHING


async def test_the_second_to_save_sees_the_other_values_next_to_their_own(site: Site) -> None:
    user = await site.user()
    await make(site)
    form = fields(await opened(user, ENTITY))
    theirs: dict[str, Value] = {**EVERYTHING, "Integer": 77, "Only": "theirs"}
    await site.services.store.table("departed").replace(Entity("p/1", "a row", theirs))
    number = next(n for n in range(6) if form[f"name{n}"] == "Integer")
    form[f"value{number}"] = "88"
    answer = await user.post(ENTITY, form)
    assert answer.status_code == 409
    assert "Someone else saved changes first" in answer.text
    assert "<code>77</code>" in answer.text
    mine = fields(answer.text)
    assert mine[f"value{number}"] == "88"
    assert "Only" in mine.values()
    assert await now(site) == theirs
    await user.said(await user.post(ENTITY, mine))
    assert await now(site) == {**theirs, "Integer": 88}


async def test_typed_values_survive_the_deletion_of_the_entity(site: Site) -> None:
    user = await site.user()
    await make(site)
    form = fields(await opened(user, ENTITY))
    form["value0"] = "precious"
    await site.services.store.table("departed").delete("p/1", "a row")
    answer = await user.post(ENTITY, form)
    assert answer.status_code == 409
    assert "precious" in answer.text


async def test_an_entity_is_deleted_after_a_question_and_only_as_it_was_seen(site: Site) -> None:
    user = await site.user()
    await make(site)
    path = ENTITY.replace("/entity", "/delete")
    form = fields(await opened(user, path))
    await site.services.store.table("departed").merge(Entity("p/1", "a row", {"Integer": 1}))
    assert (await user.post(path, form)).status_code == 409
    form = fields(await opened(user, path))
    assert await user.said(await user.post(path, form)) == "Entity deleted."
    assert await site.services.store.table("departed").get("p/1", "a row") is None


async def test_the_emails_of_a_page_are_shown_as_rows(site: Site) -> None:
    user = await site.user()
    guids = {Address(f"{name}@x.org"): GUID for name in ("ann", "bob", "carol")}
    emails = PageEmails.planned(guids).settled(
        {
            1: EmailState(EmailOutcome.REFUSED, "550 <no> such user", tries=2),
            2: EmailState(EmailOutcome.IN_DOUBT, "long " * 40, tries=1, unanswered=1),
        }
    )
    page = Page("2026-11-15", MessageRef("639303934531336520"), 7, emails)
    await site.services.pages.table.insert(page_entity(page))
    where = "partition=2026-11-15%2C639303934531336520"
    listed = await opened(user, f"/explorer/tables/messagepage/rows?{where}")
    assert "Planned: 3" in listed
    assert "<dt>Planned</dt><dd><code>3</code></dd>" in listed
    assert "Emails:" not in listed
    shown = await opened(user, f"/explorer/tables/messagepage/entity?{where}&row=000007")
    assert "3 emails</h2>" in shown
    for text in ("ann@x.org", "bob@x.org", "550 &lt;no&gt; such user"):
        assert f"{text}</td>" in shown
    for text in ("waiting", "refused", "uncertain", "was uncertain"):
        assert f"{text}</span>" in shown
    assert f'<details class="long"><summary>{"long " * 40}</summary></details>' in shown
    assert re.search(r"<details><summary>Packed value, \d+ characters</summary>", shown)


async def test_long_values_can_be_opened_among_the_rows(site: Site) -> None:
    user = await site.user()
    long = "word " * 100 + "<end>"
    row = Entity("p", "r", {"Short": "<b>", "Long": long, "Longest": "x" * 5000})
    await site.services.store.table("departed").insert(row)
    listed = await opened(user, "/explorer/tables/departed/rows?partition=p")
    assert "<summary>Short: &lt;b&gt; · Long: word word" in listed
    assert f"<dt>Long</dt><dd><code>{long.replace('<end>', '&lt;end&gt;')}</code></dd>" in listed
    assert f"<code>{'x' * 1000}…</code>" in listed
    shown = await opened(user, "/explorer/tables/departed/entity?partition=p&row=r")
    assert "x" * 5000 in shown
    assert shown.count("data-copy=") == 3


async def test_secrets_are_not_shown_and_cannot_be_changed(site: Site) -> None:
    user = await site.user()
    key = await site.services.keys.create("a key")
    token = (
        await site.services.access_links.invite("new@example.com", user.user.role, "x")
        if user.user
        else ""
    )
    for table in ("users", "sessions", "apikeys", "accesslinks"):
        page = await opened(user, f"/explorer/tables/{table}")
        assert "●●●" in page
        found = await site.services.store.table(table).query()
        for entity in found.entities:
            for value in entity.properties.values():
                if isinstance(value, str) and len(value) > 20 and "@" not in value:
                    assert value not in page
            if table != "users":
                assert entity.row not in page or entity.row in ("session", "link", "key")
            query = {"partition": entity.partition, "row": entity.row}
            base = f"/explorer/tables/{table}"
            for path in ("rows", "entity", "delete"):
                answer = await user.http.get(f"{base}/{path}", params=query)
                assert answer.status_code == 409, (table, path)
            answer = await user.http.post(
                f"{base}/delete",
                params=query,
                data={"csrf": await user.csrf(), "etag": entity.etag},
            )
            assert answer.status_code == 409
        assert key.secret not in page
        assert token not in page


async def test_the_audit_log_can_be_read_but_not_rewritten(site: Site) -> None:
    user = await site.user()
    await site.services.audit.record("somebody", "did something")
    [row, *_] = (await site.services.store.table("audit").query()).entities
    query = {"partition": row.partition, "row": row.row}
    shown = await user.http.get("/explorer/tables/audit/entity", params=query)
    assert "did something" in shown.text
    assert "read-only" in shown.text
    assert "<textarea" not in shown.text, "nothing looks as if it could be changed"
    for path in ("entity", "delete"):
        data = {"csrf": await user.csrf(), "etag": row.etag}
        answer = await user.http.post(f"/explorer/tables/audit/{path}", params=query, data=data)
        assert answer.status_code == 409


async def test_blobs_are_listed_downloaded_and_deleted(site: Site) -> None:
    user = await site.user()
    container = site.services.store.container("mailbodies")
    name = 'folder/<b>ü".html'
    await container.put(name, b"<script>alert(1)</script>")
    for number in range(60):
        await container.put(f"x{number:02}", b"")
    page = await opened(user, "/explorer/containers/mailbodies")
    assert "folder/&lt;b&gt;ü&#34;.html" in page
    assert 'rel="next"' in page
    only = await opened(user, "/explorer/containers/mailbodies?prefix=x5")
    assert only.count("Download</a>") == 10
    answer = await user.http.get("/explorer/containers/mailbodies/download", params={"name": name})
    assert answer.content == b"<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in answer.headers["content-security-policy"]
    missing = await user.http.get("/explorer/containers/mailbodies/download", params={"name": "no"})
    assert missing.status_code == 404

    asked = await user.http.get("/explorer/containers/mailbodies/delete", params={"name": name})
    form = fields(asked.text)
    await container.put(name, b"newer")
    query = {"name": name}
    data = {"csrf": await user.csrf(), "etag": form["etag"]}
    gone = await user.http.post("/explorer/containers/mailbodies/delete", params=query, data=data)
    assert gone.status_code == 409
    asked = await user.http.get("/explorer/containers/mailbodies/delete", params=query)
    data["etag"] = fields(asked.text)["etag"]
    gone = await user.http.post("/explorer/containers/mailbodies/delete", params=query, data=data)
    assert gone.status_code == 303
    assert await container.info(name) is None
