"""Print the tests that belong to what has changed, for `make test-changed`.

    python scripts/affected_tests.py BASE

A file has changed if it differs from the last commit that BASE and this branch share, committed or
not. The tests of a changed module are those in folders of the same name (`TESTS`) and all that
import it. This is only a quick first check: `make test` decides.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]

_NOUNS = ("audience", "messages", "queues", "accounts", "operations")

TESTS: dict[str, tuple[str, ...]] = {
    **{noun: (f"unit/{noun}", f"integration/usecases/{noun}", f"web/{noun}") for noun in _NOUNS},
    "api": ("integration/api", "unit/web"),
    "cli": ("integration/cli",),
    "host": ("unit/host", "integration/usecases/queues", "acceptance/queues"),
    "mail": ("unit/mail",),
    "public": ("web/public",),
    "scheduler": ("integration/usecases/messages", "acceptance/messages"),
    "sender": ("unit/sender", "integration/usecases/messages", "acceptance/messages"),
    "storage": ("unit/storage", "contract", "integration/storage"),
    "transport": ("unit/transport", "integration/transport"),
    "web": ("unit/web", "web"),
}
"""The folders of `tests/` that belong to a folder of `src/postroom/`."""

OTHER_FOLDERS = {
    "bench": ("unit/bench",),
    "deploy": ("deploy",),
    "docs": ("docs",),
    "scripts": ("docs", "unit/operations"),
}
"""The same for folders next to `src/`."""


def affected_tests(changed: Iterable[str], imports: dict[str, str]) -> set[str]:
    """Return folders and files of tests; `imports` has the text of each test file."""
    found: set[str] = set()
    for path in changed:
        parts = Path(path).parts
        if parts[0] == "tests":
            is_test = parts[-1].startswith("test_") and path.endswith(".py")
            found.add(path if is_test else str(Path(path).parent))
        elif parts[:2] == ("src", "postroom"):
            found |= {f"tests/{folder}" for folder in _folders(parts[2:-1])}
            module = ".".join(parts[1:]).removesuffix(".py").removesuffix(".__init__")
            found |= {test for test, text in imports.items() if _imports(text, module)}
        elif path.endswith(".md"):
            found.add("tests/docs")
        else:
            found |= {f"tests/{folder}" for folder in OTHER_FOLDERS.get(parts[0], ())}
    return found


def _folders(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the test folders of the innermost folder that has any; those of all units if none
    has."""
    for name in reversed(names):
        if name in TESTS:
            return TESTS[name]
    return ("unit",)


def _imports(text: str, module: str) -> bool:
    """Return whether a test imports a module, by its name or from its folder."""
    folder, _, name = module.rpartition(".")
    if module in text:
        return True
    lines = [line for line in text.splitlines() if line.startswith(f"from {folder} import ")]
    return any(name in line.partition(" import ")[2].replace(",", " ").split() for line in lines)


def _changed_since(base: str) -> list[str]:
    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return done.stdout.splitlines()

    [shared] = git("merge-base", base, "HEAD")
    new = git("ls-files", "--others", "--exclude-standard")
    return [*git("diff", "--name-only", shared), *new]


def _main() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.glob("tests/**/*.py")}
    tests = {path: text for path, text in texts.items() if Path(path).name.startswith("test_")}
    found = affected_tests(_changed_since(sys.argv[1]), tests)
    there = sorted(each for each in found if (ROOT / each).exists())
    # A folder that is named already includes its files and folders.
    outer = [each for each in there if not any(str(p) in there for p in Path(each).parents)]
    print("\n".join(outer))


if __name__ == "__main__":
    _main()
