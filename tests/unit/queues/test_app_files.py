"""Applications in postroom.toml: read, and every mistake with its line."""

import socket
from pathlib import Path

import pytest

from postroom.services.queues.app_files import AppFileError, read_apps_file

GOOD = """\
store = "sqlite:///x.db"

[[apps]]
path = "/msmqWebHost/orderProcessing"
handler = "orders:process"            # a Python callable
max_processes = 2
idle_timeout = "20m"

[[apps]]
path = "/labels"
command = ["./print-label"]
on_poison = "reject"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text("print('hello')\ndef process(message): pass\nnothing = 3\n")
    (tmp_path / "lazy.py").write_text(
        "def one(message): yield\nasync def two(message): yield\n"
        "class Three:\n    def __call__(self, message): yield\nthree = Three()\n"
    )
    (tmp_path / "broken.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "deadly.py").write_text("import os\nos._exit(3)\n")
    program = tmp_path / "print-label"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return tmp_path.resolve()


def read(folder: Path, text: str) -> str:
    """What is said about a file that cannot be used."""
    file = folder / "postroom.toml"
    file.write_text(text)
    with pytest.raises(AppFileError) as refused:
        read_apps_file(file)
    return str(refused.value)


def test_applications_are_read_with_their_folder_and_origin(folder: Path) -> None:
    file = folder / "postroom.toml"
    file.write_text(GOOD)
    first, second = read_apps_file(file)
    assert (first.path, first.handler, first.max_processes) == (
        "/msmqWebHost/orderProcessing",
        "orders:process",
        2,
    )
    assert (second.command, second.on_poison) == (("./print-label",), "reject")
    assert first.folder == second.folder == str(folder)
    assert first.origin == f"{socket.gethostname()}:{file}"


def test_no_file_and_no_applications_are_fine(folder: Path) -> None:
    assert read_apps_file(folder / "postroom.toml") == []
    (folder / "postroom.toml").write_text('store = "sqlite:///x.db"\n')
    assert read_apps_file(folder / "postroom.toml") == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("max_processes = 2", "max_processes = 0", "line 6: max_processes: must be a whole number"),
        ("max_processes = 2", "max_prozesses = 2", "line 6: max_prozesses: is not an option"),
        ('idle_timeout = "20m"', "min_processes = 9", "line 6: max_processes: must be at least"),
        ('"20m"', '"soon"', "line 7: idle_timeout: must be a duration"),
        (
            '"reject"',
            '"burn"',
            "line 12: on_poison: must be one of",
        ),
        (
            '"/labels"',
            '"/MSMQWEBHOST/orderprocessing/"',
            "line 10: /MSMQWEBHOST/orderprocessing is",
        ),
        (
            "orders:process",
            "broken:process",
            "line 5: handler: 'broken:process' cannot be imported",
        ),
        ("orders:process", "orders:missing", "has no attribute 'missing'"),
        ("orders:process", "orders:nothing", "line 5: handler: 'orders:nothing' cannot be"),
        ("orders:process", "absent:process", "No module named 'absent'"),
        ("orders:process", "lazy:one", "it is a generator function"),
        ("orders:process", "lazy:two", "it is a generator function"),
        ("orders:process", "lazy:three", "it is a generator function"),
        ("orders:process", "deadly:process", "the process ended with status 3"),
        ("./print-label", "./print-lable", "line 11: command: there is no program './print-lable'"),
        ('command = ["./print-label"]', "", "line 9: handler: give handler or command"),
        ('path = "/labels"', "", "line 9: path: is missing"),
        ('path = "/labels"', "path =", "line 10: Invalid value"),
        ("[[apps]]", "[apps]", "line 9: "),
    ],
)
def test_an_error_names_its_line(folder: Path, old: str, new: str, line: str) -> None:
    text = read(folder, GOOD.replace(old, new))
    assert text.startswith("postroom.toml, line ")
    assert line in text


def test_the_same_path_twice_names_both_lines(folder: Path) -> None:
    text = read(folder, GOOD.replace("/labels", "/msmqwebhost/orderprocessing"))
    assert text == "postroom.toml, line 10: /msmqwebhost/orderprocessing is already used in line 4"


def test_other_forms_are_refused(folder: Path) -> None:
    assert "[[apps]]" in read(folder, '[apps]\npath = "/x"\n')
    assert "line 1: path: is missing" in read(folder, "apps = [{handler = 'orders:process'}]\n")
    (folder / "postroom.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(AppFileError, match=r"^postroom\.toml: "):
        read_apps_file(folder / "postroom.toml")
