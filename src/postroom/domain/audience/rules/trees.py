"""A rule as plain data, from which a form builds its rows and groups."""

from __future__ import annotations

import msgspec

from postroom.domain.audience.rules.syntax import (
    ABOUT_A_MESSAGE,
    LOOKED_UP,
    AllRules,
    AnyRule,
    Literal,
    Not,
    Operator,
    Period,
    Rule,
    RuleComparison,
    literal_text,
)


class TreeRow(msgspec.Struct, frozen=True, tag_field="kind", tag="row"):
    """A comparison. Its values are texts, as an input has them; `within` has a count and a unit."""

    field: str
    operator: str
    values: tuple[str, ...] = ()
    unit: str = ""
    negated: bool = False


class TreeGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="group"):
    """Parts of which all have to hold, or any."""

    all: bool
    parts: tuple[TreeRow | TreeGroup, ...]
    negated: bool = False


def tree_of(rule: Rule) -> TreeGroup:
    """Return a rule as a group, whose parts are comparisons and other groups."""
    tree = _tree(rule)
    return tree if isinstance(tree, TreeGroup) else TreeGroup(all=True, parts=(tree,))


def _tree(rule: Rule) -> TreeRow | TreeGroup:
    match rule:
        case RuleComparison(operator=Operator.CLICKED_LINK):
            return TreeRow("clicked link", rule.operator.value, tuple(map(_value, rule.values)))
        case RuleComparison(period=Period() as period):
            field = "activity" if rule.operator in LOOKED_UP else rule.field
            return TreeRow(field, rule.operator.value, (str(period.count),), period.unit.value)
        case RuleComparison(operator=operator) if operator in ABOUT_A_MESSAGE:
            return TreeRow(operator.value, operator.value, tuple(map(_value, rule.values)))
        case RuleComparison():
            return TreeRow(rule.field, rule.operator.value, tuple(map(_value, rule.values)))
        case Not(part):
            inner = _tree(part)
            return msgspec.structs.replace(inner, negated=not inner.negated)
        case AllRules(parts):
            return TreeGroup(all=True, parts=tuple(map(_tree, parts)))
        case AnyRule(parts):
            return TreeGroup(all=False, parts=tuple(map(_tree, parts)))


def _value(value: Literal) -> str:
    return value if isinstance(value, str) else literal_text(value)
