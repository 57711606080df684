"""The command line as a user meets it: a process, its output and its exit status."""

import subprocess
import sys
from pathlib import Path

import pytest

from postroom import __version__

POSTROOM = Path(sys.executable).with_name("postroom")


def run(
    *arguments: str, folder: Path, store: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    if store is not None:
        environment["POSTROOM_STORE"] = store
    return subprocess.run(
        [POSTROOM, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_tells_its_version(tmp_path: Path) -> None:
    done = run("--version", folder=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, f"postroom, version {__version__}")


def test_up_makes_a_store_in_the_data_folder_and_shows_it(tmp_path: Path) -> None:
    done = run("up", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "new and empty" in done.stdout
    assert (tmp_path / "postroom-data" / "postroom.db").exists()


def test_the_store_is_chosen_by_option_over_environment(tmp_path: Path) -> None:
    assert run("up", folder=tmp_path, store="sqlite:///from-environment.db").returncode == 0
    assert (tmp_path / "from-environment.db").exists()
    done = run("up", "--store", "sqlite:///option.db", folder=tmp_path, store="nonsense")
    assert done.returncode == 0
    assert (tmp_path / "option.db").exists()


def test_a_users_mistake_is_one_line_and_status_1(tmp_path: Path) -> None:
    done = run("up", "--store", "mysql://user:secret@host/x", folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("postroom: a store URL begins with one of")
    assert "secret" not in line


@pytest.mark.parametrize("arguments", [["upp"], ["up", "--nonsense"], ["up", "too", "many"]])
def test_wrong_use_is_status_2(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert "Usage: postroom" in done.stderr
