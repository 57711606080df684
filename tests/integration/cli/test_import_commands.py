"""`postroom subscriber import` and `export` as processes: mistakes, memory, and kill -9."""

import asyncio
import csv
import io
import json
import re
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from postroom.storage import open_store
from postroom.wiring import Services
from tests.services.postroom import CommandLine
from tests.services.waiting import BUSY


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    made = CommandLine(tmp_path)
    made.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    return made


def write_file(cli: CommandLine, count: int) -> str:
    path = cli.folder / f"{count}.csv"
    with path.open("w") as file:
        file.write("email,verified\n")
        # Not in the order of addresses, as files are.
        file.writelines(
            f"user{number * 7919 % count:06}@example{number % 50}.com,true\n"
            for number in range(count)
        )
    return path.name


def test_a_file_is_imported_and_summarised(cli: CommandLine) -> None:
    (cli.folder / "people.csv").write_text(
        "Name;E-Mail;EMAIL\nAnn;;ann@example.org\nBob;;bob@@example.org\nEve;;eve@example.org\n"
    )
    printed = cli.ok("subscriber", "import", "news", "people.csv", "--verified")
    assert printed.startswith("news: 2 added, 0 updated, 0 unchanged, 1 rejected (")
    assert "Ignored columns: Name, E-Mail" in printed
    [line] = [each for each in printed.splitlines() if "bob@@example.org" in each]
    assert line.split()[0] == "3"
    report = cli.json("subscriber", "import", "news", "people.csv")
    assert (report["added"], report["updated"], report["rejected"]) == (0, 2, 1)
    assert report["unchanged"] == 2, "a part of the updated ones"
    assert [(each["line"], each["email"]) for each in report["errors"]] == [(3, "bob@@example.org")]
    verified = cli.json("subscriber", "ls", "news", "--verified")["items"]
    assert len(verified) == 2


def test_fields_are_filled_and_created(cli: CommandLine) -> None:
    cli.ok("field", "add", "news", "city")
    (cli.folder / "people.csv").write_text(
        "email,City,Shoe size\nann@example.org,Bern,38\nbob@example.org,Ulm,44\n"
    )
    planned = cli.ok("subscriber", "import", "news", "people.csv", "--create-fields", "--dry-run")
    assert "Field city" in planned
    assert "Fields would be created: shoe_size" in planned
    printed = cli.ok("subscriber", "import", "news", "people.csv", "--create-fields")
    assert "Fields created: shoe_size" in printed
    cli.ok("segment", "create", "news", "bern", 'city = "Bern"')
    exported = cli.ok("subscriber", "export", "news", "-", "--segment", "bern").splitlines()
    assert exported[0].endswith(",city,shoe_size")
    assert [line.split(",")[0] for line in exported[1:]] == ["ann@example.org"]
    (cli.folder / "people.csv").write_text("email,city\nann@example.org,Rome\n")
    kept = cli.ok("subscriber", "import", "news", "people.csv", "--existing", "keep")
    assert "0 updated, 1 unchanged" in kept


def test_dates_are_read_in_the_given_order(cli: CommandLine) -> None:
    (cli.folder / "people.csv").write_text("email,Born\nann@example.org,2/3/1990\n")
    command = ("subscriber", "import", "news", "people.csv", "--column", "Born=new:date")
    assert "must be a date" in cli.run(*command).stdout
    cli.ok(*command, "--date-order", "month_first")
    [ann] = cli.json("subscriber", "ls", "news")["items"]
    assert ann["attributes"] == {"born": "1990-02-03"}


def test_a_dry_run_shows_what_an_import_would_do(cli: CommandLine) -> None:
    (cli.folder / "people.csv").write_text(
        "Mail,Status,City\nann@example.org,confirmed,Rome\nbob@example.org,blocklisted,Oslo\n"
    )
    printed = cli.ok("subscriber", "import", "news", "people.csv", "--dry-run")
    assert "Dry run: nothing was written." in printed
    assert "news: would be 2 added, 0 updated, 0 unchanged, 0 rejected (" in printed
    assert "1 newly confirmed, 1 blocked." in printed
    used = {line.split()[0]: line for line in printed.splitlines() if line.split()}
    assert "Email address" in used["Mail"]
    assert "confirmed, blocklisted" in used["Status"]
    assert "Not imported" in used["City"]
    assert cli.json("subscriber", "ls", "news")["items"] == []
    report = cli.json("subscriber", "import", "news", "people.csv", "--dry-run")
    assert (report["dry_run"], report["added"], report["blocked"]) == (True, 2, 1)


