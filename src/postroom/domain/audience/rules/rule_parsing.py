"""Reading the text of a rule."""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.audience.rules.syntax import Rule, RulePosition, comparisons

LONGEST: Final = 10_000
MOST_COMPARISONS: Final = 50


def parse_rule(text: str) -> Rule:
    """Parse a rule. `RuleError`.

    Whether its fields exist and have fitting types is up to `check_rule`.
    """
    if len(text) > LONGEST:
        problem = f"a rule must have at most {LONGEST:,} characters, not {len(text):,}"
        raise RuleError(RulePosition(), problem)
    if not text.strip():
        raise RuleError(RulePosition(), 'write a rule such as city = "Berlin"')
    # Only processes that use rules should load the library.
    from postroom.domain.audience.rules.building import build

    rule = build(text)
    found = list(comparisons(rule))
    if len(found) > MOST_COMPARISONS:
        problem = f"a rule must have at most {MOST_COMPARISONS} comparisons, not {len(found)}"
        raise RuleError(found[MOST_COMPARISONS].place, problem)
    return rule
