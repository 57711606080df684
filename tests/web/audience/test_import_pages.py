"""CSV files into a list, over HTTP: upload, progress, report."""

from __future__ import annotations

import asyncio
import csv
import html
import io
import re

import httpx2
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.list_rights import ALL_RIGHTS
from postroom.domain.audience.lists.lists import ListName
from postroom.services.accounts.users import Role
from postroom.services.audience.files import reading_ahead
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.files.runs.import_states import Stage
from postroom.services.audience.files.runs.running_import import ImportRun
from tests.integration.usecases.audience.imports.test_other_tools import mailchimp
from tests.web.site import Site, Visitor
from tests.web.test_list_rights import member

HERE = "/lists/news/import"


@pytest.fixture
async def editor(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@contoso.example")
    return await site.user(Role.EDITOR)


async def upload(editor: Visitor, data: bytes, **fields: str) -> httpx2.Response:
    return await editor.post(HERE, fields, files={"file": ("people.csv", data, "text/csv")})


async def previewed(editor: Visitor, begun: httpx2.Response) -> tuple[str, str]:
    """Return the page of an import once nothing is under way, and its address."""
    assert begun.status_code == 303, begun.text
    where = begun.headers["location"]
    for _ in range(600):
        part = await editor.get(where, headers={"HX-Request": "true"})
        if 'hx-trigger="every' not in part.text:
            return (await editor.get(where)).text, where
        await asyncio.sleep(0.05)
    raise TimeoutError("the import did not end within 30 s")


async def finished(editor: Visitor, begun: httpx2.Response, **fields: str) -> tuple[str, str]:
    """Confirm the preview with the answers of the upload; return the page once it is imported."""
    page, where = await previewed(editor, begun)
    assert "Nothing has been changed yet." in page
    assert "Import complete." not in page
    return await previewed(editor, await editor.post(where, {"action": "import", **fields}))


async def test_a_file_is_imported_and_its_bad_lines_are_reported(
    site: Site, editor: Visitor
) -> None:
    lines = ["email,verified,colour", "ann@example.com,true,red", "<b>bob,,", "=cmd()@x,true,"]
    data = "\n".join([*lines, *(f"user{n}@example.com,," for n in range(2000))]).encode()
    page, where = await finished(editor, await upload(editor, data))
    assert "Import complete." in page
    assert ">2,001<" in page
    assert "Columns that were not imported: colour" in page
    assert "&lt;b&gt;bob" in page
    assert "<b>bob" not in page
    report = await editor.get(f"{where}/rejected.csv")
    assert report.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.reader(io.StringIO(report.text)))
    assert rows[0] == ["line", "email", "reason"]
    assert [row[:2] for row in rows[1:]] == [["3", "<b>bob"], ["4", "'=cmd()@x"]]
    assert all(row[2] for row in rows[1:])
    ann = await site.services.subscriptions.get("news", "ann@example.com")
    assert ann.verified
    assert not (await site.services.subscriptions.get("news", "user7@example.com")).verified
    # The same file once more adds nobody.
    page, _ = await finished(editor, await upload(editor, data))
    assert ">2,001<" in page
    assert len([each async for each in site.services.subscriptions.all(ann.list_name)]) == 2001


async def test_what_lines_do_not_say_the_form_says_and_other_encodings_are_read(
    site: Site, editor: Visitor
) -> None:
    data = "email;name\nann@example.com;Zoé\n".encode("windows-1252")
    page, where = await previewed(editor, await upload(editor, data))
    assert "cannot be imported: line 2 is not in UTF-8" in page
    assert "--encoding" not in page
    assert 'value="import"' not in page, "there is nothing to confirm"
    refused = await editor.post(where, {"action": "import"})
    assert "cannot be imported" in (await previewed(editor, refused))[0]
    # Corrected in the preview, without another upload: it is shown again before it is imported.
    answers = {"encoding": "windows-1252", "verified": "yes"}
    again = await editor.post(where, {"action": "import", **answers})
    page, where = await previewed(editor, again)
    assert "Zoé" in page
    assert "Nothing has been changed yet." in page
    assert (await site.services.search.find("news")).subscribers == []
    page, _ = await previewed(editor, await editor.post(where, {"action": "import", **answers}))
    assert "Import complete." in page
    assert (await site.services.subscriptions.get("news", "ann@example.com")).verified


