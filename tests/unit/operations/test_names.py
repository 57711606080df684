"""Names of modules and classes: each stands for one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import postroom

SOURCE = Path(postroom.__file__).parent
TESTS = Path(__file__).parents[2]

# The same nouns name the same things here: a list is `lists` as rule, service, page and command.
NOUNS = {"cli", "domain", "services", "services/resources", "web/admin", "web/api", "web/public"}
ENGINES = {"storage/azure", "storage/contract", "storage/postgres", "storage/sqlite"}

ALIKE = {
    "app": "what puts the pages, or the API, together",
    "brand": "how a list presents itself",
    "canvas": "the canvas of the editor",
    "dkim": "DKIM signatures, and the commands for their keys",
    "errors": "the errors of a part",
    "middleware": "what surrounds each request",
    "opening": "how something that the settings name is opened",
    "store": "the store: its contract, its commands, its check",
}
"""What else may share a name, because it means the same."""


def test_modules_of_one_name_are_about_one_thing() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in _modules():
        found[file.stem].append(_part(file))
    ambiguous = {
        name: sorted(parts)
        for name, parts in found.items()
        if name not in ALIKE and not all(_may_share(*each) for each in combinations(parts, 2))
    }
    assert ambiguous == {}
    assert {name for name in ALIKE if len(found[name]) < 2} == set(), "no longer shared"


def test_no_two_public_classes_share_a_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in _modules():
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_no_folder_has_more_than_15_modules() -> None:
    found: dict[str, int] = defaultdict(int)
    for file in (*_modules(), *TESTS.rglob("[!_]*.py")):
        found[str(file.parent)] += 1
    assert {folder: count for folder, count in found.items() if count > 15} == {}


def _modules() -> Iterator[Path]:
    return (file for file in SOURCE.rglob("*.py") if not file.name.startswith("__"))


def _part(file: Path) -> str:
    """Return the part that a module belongs to: `web/admin`, `storage/sqlite`, `sender`."""
    folder = file.parent.relative_to(SOURCE).as_posix()
    inner = [each for each in NOUNS | ENGINES if f"{folder}/".startswith(f"{each}/")]
    return max(inner, key=len, default=folder.split("/")[0])


def _may_share(one: str, other: str) -> bool:
    return one != other and any({one, other} <= parts for parts in (NOUNS, ENGINES | NOUNS))
