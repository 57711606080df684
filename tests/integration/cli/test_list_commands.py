"""Lists and subscribers on the command line, on SQLite and on PostgreSQL."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.postroom import CommandLine
from tests.services.stores.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def cli(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    if request.param == "sqlite":
        yield CommandLine(tmp_path)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.empty_database() as url:
        yield CommandLine(tmp_path, {"POSTROOM_STORE": url})


@pytest.fixture
def news(cli: CommandLine) -> str:
    cli.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    return "news"


def test_a_list_is_created_shown_changed_and_deleted(cli: CommandLine) -> None:
    made = cli.json("list", "create", "a", "--description", "The [b]A[/b]", "--from", "a@A.org")
    assert (made["name"], made["from_address"]) == ("a", "a@a.org")
    shown = cli.ok("list", "ls")
    assert "The [b]A[/b]" in shown  # no markup
    cli.ok("list", "edit", "a", "--description", "Another")
    cli.ok("subscriber", "add", "a", "ann@example.org", "--verified")
    found = cli.json("list", "show", "a", "--count")
    assert found["description"] == "Another"
    assert (found["subscribers"], found["verified"], found["blocked"]) == (1, 1, 0)
    assert cli.json("list", "delete", "a", "--yes") == {"list": "a", "removed_subscribers": 1}
    assert cli.json("list", "ls") == {"items": [], "next": None}


def test_a_list_has_a_language_and_a_postal_address(cli: CommandLine) -> None:
    start = ("list", "create", "a", "--description", "A", "--from", "a@a.org")
    made = cli.json(*start, "--language", "de", "--postal-address", "Contoso\nBerlin")
    assert (made["language"], made["postal_address"]) == ("de", "Contoso\nBerlin")
    shown = cli.ok("list", "show", "a")
    assert "Contoso↵Berlin" in shown
    changed = cli.json("list", "edit", "a", "--language", "fr")
    assert (changed["language"], changed["postal_address"]) == ("fr", "Contoso\nBerlin")
    assert cli.json("list", "edit", "a", "--postal-address", "")["postal_address"] == ""
    assert cli.fails("list", "edit", "a", "--language", "xx") == (
        "language: must be one of en, fr, de, ko, ru, not 'xx'"
    )


def test_a_list_has_a_brand(cli: CommandLine) -> None:
    start = ("list", "create", "a", "--description", "A", "--from", "a@a.org")
    made = cli.json(*start, "--colour", "#ABC", "--font", "mono", "--website", "a.example")
    assert (made["colour"], made["font"], made["website"]) == (
        "#aabbcc",
        "mono",
        "https://a.example",
    )
    links = "https://x.com/a\nhttps://github.com/a"
    changed = cli.json("list", "edit", "a", "--social-links", links, "--footer-text", "No. 1")
    assert (changed["social_links"], changed["footer_text"]) == (links, "No. 1")
    assert cli.fails("list", "edit", "a", "--website", "ftp://a.example") == (
        "website: must look like https://www.example.com, not 'ftp://a.example'"
    )


def test_each_flag_of_a_list_has_its_own_opposite(cli: CommandLine) -> None:
    start = ("list", "create", "a", "--description", "A", "--from", "a@a.org")
    made = cli.json(*start, "--private", "--ask-name", "--noindex")
    assert (made["public"], made["ask_name"], made["noindex"]) == (False, True, True)
    changed = cli.json("list", "edit", "a", "--no-ask-name", "--index")
    assert (changed["public"], changed["ask_name"], changed["noindex"]) == (False, False, False)
    assert cli.json("list", "edit", "a", "--public")["public"] is True
    assert cli.json("list", "edit", "a", "--private")["public"] is False


def test_mistakes_with_lists_are_one_line(cli: CommandLine, news: str) -> None:
    same = ("list", "create", news, "--description", "Again", "--from", "news@contoso.com")
    assert cli.fails(*same) == "the list 'news' already exists"
    assert cli.fails("list", "show", "nope") == "there is no list 'nope'"
    assert cli.fails("list", "delete", "nope", "--yes") == "there is no list 'nope'"
    assert cli.fails("subscriber", "ls", "nope") == "there is no list 'nope'"
    bad_name = ("list", "create", "a/b", "--description", "x", "--from", "a@b.org")
    assert cli.fails(*bad_name).startswith("name: must have 1 to 100 letters")
    bad_from = ("list", "create", "b", "--description", "x", "--from", "nobody")
    assert cli.fails(*bad_from).startswith("from_address: ")
    injected = ("list", "create", "b", "--description", "x\r\nBcc: all", "--from", "a@b.org")
    assert cli.fails(*injected).startswith("description: contains a character")


def test_a_subscriber_from_sign_up_to_unsubscribing(cli: CommandLine, news: str) -> None:
    added = cli.json("subscriber", "add", news, "Ann@EXAMPLE.org")
    assert (added["email"], added["verified"]) == ("Ann@example.org", False)
    assert cli.json("subscriber", "edit", news, "Ann@example.org", "--verify")["verified"] is True
    blocked = cli.json("subscriber", "edit", news, "Ann@example.org", "--block", "bounced")
    assert (blocked["blocked"], blocked["verified"]) == ("bounced", True)
    assert "blocked: bounced" in cli.ok("subscriber", "ls", news)
    assert cli.json("subscriber", "edit", news, "Ann@example.org", "--unblock")["blocked"] is None
    noted = cli.json("subscriber", "edit", news, "Ann@example.org", "--note", "Met at the fair")
    assert noted["note"] == "Met at the fair"

    cli.ok("subscriber", "change-address", news, "Ann@example.org", "anna@example.org")
    moved = cli.json("subscriber", "show", news, "anna@example.org")
    assert moved["guid"] == added["guid"]
    shown = cli.ok("subscriber", "show", news, "anna@example.org")
    assert re.search(r"formerly +ann@example.org", shown)
    assert re.search(r"note +Met at the fair", shown)
    assert cli.json("subscriber", "edit", news, "anna@example.org", "--note", "")["note"] == ""
    cli.ok("list", "create", "other", "--description", "Other", "--from", "a@contoso.com")
    cli.ok("subscriber", "move", news, "anna@example.org", "other")
    assert cli.json("subscriber", "ls", news)["items"] == []
    assert cli.json("subscriber", "show", "other", "anna@example.org")["guid"] == added["guid"]
    cli.ok("subscriber", "remove", "other", "anna@example.org")
    line = cli.fails("subscriber", "remove", "other", "anna@example.org")
    assert line == "there is no subscriber 'anna@example.org'"


def test_subscribers_are_paged_and_filtered(cli: CommandLine, news: str) -> None:
    lines = [f"{one}{n}@example.org,{n}" for one in "ab" for n in (0, 1)]
    cli.ok("subscriber", "import", news, "-", stdin="\n".join(["email,verified", *lines]).encode())
    first = cli.json("subscriber", "ls", news, "--limit", "3")
    rest = cli.json("subscriber", "ls", news, "--limit", "3", "--after", first["next"])
    shown = [each["email"] for each in first["items"] + rest["items"]]
    assert shown == ["a0@example.org", "a1@example.org", "b0@example.org", "b1@example.org"]
    assert rest["next"] is None
    verified = cli.json("subscriber", "ls", news, "--verified", "--prefix", "b")["items"]
    assert [each["email"] for each in verified] == ["b1@example.org"]
    assert "--after" in cli.run("subscriber", "ls", news, "--limit", "1").stderr


def test_an_added_subscriber_gets_a_confirmation_email(cli: CommandLine, news: str) -> None:
    cli.ok("subscriber", "add", news, "ann@example.org")
    printed = cli.ok("subscriber", "ask", news, "ann@example.org")
    assert printed.startswith("Confirmation email to ann@example.org queued.")
    assert cli.json("subscriber", "ask", news, "ann@example.org")["verified"] is False
    assert "asked too often" in cli.fails("subscriber", "ask", news, "ann@example.org")
    assert len(cli.json("queue", "peek", "mail/confirm")["items"]) == 2


def test_mistakes_with_subscribers_are_one_line(cli: CommandLine, news: str) -> None:
    cli.ok("subscriber", "add", news, "ann@example.org")
    line = cli.fails("subscriber", "add", news, "ann@example.org")
    assert line == "the subscriber 'ann@example.org' already exists"
    assert cli.fails("subscriber", "add", news, "ann@@example.org").startswith("email: ")
    assert cli.fails("subscriber", "add", news, "a@b.org\nBcc: x@y.org").startswith("email: ")
    line = cli.fails("subscriber", "show", news, "bob@example.org")
    assert line == "there is no subscriber 'bob@example.org'"


def test_a_folder_without_a_store_is_reported(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    first = cli.run("list", "ls")
    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr.splitlines() == [
        "./postroom-data/postroom.db did not exist: this is a new store.",
        "No lists in ./postroom-data/postroom.db. Create one with: postroom list create",
    ]
    assert "did not exist" not in cli.run("list", "ls").stderr
    (tmp_path / "other").mkdir()
    other = CommandLine(tmp_path / "other")
    printed = other.run("message", "ls", "--json")
    assert (json.loads(printed.stdout), printed.stderr) == ({"items": [], "next": None}, "")
    absolute = cli.run("message", "ls", "--data", str(tmp_path / "third")).stderr
    assert f"{tmp_path / 'third' / 'postroom.db'} did not exist" in absolute


def test_subscribers_are_found_by_any_part_of_their_address(cli: CommandLine) -> None:
    cli.ok("list", "create", "parts", "--description", "Parts", "--from", "news@contoso.com")
    for email in ("Ann.Lee@example.org", "bob@example.org", "leeway@example.com"):
        cli.ok("subscriber", "add", "parts", email)
    found = cli.json("subscriber", "ls", "parts", "--contains", "LEE")
    assert [each["email"] for each in found["items"]] == [
        "Ann.Lee@example.org", "leeway@example.com",
    ]  # fmt: skip
    shown = cli.json("subscriber", "show", "parts", "ANN.LEE@example.org")
    assert shown["email"] == "Ann.Lee@example.org"
    trace = cli.json("trace", "ann.lee@EXAMPLE.org")
    assert trace["lists"][0]["email"] == "Ann.Lee@example.org"


def test_a_field_is_renamed_with_its_values(cli: CommandLine, news: str) -> None:
    cli.ok("field", "add", news, "city")
    cli.ok("subscriber", "add", news, "ann@example.org", "--field", "city=Bern")
    cli.ok("segment", "create", news, "bern", 'city = "Bern"')
    printed = cli.ok("field", "rename", news, "city", "town")
    assert printed.strip() == f"Field city of {news} renamed to town, with 1 value."
    assert cli.json("subscriber", "show", news, "ann@example.org")["attributes"] == {"town": "Bern"}
    assert "1 subscriber selected" in cli.ok("segment", "preview", news, 'town = "Bern"')
    assert cli.fails("field", "rename", news, "city", "x") == "there is no field 'city'"


def test_inactive_subscribers_are_won_back_and_removed(cli: CommandLine, news: str) -> None:
    cli.ok("subscriber", "add", news, "ann@example.org", "--verified")
    draft = cli.json("message", "win-back", news, "--days", "90")
    assert (draft["status"], draft["segment"]) == ("Draft", "inactive-90-days")
    shown = cli.ok("message", "win-back", news)
    assert "inactive-180-days" in shown
    remove = ("subscriber", "remove-inactive", news, "--yes")
    assert cli.fails(*remove, "--days", "90", "--received", draft["ref"]) == (
        f"there is no message '{draft['ref']}'"
    )
    assert cli.fails(*remove, "--received", "") == "there is no message ''"
    assert cli.json(*remove) == {"removed": 0, "problems": []}
    assert cli.ok(*remove).strip() == "0 subscribers removed."


def test_fields_and_segments(cli: CommandLine, news: str) -> None:
    cli.ok("field", "add", news, "city", "--label", "Home town")
    added = cli.json("field", "add", news, "plan", "--type", "choice", "--choice", "Pro")
    assert (added["type"], added["choices"]) == ("choice", ["Pro"])
    cli.ok("field", "add", news, "age", "--type", "integer")
    assert cli.fails("field", "add", news, "age") == "the field 'age' already exists"
    labels = ("--label", "Age", "--label", "de=Alter")
    changed = cli.json("field", "edit", news, "age", *labels, "--default", "5", "--public")
    assert changed["label"] == {"en": "Age", "de": "Alter"}
    assert (changed["type"], changed["default"], changed["public"]) == ("integer", 5, True)
    again = cli.json("field", "edit", news, "age", "--private", "--default", "")
    assert again == {**changed, "public": False, "default": None}
    wrong = cli.fails("field", "edit", news, "age", "--default", "old")
    assert wrong == "default: must be a whole number, not 'old'"
    assert "Home town" in cli.ok("field", "ls", news)
    values = ("--field", "city=Bern", "--field", "age=30", "--field", "first_name=Ann")
    ann = cli.json("subscriber", "add", news, "ann@example.org", "--verified", *values)
    assert ann["attributes"] == {"city": "Bern", "age": 30, "first_name": "Ann"}
    changes = ("--field", "city=", "--field", "plan=pro")
    ann = cli.json("subscriber", "edit", news, "ann@example.org", *changes)
    assert ann["attributes"] == {"age": 30, "first_name": "Ann", "plan": "Pro"}
    assert "Pro" in cli.ok("subscriber", "show", news, "ann@example.org")
    assert cli.fails("subscriber", "edit", news, "ann@example.org", "--field", "age=x") == (
        "attributes.age: must be a whole number, not 'x'"
    )
    cli.ok("subscriber", "add", news, "bob@example.org")
    rule = 'plan = "pro" and age > 20'
    assert cli.json("segment", "create", news, "pros", rule)["rule"] == rule
    assert rule in cli.ok("segment", "ls", news)
    assert cli.json("segment", "preview", news, rule) == {"count": 1, "sample": ["ann@example.org"]}
    assert "1 subscriber selected." in cli.ok("segment", "preview", news, rule)
    why = cli.ok("segment", "explain", news, "pros", "bob@example.org")
    assert "bob@example.org is not in the segment pros:" in why
    assert '✗ plan = "pro" (' in why
    assert cli.json("segment", "edit", news, "pros", "age > 40")["rule"] == "age > 40"
    assert cli.fails("segment", "edit", news, "pros", "agee > 40") == (
        "rule: line 1, column 1: there is no field agee; did you mean age?"
    )
    assert cli.json("segment", "show", news, "pros")["rule"] == "age > 40"
    cli.ok("segment", "delete", news, "pros", "--yes")
    assert cli.fails("segment", "show", news, "pros") == "there is no segment 'pros'"
    asked = cli.run("field", "remove", news, "age")
    assert "1 subscriber has a value." in asked.stderr
    assert cli.fails("field", "remove", news, "age") == "there is no field 'age'"
    assert cli.fails("field", "remove", news, "age", "--yes") == "there is no field 'age'"


def test_the_emails_of_a_list_are_shown_written_and_reset(cli: CommandLine) -> None:
    cli.ok("list", "create", "garden", "--description", "Garden", "--from", "a@contoso.com")
    shown = cli.json("list", "email", "show", "garden", "confirmation")
    assert (shown["language"], shown["own"]) == ("en", False)
    (cli.folder / "welcome.md").write_text("Bonjour {{ email }}")
    given = ("garden", "welcome", "--language", "fr")
    cli.ok("list", "email", "set", *given, "--subject", "Salut", "--text", "welcome.md")
    shown = cli.json("list", "email", "show", *given)
    assert (shown["subject"], shown["text"], shown["own"]) == ("Salut", "Bonjour {{ email }}", True)
    wrong = ("garden", "confirmation", "--subject", "x", "--text", "welcome.md")
    assert "must contain the link that confirms" in cli.fails("list", "email", "set", *wrong)
    assert cli.json("list", "email", "reset", *given)["own"] is False
    assert cli.json("list", "edit", "garden", "--welcome-email")["welcome_email"] is True
