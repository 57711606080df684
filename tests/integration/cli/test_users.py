"""Users and events on the command line."""

from __future__ import annotations

import email
import email.policy
import json
from email.message import EmailMessage
from pathlib import Path

import pytest

from postroom.services.events import EventService, Severity
from postroom.settings import load_settings
from postroom.storage import open_store
from postroom.wiring import Services
from tests.services.mail.recording_smtp import Rule, running_recording_smtp
from tests.services.postroom import CommandLine

PASSWORD = b"correct horse battery\n"


def read_mail(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=email.policy.default)


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


async def test_a_user_is_added_shown_changed_and_removed(cli: CommandLine) -> None:
    assert "Add one with" in cli.run("user", "ls").stderr
    add = ("user", "add", "ann@EXAMPLE.org", "--role", "administrator", "--password-stdin")
    assert cli.ok(*add, stdin=PASSWORD) == "ann@example.org can log in as administrator.\n"
    assert cli.fails(*add, stdin=PASSWORD) == "the user 'ann@example.org' already exists"
    short = ("user", "add", "bob@example.org", "--password-stdin")
    assert cli.fails(*short, stdin=b"short\n") == "password: must have at least 10 characters"
    assert cli.fails("user", "remove", "ann@example.org", "--yes").startswith(
        "ann@example.org is the last administrator"
    )
    assert (
        cli.fails("user", "role", "no@example.org", "viewer") == "there is no user 'no@example.org'"
    )
    cli.misused("user", "role", "ann@example.org", "king")

    cli.ok("user", "add", "bob@example.org", "--password-stdin", stdin=PASSWORD)
    changed = cli.json("user", "role", "bob@example.org", "administrator")
    assert (changed["email"], changed["role"]) == ("bob@example.org", "administrator")
    assert cli.ok("user", "remove", "ann@example.org", "--yes") == "User ann@example.org removed.\n"
    [left] = cli.json("user", "ls")["items"]
    assert (left["email"], left["second_factor"], left["slowed_down"]) == (
        "bob@example.org",
        False,
        False,
    )

    settings = load_settings(cli.environment, cli.folder, {"data": f"{cli.folder}/postroom-data"})
    async with await open_store(settings.storage.url) as store:
        actions = (await Services(store).audit.newest()).entries
    assert [(each.what, each.on) for each in actions] == [
        ("user remove", "ann@example.org"),
        ("user role", "bob@example.org administrator"),
        ("user add", "bob@example.org"),
        ("user add", "ann@EXAMPLE.org"),
    ]
    assert all(each.who.startswith("command line: ") for each in actions)


def test_links_are_sent_by_email_on_request(cli: CommandLine) -> None:
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@example.org")
    refused = "--send needs a mail server: set transport to smtp://… first"
    assert refused in cli.run("user", "add", "bob@example.org", "--send").stderr
    with running_recording_smtp() as server:
        transport = f"smtp://127.0.0.1:{server.port}"
        made = cli.json("user", "add", "bob@example.org", "--send", transport=transport)
        [mail] = server.accepted()
        server.script(Rule("RCPT", "carol@example.org", "550 5.1.1 nobody"))
        failed = cli.run("user", "add", "carol@example.org", "--send", transport=transport)
    assert made["sent"]
    assert (mail.sender, mail.recipients) == ("news@example.org", ("bob@example.org",))
    assert made["link"] in read_mail(mail.content).get_content()
    assert failed.returncode == 1
    assert "/join?token=" in failed.stdout
    assert "the link could not be sent to carol@example.org: refused: 550" in failed.stderr