async def test_an_import_resubscribes_people_only_if_the_form_says_so(
    site: Site, editor: Visitor
) -> None:
    ann = await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    await site.services.subscriptions.unsubscribe("news", ann.guid)
    data = b"email\nann@example.com\nbob@example.com\n"
    page, _ = await finished(editor, await upload(editor, data))
    assert "only the owner can subscribe again" in page
    assert [each.address async for each in site.services.subscriptions.all(ann.list_name)] == [
        "bob@example.com"
    ]
    bringing = {"even_unsubscribed": "yes"}
    page, _ = await finished(editor, await upload(editor, data, **bringing), **bringing)
    assert "only the owner can subscribe again" not in page
    assert not (await site.services.subscriptions.get("news", "ann@example.com")).verified


async def test_a_file_that_is_not_csv_is_refused_in_one_line(
    editor: Visitor,
) -> None:
    for data, problem in (
        (b"", "has no header line"),
        (b"name\nann\n", "has no column"),
        (b"\x00\x01\x02\x03", "UTF-16"),
        (b"ann@example.com\n", "add a first line with the column"),
    ):
        page, where = await previewed(editor, await upload(editor, data))
        assert "cannot be imported" in page
        assert problem in page
        again = await editor.post(where, {"action": "check"})
        assert problem in (await previewed(editor, again))[0]


async def test_without_a_file_it_asks_for_one(editor: Visitor) -> None:
    answer = await editor.post(HERE, {})
    assert answer.status_code == 422
    assert "Choose a CSV file." in answer.text


async def test_an_unknown_import_says_that_nothing_is_lost(site: Site, editor: Visitor) -> None:
    page = await editor.get(f"{HERE}/unknown")
    assert page.status_code == 200
    assert "Import not found" in page.text
    assert "importing the same file again creates no duplicates" in page.text
    for odd in ("%2e%2e", "a%20b", "x" * 300):
        assert "Import not found" in (await editor.get(f"{HERE}/{odd}")).text
    assert (await editor.get(f"{HERE}/unknown/rejected.csv")).status_code == 404
    # An import belongs to its list.
    _, where = await finished(editor, await upload(editor, b"email\nann@example.com\n"))
    await site.services.lists.create("other", "Other", "other@contoso.example")
    elsewhere = await editor.get(where.replace("/news/", "/other/"))
    assert "Import not found" in elsewhere.text


async def test_a_preview_says_what_will_happen_before_anything_is_written(
    site: Site, editor: Visitor
) -> None:
    await site.services.subscriptions.add("news", "Gone@example.com", verified=True)
    await site.services.subscriptions.add("news", "kim@example.com", verified=True)
    data = (
        "E-Mail;Status;City\nann@example.com;confirmed;Köln\ngone@example.com;unsubscribed;Rom\n"
        "bad@example.com;blocklisted;Oslo\nwaits@example.com;pending;Bern\nodd@example.com;gold;\n"
    ).encode()
    page, where = await previewed(editor, await upload(editor, data, verified="yes"))
    for text in (
        "<strong>3</strong> new subscribers will be added",
        "<strong>1</strong> subscriber will be newly confirmed",
        "<strong>1</strong> address will be recorded as unsubscribed",
        "<strong>1</strong> address will be blocked",
        "<strong>1</strong> line cannot be used",
        "These columns are not imported: <strong>City</strong>",
        "Köln",
        "unknown status “gold”",
    ):
        assert text in page, text
    assert [each.address for each in (await site.services.search.find("news")).subscribers] == [
        "Gone@example.com", "kim@example.com",
    ]  # fmt: skip
    confirmed = {"action": "import", "verified": "yes"}
    page, _ = await previewed(editor, await editor.post(where, confirmed))
    assert "Import complete." in page
    found = {str(e.address): e for e in (await site.services.search.find("news")).subscribers}
    assert set(found) == {
        "ann@example.com", "bad@example.com", "kim@example.com", "waits@example.com",
    }  # fmt: skip
    assert [each for each in found if found[each].may_receive] == [
        "ann@example.com", "kim@example.com",
    ]  # fmt: skip
    assert found["bad@example.com"].blocked == "suppressed: blocklisted in the imported file"
    # Somebody who left elsewhere is not brought back by another file, either.
    page, _ = await finished(editor, await upload(editor, b"email\ngone@example.com\n"))
    assert "only the owner can subscribe again" in page
    # Confirming twice imports once.
    await editor.post(where, confirmed)
    assert len((await site.services.search.find("news")).subscribers) == 4


