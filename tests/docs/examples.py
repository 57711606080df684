"""Shell examples of the documentation, read from blocks that are marked `console`.

A line that begins with `$ ` is a command. The lines below it are what it prints; in them `…` stands
for anything, and a line that is nothing else for any number of lines. Spaces count as one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_ANYTHING = "…"


@dataclass(frozen=True)
class Example:
    """A command and the lines that it is said to print."""

    command: str
    shown: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """Without what a shell ignores."""
        return self.command.partition(" #")[0].split()

    def is_printed_in(self, output: str) -> bool:
        """Whether the shown lines are there, in their order."""
        printed = iter([" ".join(line.split()) for line in output.splitlines()])
        wanted = [_pattern(line) for line in self.shown]
        return all(any(re.fullmatch(each, line) for line in printed) for each in wanted)


def examples_of(page: Path) -> list[Example]:
    """All examples of a page, in their order."""
    return examples_in(page.read_text())


def examples_in(text: str) -> list[Example]:
    """All examples of a text, in their order."""
    found: list[Example] = []
    for _, block in _BLOCK.findall(text):
        command, shown = "", []
        for line in [*map(str.strip, block.replace("\\\n", " ").splitlines()), "$ "]:
            if not line.startswith("$ ") and line != "$":
                shown.append(line)
                continue
            if command:
                lines = [each for each in shown if each not in ("", _ANYTHING)]
                found.append(Example(command, tuple(lines)))
            command, shown = line[2:], []
    return found


def _pattern(shown: str) -> str:
    parts = (" ".join(part.split()) for part in shown.split(_ANYTHING))
    return ".*".join(map(re.escape, parts))
