"""The table of faults in docs/reliability.md names tests that enforce its bounds."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reliability.md"
ROWS = [
    line
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| fault |")
]
TESTS = {
    node.name: ast.unparse(node)
    for file in (ROOT / "tests/acceptance").rglob("test_*.py")
    for node in ast.parse(file.read_text()).body
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
}


def test_there_are_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_each_fault_names_tests_that_enforce_its_bounds(row: str) -> None:
    *_, named, _ = row.split("|")
    names = re.findall(r"`(test_\w+)`", named)
    assert names
    assert set(names) <= set(TESTS)
    sources = [TESTS[name] for name in names]
    for bound in re.findall(r"within (\d+) s\b", row):
        assert any(re.search(rf"\b{bound}\b", source) for source in sources), f"within {bound} s"