async def test_only_so_many_files_wait_for_a_confirmation(site: Site, editor: Visitor) -> None:
    first = (await previewed(editor, await upload(editor, b"email\nann@example.com\n")))[1]
    for _ in range(11):
        await previewed(editor, await upload(editor, b"email\nbob@example.com\n"))
    assert "Import not found" in (await editor.get(first)).text


def choices(page: str) -> dict[str, str]:
    """What each column of the preview is imported as."""
    rows = re.findall(r'name="column\[\]" value="([^"]*)"><select(.*?)</select>', page, re.DOTALL)
    picked = {name: re.findall(r'value="([^"]*)" selected', options) for name, options in rows}
    return {html.unescape(name): found[0] for name, found in picked.items()}


async def test_columns_are_mapped_before_the_import(site: Site, editor: Visitor) -> None:
    await site.services.fields.declare("news", [Field("city")])
    data = b"Wer?;Stadt;Geburtstag;Vorname;X\nann@example.com;Bern;31/01/1990;Ann;1\n"
    page, where = await previewed(editor, await upload(editor, data))
    assert "cannot be imported" in page
    assert choices(page)["Wer?"] == "skip"

    async def choose(**changes: str) -> str:
        picked = {**choices(page), **changes}
        form: dict[str, str | list[str]] = {
            "column[]": list(picked),
            "used_as[]": list(picked.values()),
            "date_order": "day_first",
            "action": "import",
        }
        return (await previewed(editor, await editor.post(where, form)))[0]

    changes = {"Wer?": "address", "Stadt": "field:city", "Geburtstag": "new:date"}
    page = await choose(**changes)
    assert "Nothing has been changed yet." in page
    assert "will be created: <strong>geburtstag</strong>" in page
    assert choices(page) == {**changes, "Vorname": "field:first_name", "X": "skip"}
    page = await choose(X="nonsense")
    assert "a column cannot be used for" in html.unescape(page)
    page = await choose(X="skip")
    page = await choose()
    assert "Import complete." in page
    ann = await site.services.subscriptions.get("news", "ann@example.com")
    assert ann.attributes == {"city": "Bern", "geburtstag": "1990-01-31", "first_name": "Ann"}


async def test_unknown_columns_become_fields_of_the_guessed_types(
    site: Site, editor: Visitor
) -> None:
    rows = "".join(
        f"u{n}@example.com;{n};{'SML'[n % 3]};2026-01-{n % 9 + 1:02};;x\n" for n in range(40)
    )
    data = f"email;Age;Size;Since;Nothing;Junk\n{rows}".encode()
    page, where = await previewed(editor, await upload(editor, data, create_fields="yes"))
    guessed = {"Age": "new:integer", "Size": "new:choice", "Since": "new:date", "Junk": "new:text"}
    assert choices(page) == {"email": "address", "Nothing": "skip", **guessed}
    picked = {**choices(page), "Junk": "skip", "Since": "new:text"}
    form: dict[str, str | list[str]] = {
        "column[]": list(picked), "used_as[]": list(picked.values()), "create_fields": "yes",
        "action": "import",
    }  # fmt: skip
    page, _ = await previewed(editor, await editor.post(where, form))
    assert choices(page) == picked
    page, _ = await previewed(editor, await editor.post(where, form))
    assert "Import complete." in page
    ann = await site.services.subscriptions.get("news", "u4@example.com")
    assert ann.attributes == {"age": 4, "size": "M", "since": "2026-01-05"}
    types = (await site.services.fields.get("news")).fields.types
    assert (types["size"], types["since"]) == (FieldType.CHOICE, FieldType.TEXT)