async def test_links_are_printed_for_the_person_who_asks(cli: CommandLine) -> None:
    cli.ok("user", "add", "ann@example.org", "--password-stdin", stdin=PASSWORD)
    base_url = "https://lists.example.org"
    invited = cli.run("user", "add", "bob@example.org", base_url=base_url)
    link = invited.stdout.strip()  # and nothing else, for a pipe
    assert link.startswith("https://lists.example.org/join?token=")
    reset = cli.json("user", "reset", "ann@example.org", "--second-factor", base_url=base_url)[
        "link"
    ]
    async with await open_store(f"sqlite:///{cli.folder}/postroom-data/postroom.db") as store:
        links = Services(store).access_links
        kinds = [await links.find(each.partition("token=")[2]) for each in (link, reset)]
    assert [each and each.kind.value for each in kinds] == ["invitation", "reset"]
    assert cli.fails("user", "reset", "bob@example.org") == "there is no user 'bob@example.org'"
    assert (
        cli.fails("user", "add", "ann@example.org") == "the user 'ann@example.org' already exists"
    )
    assert cli.fails("user", "add", "not an address").startswith("email: ")


async def test_events_are_shown_and_watched(cli: CommandLine) -> None:
    assert cli.run("events").stderr.endswith("No events.\n")
    async with await open_store(f"sqlite:///{cli.folder}/postroom-data/postroom.db") as store:
        events = EventService(store)
        await events.record("host", "[b]started[/b]")
        await events.record("host", "stopped", severity=Severity.ERROR, subject="queue:a/b")
        found = cli.json("events", "--limit", "1")
        assert [each["text"] for each in found["items"]] == ["stopped"]
        assert found["items"][0]["subject"] == "queue:a/b"
        rest = cli.json("events", "--after", found["next"])["items"]
        assert [(each["text"], each["severity"]) for each in rest] == [("[b]started[/b]", "info")]
        assert [e["part"] for e in cli.json("events", "--severity", "error")["items"]] == ["host"]
        assert "[b]started[/b]" in cli.ok("events")
        assert "--after" in cli.misused("events", "--watch", "--after", "x")

        watching = cli.start("events", "--watch", "--json", "--limit", "1")
        try:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline())["text"] == "stopped"
            await events.record("host", "started again")
            assert json.loads(watching.stdout.readline())["text"] == "started again"
        finally:
            watching.kill()
            watching.communicate(timeout=60)


def test_rights_on_lists_are_granted_to_users_groups_and_keys(cli: CommandLine) -> None:
    cli.ok("list", "create", "news", "--from", "news@example.org", "--description", "News")
    member = ("user", "add", "eve@example.org", "--role", "member", "--password-stdin")
    cli.ok(*member, stdin=PASSWORD)
    assert "access grant" in cli.run("access", "ls").stderr
    granted = cli.ok("access", "grant", "eve@example.org", "news", "edit")
    assert granted == "user:eve@example.org on news: view, edit.\n"
    cli.ok("group", "create", "press")
    assert cli.fails("group", "create", "press") == "the group 'press' already exists"
    cli.ok("group", "add", "press", "eve@example.org")
    cli.ok("access", "grant", "group:press", "news", "send")
    made = cli.json("apikey", "create", "--only-lists")
    assert made["only_lists"] is True
    cli.ok("access", "grant", f"key:{made['id']}", "news", "manage")
    assert [each["principal"] for each in cli.json("access", "ls", "--list", "news")["items"]] == [
        "group:press",
        f"key:{made['id']}",
        "user:eve@example.org",
    ]
    assert cli.json("group", "ls")["items"][0]["members"] == ["eve@example.org"]
    assert "there is no list 'nope'" in cli.fails("access", "grant", "group:press", "nope", "view")
    for who in ("group:nope", "key:000000000000", "nobody@example.org"):
        assert "there is no" in cli.fails("access", "grant", who, "news", "view")
    assert cli.fails("access", "grant", "nobody", "news", "view").startswith("principal: must be")
    cli.misused("access", "grant", "group:press", "news", "everything")
    cli.ok("access", "revoke", "eve@example.org", "news")
    cli.ok("group", "drop", "press", "eve@example.org")
    cli.ok("group", "remove", "press", "--yes")
    assert cli.json("apikey", "revoke", made["id"]) == {"id": made["id"], "revoked": True}
    assert cli.json("access", "ls")["items"] == []
