"""Whatever Postroom keeps on a machine is readable by its owner alone, wherever it is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from postroom.folders import tighten
from tests.services.postroom import CommandLine
from tests.services.waiting import wait_until


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def loose_in(folder: Path) -> dict[str, str]:
    """What others can open, of all that is in a folder."""
    return {
        str(each.relative_to(folder)): f"{mode(each):04o}"
        for each in sorted(folder.rglob("*"))
        if mode(each) & 0o077
    }


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """As on most machines: what is created without care is readable by everybody."""
    tmp_path.chmod(0o755)
    return CommandLine(tmp_path)


def test_a_new_database_in_an_existing_folder_is_private(cli: CommandLine) -> None:
    folder = cli.folder / "existing"
    folder.mkdir(mode=0o755)
    command = ("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    cli.ok(*command, store=f"sqlite:///{folder}/store.db")
    assert (folder / "store.db").exists()
    assert loose_in(folder) == {}
    assert mode(folder) == 0o755, "it is not ours"


def test_all_that_a_running_postroom_keeps_is_private(cli: CommandLine) -> None:
    data = cli.folder / "postroom-data"
    for name in (".", "outbox", "journals", "metrics"):
        (data / name).mkdir(mode=0o755)
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    cli.ok("subscriber", "add", "news", "ann@example.com", "--verified")
    for each in data.iterdir():
        each.chmod(0o755 if each.is_dir() else 0o644)  # as an earlier version left them
    (data / "secret.key").write_text("0123456789abcdef" * 4)
    (cli.folder / "body.txt").write_text("Hello")
    cli.ok("message", "create", "news", "--subject", "Hello", "--text", "body.txt")

    up = cli.start("up", "--port", "0")
    try:
        sent = data / "outbox"
        wait_until(lambda: any(sent.glob("*.eml")), seconds=60, what="a mail in the outbox")
        wait_until(lambda: any((data / "metrics").glob("*.db")), seconds=30, what="metrics")
        assert {each.name for each in data.iterdir()} >= {
            "postroom.db",
            "postroom.db-wal",
            "postroom.db-shm",
            "secret.key",
            "journals",
        }
        assert mode(data) == 0o700
        assert loose_in(data) == {}
    finally:
        up.terminate()
        up.communicate(timeout=60)


def test_files_with_addresses_that_commands_write_are_private(cli: CommandLine) -> None:
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    cli.ok("subscriber", "add", "news", "ann@example.com")
    cli.ok("subscriber", "export", "news", "all.csv")
    bad = b"email\nann@example.com\nbad\n"
    cli.ok("subscriber", "import", "news", "-", "--rejected", "bad.csv", stdin=bad)
    assert [mode(cli.folder / each) for each in ("all.csv", "bad.csv")] == [0o600, 0o600]


def test_check_reports_what_others_can_open(cli: CommandLine) -> None:
    folder = cli.folder / "shared"
    folder.mkdir(mode=0o755)
    (cli.folder / "postroom.toml").write_text('alert_webhook = "https://hooks.example/T0K3N"\n')
    (cli.folder / "postroom.toml").chmod(0o640)
    store = f"sqlite:///{folder}/store.db"
    cli.ok("list", "ls", store=store)

    findings = cli.json("check", store=store)["findings"]

    [places, settings] = [each for each in findings if each["part"] == "privacy"]
    assert places["state"] == settings["state"] == "warning"
    assert f"{folder} has mode 0755" in places["text"]
    assert places["advice"] == f"Run: chmod go= {folder}"
    assert f"{cli.folder}/postroom.toml has mode 0640" in settings["text"]

    folder.chmod(0o700)
    (cli.folder / "postroom.toml").write_text(
        '[[apps]]\npath = "/shop"\ncommand = ["cat"]\nenvironment = { SHOP_KEY = "s3cret" }\n'
    )
    findings = cli.json("check", store=store)["findings"]
    [apps] = [each for each in findings if each["part"] == "privacy"]
    assert "postroom.toml has mode 0640" in apps["text"]

    (cli.folder / "postroom.toml").chmod(0o600)
    findings = cli.json("check", store=store)["findings"]
    assert [each["state"] for each in findings if each["part"] == "privacy"] == ["ok"]


def test_folders_that_others_need_keep_their_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, home, temporary = (tmp_path / each for each in ("work", "home", "tmp"))
    for each in (work / "inside", home, temporary):
        each.mkdir(parents=True)
    work.chmod(0o755)
    home.chmod(0o755)
    temporary.chmod(0o1777)
    monkeypatch.chdir(work / "inside")
    monkeypatch.setenv("HOME", str(home))
    for each in (work, home, temporary):
        tighten(each)
    assert [mode(each) for each in (work, home, temporary)] == [0o755, 0o755, 0o1777]
    tighten(tmp_path / "missing")