async def recent_imports(editor: Visitor) -> str:
    return (await editor.get(HERE)).text.partition("Recent imports")[2]


async def test_an_import_is_stopped_and_resumed(
    site: Site, editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 50)
    lines = "".join(f"u{n:04}@example.com\n" for n in range(2000))
    _, where = await previewed(editor, await upload(editor, f"email\n{lines}".encode()))
    reached = asyncio.Event()
    note = ImportRun.note

    def noted(run: ImportRun, done: int, report: ImportReport) -> None:
        note(run, done, report)
        if run.state.stage is Stage.IMPORTING and report.added >= 100:
            reached.set()
            run.stop()

    monkeypatch.setattr(ImportRun, "note", noted)
    page, _ = await previewed(editor, await editor.post(where, {"action": "import"}))
    assert reached.is_set()
    assert "Everything imported so far is kept" in page
    assert "Resume import" in page
    monkeypatch.setattr(ImportRun, "note", note)
    recent = await recent_imports(editor)
    assert f'<a href="{where}">people.csv</a>' in recent
    assert "Stopped" in recent
    page, _ = await previewed(editor, await editor.post(where, {"action": "import"}))
    assert "Import complete." in page
    recent = await recent_imports(editor)
    assert "Complete" in recent
    assert "Stopped" not in recent
    await site.services.lists.create("other", "Other", "other@contoso.example")
    assert "Recent imports" not in (await editor.get("/lists/other/import")).text
    assert len([each async for each in site.services.subscriptions.all(ListName("news"))]) == 2000
    again = await editor.post(f"{where}/stop", {})
    assert again.status_code == 303


async def test_rejected_lines_are_counted_by_reason(editor: Visitor) -> None:
    data = b"email,status\na@example.com,odd\nb@example.com,strange\nok@example.com,active\n"
    page, _ = await previewed(editor, await upload(editor, data))
    assert "2 × unknown status …: use confirmed, pending" in page


async def test_an_export_without_statuses_comes_with_a_warning(editor: Visitor) -> None:
    data = b"EMAIL,ADDED_TIME,MODIFIED_TIME,EXTRA\nann@b.org,2020-01-02,2020-01-02,active\n"
    warning = "This file does not say who unsubscribed in Brevo"
    begun = await upload(editor, data)
    page, where = await previewed(editor, begun)
    assert warning in page
    columns = {"column[]": ["EXTRA"], "used_as[]": ["status"]}
    page, _ = await previewed(editor, await editor.post(where, {"action": "check", **columns}))
    assert warning not in page
    page, _ = await finished(editor, await upload(editor, data))
    assert warning in page


async def test_an_archive_of_another_tool_is_recognised(site: Site, editor: Visitor) -> None:
    page, where = await previewed(editor, await upload(editor, mailchimp(3)))
    assert "This is an export of Mailchimp." in page
    page, _ = await previewed(editor, await editor.post(where, {"action": "import"}))
    assert "Import complete." in page
    assert (await editor.get("/lists/news/subscribers/s1@example.com")).text.count(
        "<dt>Consent"
    ) == 1


async def test_someone_with_rights_on_one_list_suppresses_on_that_list(
    site: Site, editor: Visitor
) -> None:
    data = b"email,status\ngone@example.com,bounced\n"
    manager = await member(site, "news", ALL_RIGHTS)
    page, _ = await previewed(manager, await upload(manager, data))
    assert "<strong>1</strong> address will be suppressed: on this list." in page
    await finished(manager, await upload(manager, data))
    [own] = await site.services.suppressions.of_address(Address("gone@example.com"))
    assert own.list_name == "news"
    page, _ = await previewed(editor, await upload(editor, data))
    assert "will be suppressed: on every list after a hard bounce or a complaint" in page
    await finished(editor, await upload(editor, data))
    found = await site.services.suppressions.of_address(Address("gone@example.com"))
    assert [each.list_name for each in found] == [None, "news"]
