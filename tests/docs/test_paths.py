"""Files and functions that the documentation names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.paths import SOURCE, traced_paths
from tests.docs.test_docs import PAGES, ROOT

_NAMED = re.compile(r"`((?:src|tests|docs|scripts|deploy|bench|requirements)/[\w./-]+)`")
_MODULE = re.compile(r"`([\w./-]+\.py)`")
_PLACEHOLDER = re.compile(r"NAME|NOUN")
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FIRST_HOPS = 8
"""Hops that the second path shares with the first, and does not repeat."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_file_exists(page: Path) -> None:
    for named in _NAMED.findall(page.read_text()):
        assert _PLACEHOLDER.search(named) or (ROOT / named).exists(), named


def test_contributing_answers_ten_questions_with_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Finding your way\n")[2].partition("\n## ")[0]
    answers = re.findall(r"^\*\*.+\?\*\*\n((?:.+\n)+)", section, re.MULTILINE)
    assert len(answers) >= 10
    assert all(_NAMED.search(answer) for answer in answers)


def test_every_hop_of_the_traced_paths_exists() -> None:
    paths = traced_paths()
    assert len(paths) == 3
    for path, first in zip(paths, (1, _FIRST_HOPS + 1, 1), strict=True):
        assert [hop.number for hop in path.hops] == list(range(first, path.length + 1))
        for hop in path.hops:
            assert hop.function in _functions(SOURCE / hop.file), (
                f"{hop.file} has no {hop.function}"
            )


def _functions(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, _DEFS)}
        elif isinstance(node, _DEFS):
            found.add(node.name)
    return found


def test_every_module_that_a_comment_names_exists() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in _python_files()]
    ends = {file.split("/", start)[-1] for file in files for start in range(file.count("/") + 1)}
    for file in files:
        for named in _MODULE.findall((ROOT / file).read_text()):
            assert named in ends, f"{file} names {named}"


def _python_files() -> list[Path]:
    folders = ("src", "tests", "bench", "scripts")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
