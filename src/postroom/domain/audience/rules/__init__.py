"""Rules select subscribers: `city = "Berlin" and not email ends with "@example.org"`.

    text --parse--> Rule --check--> Rule without mistakes --compile--> function of a subscriber

The text can be written again from the rule, so a form can edit the same rule.
"""

from postroom.domain.audience.rules.checking import check_rule, operators_of
from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.audience.rules.evaluating import asked, compile_rule, explain, first_day
from postroom.domain.audience.rules.rule_parsing import parse_rule
from postroom.domain.audience.rules.syntax import (
    ABOUT_ENGAGEMENT,
    Operator,
    Rule,
    RuleComparison,
    comparisons,
    fields_of,
    messages_of,
    text_of,
    with_field_renamed,
)
from postroom.domain.audience.rules.trees import tree_of

__all__ = [
    "ABOUT_ENGAGEMENT",
    "Operator",
    "Rule",
    "RuleComparison",
    "RuleError",
    "asked",
    "check_rule",
    "comparisons",
    "compile_rule",
    "explain",
    "fields_of",
    "first_day",
    "messages_of",
    "operators_of",
    "parse_rule",
    "text_of",
    "tree_of",
    "with_field_renamed",
]
