"""The command line as a user meets it: exit statuses, help, settings."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from postroom import __version__
from postroom.cli.main import COMMANDS, postroom
from postroom.storage import open_store
from tests.integration.usecases.pages import fan_out_whole
from tests.services.postroom import PROGRAM, CommandLine
from tests.services.waiting import free_ports


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_it_prints_its_version(cli: CommandLine) -> None:
    assert cli.ok("--version").strip() == f"postroom, version {__version__}"


def test_the_store_is_created_in_the_data_folder(cli: CommandLine) -> None:
    cli.ok("list", "ls")
    assert (cli.folder / "postroom-data" / "postroom.db").exists()


def test_the_store_is_chosen_by_option_over_environment(cli: CommandLine) -> None:
    cli.ok("list", "ls", store="sqlite:///from-environment.db")
    assert (cli.folder / "from-environment.db").exists()
    cli.ok("list", "ls", "--store", "sqlite:///option.db", store="nonsense")
    assert (cli.folder / "option.db").exists()


def test_a_users_mistake_is_one_line_and_status_1(cli: CommandLine) -> None:
    line = cli.fails("list", "ls", store="mysql://user:secret@host/x")
    assert line == (
        "POSTROOM_STORE: store must start with sqlite://, postgresql:// or azure://,"
        " not 'mysql://●●●@host/x'"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["upp"],
        ["up", "--nonsense"],
        ["up", "too", "many"],
        ["list"],
        ["list", "create", "news"],
        ["list", "edit", "news"],
        ["subscriber", "edit", "news", "ann@example.org"],
        ["subscriber", "edit", "news", "ann@example.org", "--block", "x", "--unblock"],
        ["subscriber", "ls", "news", "--limit", "0"],
        ["message", "create", "news", "--subject", "Hi", "--at", "tomorrow"],
        ["message", "create", "news", "--subject", "Hi", "--html", "missing.htm"],
        ["message", "edit", "639303303456562193"],
        ["message", "emails", "639303303456562193", "--outcome", "lost"],
        ["message", "decide", "639303303456562193", "ann@example.org"],
        ["list", "ls", "--store", "nope://x"],
        ["up", "--port", "abc"],
        ["up", "--port", "99999"],
        ["up", "--transport", "foo://x"],
        ["subscriber", "import", "news", "missing.csv"],
        ["table", "show", "mailinglist", "--row", "mailinglist"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_2(arguments: list[str], cli: CommandLine) -> None:
    assert cli.misused(*arguments).startswith("Usage: postroom ")


def test_an_invalid_setting_is_one_line_that_says_where_it_is(cli: CommandLine) -> None:
    (cli.folder / "postroom.toml").write_text('retry_first = "soon"\n')
    assert cli.fails("list", "ls") == (
        "postroom.toml: retry_first must be a duration such as 500ms, 30s, 20m, 2h or 5d,"
        " not 'soon'"
    )


# -- help -----------------------------------------------------------------------------------------


def test_the_help_says_of_each_command_what_the_command_says_of_itself() -> None:
    context = click.Context(postroom)
    for commands in COMMANDS.values():
        for name, (_, help_text) in commands.items():
            command = postroom.get_command(context, name)
            assert command is not None
            assert (command.name, command.get_short_help_str(limit=100)) == (name, help_text)


def test_help_loads_no_engine_no_transport_and_no_drawing() -> None:
    heavy = "psycopg azure apsw aiohttp rich email_validator postroom.wiring postroom.storage"
    look = (
        "import sys, postroom.cli.main as m\n"
        "try: m.postroom(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy.split()} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    assert "subscriber" in done.stdout


def test_a_process_starts_without_what_it_uses_only_sometimes() -> None:
    rare = "dns altcha flufl.bounce aiosmtpd sqlite3 PIL cryptography mrml css_inline"
    look = (
        "import sys, postroom.hosted, postroom.cli.operations.parts\n"
        f"print([name for name in {rare.split()} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_process_that_logs_does_not_load_rich() -> None:
    program = (
        "import logging, sys\n"
        "from postroom.observability import set_up_logs\n"
        "set_up_logs()\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: logging.exception('a fault')\n"
        "print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
    assert "a fault" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_a_mail_that_no_detector_of_bounces_understands_leaves_no_traceback() -> None:
    program = (
        "from postroom.observability import set_up_logs\n"
        "set_up_logs()\n"
        "from postroom.mail.bounces.reading import read_mail\n"
        "print(read_mail(b'neither headers nor a report').kind)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("ordinary\n", "")


def all_commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += all_commands(command, (*path, name))
        else:
            found.append(((*path, name), command))
    return found


# What names its stores itself, or needs none.
WITHOUT_STORE = {"store copy", "cost"}
# What prints no data: it runs until it is stopped, streams a file, or only says that it did it.
WITHOUT_JSON = {
    *("up", "web", "scheduler", "sender", "host", "inbound"),
    *("blob get", "access revoke", "suppression export"),
    *("group add", "group remove", "group drop", "message ab-test cancel"),
    *("settings set", "settings reset"),
    *("app restart", "app pause", "app resume", "app reload"),
    *("queue fault", "queue clear"),
    *("queue access allow", "queue access deny", "queue access remove"),
}


def test_every_command_has_help_and_json_output() -> None:
    for path, command in all_commands(postroom):
        name = " ".join(path)
        options = {option for each in command.params for option in each.opts}
        assert command.help, name
        assert ("--json" in options) == (name not in WITHOUT_JSON), name
        assert name in WITHOUT_STORE or {"--store", "--data"} <= options, name


# -- check ----------------------------------------------------------------------------------------


def test_check_shows_settings_where_they_are_from_and_no_secret(cli: CommandLine) -> None:
    (cli.folder / "postroom.toml").write_text('in_doubt = "hold"\n')
    found = cli.json("check", sendgrid_api_key="SG.hidden")
    settings = {each["name"]: each for each in found["settings"]}
    assert settings["in_doubt"] == {"name": "in_doubt", "value": "hold", "from": "postroom.toml"}
    assert settings["sendgrid_api_key"]["from"] == "POSTROOM_SENDGRID_API_KEY"
    assert "SG.hidden" not in json.dumps(found)
    states = {each["part"]: each["state"] for each in found["findings"]}
    assert found["ok"] is True
    assert states["data"] == states["store"] == "ok"
    assert states["transport"] == "warning"
    shown = cli.ok("check", sendgrid_api_key="SG.hidden")
    assert "SG.hidden" not in shown
    assert shown.index("finding") < shown.index("sendgrid_api_key"), "findings come first"


def test_check_says_what_is_wrong_with_the_store(cli: CommandLine) -> None:
    [port] = free_ports(1)
    url = f"postgresql://postroom:hidden@127.0.0.1:{port}/mail"
    done = cli.run("check", "--store", url)
    assert done.returncode == 1
    assert "hidden" not in done.stdout + done.stderr
    assert done.stderr.splitlines() == ["postroom: problems found: store (see above)"]
    [line] = [each for each in done.stdout.splitlines() if each.startswith("error")]
    assert f"127.0.0.1:{port}" in line


def test_check_says_that_a_mail_server_cannot_be_reached(cli: CommandLine) -> None:
    [port] = free_ports(1)
    done = cli.run("check", "--json", transport=f"smtp://ann:hidden@127.0.0.1:{port}")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    [broken] = [each for each in found["findings"] if each["state"] == "error"]
    assert broken["part"] == "transport"
    assert "POSTROOM_TRANSPORT" in broken["advice"]
    assert "hidden" not in done.stdout + done.stderr


def test_check_says_that_the_data_folder_cannot_be_written(cli: CommandLine) -> None:
    (cli.folder / "occupied").write_text("a file, no folder")
    done = cli.run("check", "--data", "occupied/inside", "--store", "sqlite:///elsewhere.db")
    assert done.returncode == 1
    assert "problems found: data" in done.stderr


def test_check_names_what_a_mistyped_variable_may_have_meant(cli: CommandLine) -> None:
    found = cli.json("check", transprot="smtp://127.0.0.1:1")
    [warning] = [each for each in found["findings"] if each["part"] == "settings"]
    assert warning["state"] == "warning"
    assert warning["text"] == "POSTROOM_TRANSPROT is not a setting and is ignored"
    assert warning["advice"] == "Did you mean POSTROOM_TRANSPORT?"


# -- the store's contents -------------------------------------------------------------------------


def test_a_look_into_queues_tables_and_blobs(cli: CommandLine) -> None:
    assert cli.json("queue", "ls")["items"] == []
    put = cli.json("queue", "put", "shop/Orders;retry", "line one\nline two")
    [peeked] = cli.json("queue", "peek", "shop/Orders;retry")["items"]
    assert (peeked["id"], peeked["body"]) == (put["id"], "line one\nline two")
    assert "line one↵line two" in cli.ok("queue", "peek", "shop/Orders;retry")
    [queue] = cli.json("queue", "ls")["items"]
    assert (queue["name"], queue["length"], queue["retry"]) == ("shop/Orders", 0, 1)
    purged = cli.json("queue", "purge", "shop/Orders;retry", "--yes")
    assert purged == {"queue": "shop/Orders;retry", "purged": True}
    assert cli.json("queue", "peek", "shop/Orders;retry")["items"] == []

    cli.ok("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    assert {"name": "mailinglist"} in cli.json("table", "ls")["items"]
    (cli.folder / "hello.txt").write_text("Hello")
    ref = cli.json("message", "create", "news", "--subject", "Hi", "--text", "hello.txt")["ref"]
    assert cli.json("blob", "ls")["items"] == [{"name": "mailbodies"}]
    [blob] = cli.json("blob", "ls", "mailbodies")["items"]
    assert (blob["name"], blob["size"]) == (f"{ref}.txt", 5)
    assert cli.fails("blob", "ls", "No Bodies").startswith("container 'No Bodies'")
    assert cli.ok("blob", "get", "mailbodies", blob["name"]) == "Hello"
    printed = cli.ok("blob", "get", "mailbodies", blob["name"], "--output", "copy.txt")
    assert printed == f"5 bytes of {ref}.txt written to copy.txt.\n"
    assert (cli.folder / "copy.txt").read_text() == "Hello"
    assert cli.fails("blob", "get", "mailbodies", "nope", "--output", "no.txt") == (
        "there is no blob 'nope'"
    )
    assert not (cli.folder / "no.txt").exists()


def test_rows_of_tables_are_shown_but_no_secrets(cli: CommandLine) -> None:
    for name in ("news", "more"):
        cli.ok("list", "create", name, "--description", "A [b]", "--from", "news@contoso.com")
    shown = cli.json("table", "show", "mailinglist", "--limit", "1")
    [first] = shown["items"]
    assert (first["partition"], first["row"]) == ("more", "mailinglist")
    assert first["properties"]["Description"] == "A [b]"
    assert first["properties"]["CreatedAt"].endswith("Z")
    [second] = cli.json("table", "show", "mailinglist", "--after", shown["next"])["items"]
    assert second["partition"] == "news"
    exactly = ("--partition", "news", "--row", "mailinglist")
    assert cli.json("table", "show", "mailinglist", *exactly) == {"items": [second], "next": None}
    text = cli.run("table", "show", "mailinglist", "--limit", "1")
    assert "Description = A [b]" in text.stdout
    assert "More: postroom table show mailinglist --after" in text.stderr
    assert cli.fails("table", "show", "mailinglist", *exactly[:3], "nobody") == (
        "there is no entity 'news, nobody'"
    )
    assert "is closed here" in cli.fails("table", "show", "users")


async def test_a_page_is_shown_with_a_row_for_each_of_its_emails(cli: CommandLine) -> None:
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    cli.ok(
        "subscriber", "add", "news", "ann@example.org", "--verified", "--field", "first_name=Ann"
    )
    cli.ok("subscriber", "add", "news", "bob@example.org", "--verified")
    (cli.folder / "hello.txt").write_text('Hello {{ first_name | default: "friend" }}')
    ref = cli.json("message", "create", "news", "--subject", "Hi", "--text", "hello.txt")["ref"]
    async with await open_store(f"sqlite:///{cli.folder}/postroom-data/postroom.db") as store:
        await fan_out_whole(store, ref)

    page, ann, bob = cli.json("table", "show", "messagepage")["items"]
    assert (page["row"], page["properties"]["Planned"]) == ("000000", 2)
    assert "Emails" not in page["properties"]
    assert (ann["row"], bob["row"]) == ("000000,000", "000000,001")
    assert ann["properties"]["EmailAddress"] == "ann@example.org"
    assert ann["properties"]["Values"] == "Ann"
    assert "Values" not in bob["properties"]
    assert bob["properties"]["Outcome"] == "pending"
    assert "EmailAddress = ann@example.org" in cli.ok("table", "show", "messagepage")


# -- what cannot be undone ------------------------------------------------------------------------


def test_a_script_is_not_asked_for_confirmation(cli: CommandLine) -> None:
    cli.ok("queue", "put", "shop/orders", "one")
    cli.ok("queue", "purge", "shop/orders")
    assert cli.json("queue", "peek", "shop/orders")["items"] == []


def test_a_destructive_command_asks_for_confirmation_unless_yes_is_given(cli: CommandLine) -> None:
    def on_a_terminal(*options: str) -> int:
        keyboard, terminal = pty.openpty()
        try:
            os.write(keyboard, b"n\n")
            return subprocess.run(
                [PROGRAM, "queue", "purge", "shop/orders", *options],
                cwd=cli.folder,
                env=cli.environment,
                stdin=terminal,
                capture_output=True,
                timeout=90,
            ).returncode
        finally:
            os.close(keyboard)
            os.close(terminal)

    cli.ok("queue", "put", "shop/orders", "one")
    assert on_a_terminal() == 1
    assert len(cli.json("queue", "peek", "shop/orders")["items"]) == 1
    assert on_a_terminal("--yes") == 0
    assert cli.json("queue", "peek", "shop/orders")["items"] == []