def test_all_rejected_lines_can_be_kept_in_a_file(cli: CommandLine) -> None:
    bad = "".join(f"=bad{number}\n" for number in range(30))
    data = f"email\nann@example.org\n{bad}".encode()
    printed = cli.ok("subscriber", "import", "news", "-", stdin=data)
    assert "… and 20 more; --rejected FILE writes all of them to a file." in printed
    printed = cli.ok("subscriber", "import", "news", "-", "--rejected", "bad.csv", stdin=data)
    assert "All rejected lines were written to bad.csv." in printed
    rows = list(csv.DictReader(io.StringIO((cli.folder / "bad.csv").read_text())))
    assert [row["line"] for row in rows] == [str(line) for line in range(3, 33)]
    assert rows[0]["email"] == "'=bad0"
    assert rows[0]["reason"]


def test_mistakes_with_files_are_one_line_and_nothing_is_imported(cli: CommandLine) -> None:
    (cli.folder / "latin.csv").write_bytes("email,name\na@b.org,Jürgen\n".encode("latin-1"))
    (cli.folder / "no-email.csv").write_text("post,name\na@b.org,Ann\n")
    (cli.folder / "empty.csv").write_text("")
    (cli.folder / "folder").mkdir()

    def why(*arguments: str) -> str:
        return cli.fails("subscriber", "import", *arguments)

    assert "line 2 is not in UTF-8" in why("news", "latin.csv")
    assert "name the encoding that it is in (such as windows-1252)" in why("news", "latin.csv")
    assert "no encoding 'klingon'" in why("news", "latin.csv", "--encoding", "klingon")
    assert "has no column 'email', only 'post', 'name'" in why("news", "no-email.csv")
    assert "has no header line" in why("news", "empty.csv")
    assert "'missing.csv' does not exist" in cli.misused(
        "subscriber", "import", "news", "missing.csv"
    )
    assert why("nope", "latin.csv") == "there is no list 'nope'"
    cli.misused("subscriber", "import", "news", "folder")
    assert cli.json("subscriber", "ls", "news")["items"] == []
    cli.ok("subscriber", "import", "news", "latin.csv", "--encoding", "latin-1")
    assert len(cli.json("subscriber", "ls", "news")["items"]) == 1


def test_a_file_of_which_no_line_can_be_used_is_a_failure(cli: CommandLine) -> None:
    assert cli.fails("subscriber", "import", "news", "-", stdin=b"email\nbad\n") == (
        "no line of the file could be used"
    )


def test_export_and_import_are_a_round_trip(cli: CommandLine) -> None:
    cli.ok("subscriber", "import", "news", write_file(cli, 3000))
    assert "3,000 subscribers of news exported to out.csv." in cli.ok(
        "subscriber", "export", "news", "out.csv"
    )
    text = cli.ok("subscriber", "export", "news")
    assert text.encode() == (cli.folder / "out.csv").read_bytes()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["email"] for row in rows] == sorted(row["email"] for row in rows)
    cli.ok("list", "create", "copy", "--description", "A copy", "--from", "news@contoso.com")
    cli.ok("subscriber", "import", "copy", "out.csv")
    copied = list(csv.DictReader(io.StringIO(cli.ok("subscriber", "export", "copy"))))
    assert [(r["email"], r["verified"]) for r in copied] == [
        (r["email"], r["verified"]) for r in rows
    ]


def test_an_export_is_lines_of_json_on_request(cli: CommandLine) -> None:
    cli.ok("subscriber", "import", "news", "-", stdin=b"email\nann@b.org\n=bob@b.org\n")
    lines = cli.ok("subscriber", "export", "news", "--json").splitlines()
    assert [json.loads(line) for line in lines] == cli.json("subscriber", "ls", "news")["items"]
    printed = cli.ok("subscriber", "export", "news", "out.json", "--json")
    assert printed == f"{len(lines)} subscribers of news exported to out.json.\n"


