"""The mistakes in a rule."""

from __future__ import annotations

from postroom.domain.audience.rules.syntax import RulePosition
from postroom.domain.errors import Invalid


class RuleError(Invalid):
    """A rule that cannot be used; `line` and `column`, counted from 1, say where it goes wrong."""

    def __init__(self, place: RulePosition, problem: str) -> None:
        super().__init__("rule", f"line {place.line}, column {place.column}: {problem}")
        self.line = place.line
        self.column = place.column
