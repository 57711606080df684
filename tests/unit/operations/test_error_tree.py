"""The tree of errors."""

from __future__ import annotations

import ast
from pathlib import Path

import postroom

ROOT = "PostroomError"
BUILT_IN = {"BaseException", "Exception", "ValueError", "LookupError", "RuntimeError", "OSError"}


def test_every_error_derives_from_the_root() -> None:
    bases: dict[str, set[str]] = {}
    for file in Path(postroom.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(each).rpartition(".")[2] for each in node.bases}
    outside = {
        name
        for name, parents in bases.items()
        if any(each in BUILT_IN or each.endswith("Error") for each in parents)
        and not _derives(name, bases)
    }
    assert outside == set()


def _derives(name: str, bases: dict[str, set[str]]) -> bool:
    return name == ROOT or any(_derives(each, bases) for each in bases.get(name, ()))
