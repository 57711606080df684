"""Rules select subscribers: `city = "Berlin" and not email ends with "@example.org"`.

    text --parse--> Rule --check--> Rule without mistakes --compile--> function of a subscriber

The text can be written again from the rule, so a form can edit the same rule.
"""

from postroom.domain.audience.rules.checking import check_rule
from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.audience.rules.evaluating import compile_rule, explain
from postroom.domain.audience.rules.parsing import parse_rule
from postroom.domain.audience.rules.syntax import Rule, fields_of, text_of, with_field_renamed

__all__ = [
    "Rule",
    "RuleError",
    "check_rule",
    "compile_rule",
    "explain",
    "fields_of",
    "parse_rule",
    "text_of",
    "with_field_renamed",
]