def test_an_export_that_fails_leaves_the_file_as_it_was(cli: CommandLine) -> None:
    (cli.folder / "out.csv").write_text("precious")
    assert cli.fails("subscriber", "export", "nope", "out.csv") == "there is no list 'nope'"
    assert (cli.folder / "out.csv").read_text() == "precious"
    assert cli.fails("subscriber", "export", "news", "no/such/out.csv") == (
        "no/such/out.csv: No such file or directory"
    )
    assert [each.name for each in cli.folder.glob("*.part")] == []


def test_an_import_of_100_000_lines_is_killed_and_repeated(cli: CommandLine) -> None:
    name = write_file(cli, 100_000)
    process = cli.start("subscriber", "import", "news", name)
    wait_for_rows(cli, 10_000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = rows(cli)["email:"]
    assert 0 < there < 100_000

    report = cli.json("subscriber", "import", "news", name)

    assert report["added"] == 100_000 - there
    assert (report["updated"], report["unchanged"], report["rejected"]) == (there, there, 0)
    found = rows(cli)
    assert found.pop("ledgerimport:") > 100_000 // 49
    assert found == {"email:": 100_000, "guid:": 100_000}


def test_memory_does_not_grow_with_the_file(cli: CommandLine) -> None:
    """Ten thousand lines are less than what is read at once; the others differ in nothing."""
    peaks = {}
    for count in (10_000, 100_000, 250_000):
        name = write_file(cli, count)
        peaks[count] = cli.peak_memory(
            "subscriber", "import", "news", name, "--store", f"sqlite:///{make_store(cli, count)}"
        )
    assert peaks[100_000] < peaks[10_000] + 24 * 1024 * 1024, peaks
    assert peaks[250_000] < 1.1 * peaks[100_000], peaks


def make_store(cli: CommandLine, count: int) -> str:
    file = f"store-{count}.db"
    create = ("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    cli.ok(*create, "--store", f"sqlite:///{file}")
    return file


def rows(cli: CommandLine) -> dict[str, int]:
    """Counted beside Postroom: rows of subscribers, and their look-up rows."""
    uri = f"file:{cli.folder}/postroom-data/postroom.db?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=30)
    try:
        found = connection.execute(
            "SELECT substr(row, 1, instr(row, ':')), count(*) FROM t_mailinglist"
            " WHERE row LIKE '%:%' GROUP BY 1"
        )
        return dict(found.fetchall())
    finally:
        connection.close()


def wait_for_rows(cli: CommandLine, count: int) -> None:
    deadline = time.monotonic() + 30 * BUSY
    while rows(cli).get("email:", 0) < count:
        assert time.monotonic() < deadline, json.dumps(rows(cli))
        time.sleep(0.01)


def test_an_import_resubscribes_nobody_without_its_option(cli: CommandLine) -> None:
    guid = cli.json("subscriber", "add", "news", "ann@example.org", "--verified")["guid"]
    asyncio.run(unsubscribe(cli.folder / "postroom-data" / "postroom.db", guid))
    file = b"email\nann@example.org\nbob@example.org\n"
    printed = cli.ok("subscriber", "import", "news", "-", stdin=file)
    assert printed.startswith("news: 1 added, 0 updated, 0 unchanged, 1 rejected (")
    assert "only the owner can subscribe again" in printed
    traced = cli.ok("trace", "ann@example.org")
    assert "Unsubscribed from news on 2" in traced
    assert re.search(r"news +2\S+ \S+ \S+ +added as confirmed +command line", traced)
    [left] = cli.json("subscriber", "export-data", "ann@example.org")["left"]
    assert left["list"] == "news"
    back = cli.ok("subscriber", "import", "news", "-", "--even-unsubscribed", stdin=file)
    assert back.startswith("news: 1 added, 0 updated, 1 unchanged, 0 rejected (")


async def unsubscribe(file: Path, guid: str) -> None:
    async with await open_store(f"sqlite:///{file}") as store:
        assert await Services(store).subscriptions.unsubscribe("news", guid) is not None
