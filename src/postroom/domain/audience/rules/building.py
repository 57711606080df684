"""The parser of rules. It is a separate module because its library takes a while to load."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.exceptions import VisitError

from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.audience.rules.syntax import (
    AllRules,
    AnyRule,
    Literal,
    Not,
    Operator,
    Period,
    Rule,
    RuleComparison,
    RulePosition,
    Unit,
)
from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import parse_ref

LONGEST_PERIOD: Final = 100_000
MOST_DIGITS: Final = 15  # a float represents as many exactly

_EXPECTED: Final = {
    "COMPARED": "a comparison such as =, contains or is empty",
    "NAME": "the name of a field",
    "UNIT": "days, weeks, months or years",
    "_AND": "and, or, or the end of the rule",
    "RPAR": "a closing parenthesis",
    "FRACTION": 'a value such as "Berlin", 30, 2026-01-31 or true',
    "TEXT": 'a text in double quotes, such as "Berlin"',
    "DATE": "a date such as 2026-01-31",
    "WHOLE": "a whole number",
    "LPAR": "an opening parenthesis",
}
"""What to write, by terminal of the grammar. If several are allowed, the first one stands for
all."""

_WORD: Final = re.compile(r'"[^"\n]*"?|\w+|\S')
_ESCAPED: Final = re.compile(r"\\(.)")


def build(text: str) -> Rule:
    """Parse a rule. `RuleError`."""
    try:
        rule: Rule = _parser().parse(text)  # type: ignore[assignment] # made by `_Builder`
    except UnexpectedToken as exc:
        at = None if exc.token.type == "$END" else exc.pos_in_stream
        raise _error(text, at, exc.accepts or exc.expected) from None
    except UnexpectedCharacters as exc:
        raise _error(text, exc.pos_in_stream, exc.allowed) from None
    except VisitError as exc:
        raise exc.orig_exc from None
    return rule


def _error(text: str, at: int | None, allowed: Collection[str]) -> RuleError:
    """Return an error that says what was expected instead; at `None`, the text ends."""
    words = next((each for terminal, each in _EXPECTED.items() if terminal in allowed), "less")
    found = _WORD.search(text, at) if at is not None else None
    if found is None:
        place = _place_at(text, len(text.rstrip()))
        return RuleError(place, f"the rule ends too early: add {words}")
    place = _place_at(text, found.start())
    if found[0].startswith('"') and (len(found[0]) == 1 or not found[0].endswith('"')):
        return RuleError(place, "the text has no closing double quote")
    return RuleError(place, f"expected {words}, not {found[0][:40]}")


def _place_at(text: str, position: int) -> RulePosition:
    return RulePosition(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


@lru_cache(1)
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text()
    return Lark(grammar, parser="lalr", transformer=_Builder())


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Build a rule from the bottom up; each method is named after its part of the grammar."""

    def any_of(self, *parts: Rule) -> Rule:
        return AnyRule(parts)

    def all_of(self, *parts: Rule) -> Rule:
        return AllRules(parts)

    def negation(self, part: Rule) -> Rule:
        return part.part if isinstance(part, Not) else Not(part)

    def comparison(self, name: Token, operator: Token, value: Literal) -> Rule:
        return _comparison(name, Operator(operator), value)

    def text_comparison(self, name: Token, operator: Token, text: Token) -> Rule:
        return _comparison(name, Operator(" ".join(operator.lower().split())), self.text(text))

    def date_comparison(self, name: Token, operator: Token, day: Token) -> Rule:
        return _comparison(name, Operator(operator.lower()), self.date(day))

    def one_of(self, name: Token, *values: Literal) -> Rule:
        return _comparison(name, Operator.IN, *values)

    def none_of(self, name: Token, *values: Literal) -> Rule:
        return _comparison(name, Operator.NOT_IN, *values)

    def within(self, name: Token, count: Token, unit: Token) -> Rule:
        period = _period(count, unit)
        return RuleComparison(name.lower(), Operator.WITHIN, period=period, place=_place(name))

    def empty(self, name: Token) -> Rule:
        return _comparison(name, Operator.EMPTY)

    def not_empty(self, name: Token) -> Rule:
        return _comparison(name, Operator.NOT_EMPTY)

    def received(self, ref: Token) -> Rule:
        return _about_message(Operator.RECEIVED, ref)

    def opened(self, ref: Token) -> Rule:
        return _about_message(Operator.OPENED, ref)

    def clicked(self, ref: Token) -> Rule:
        return _about_message(Operator.CLICKED, ref)

    def clicked_link(self, part: Token) -> Rule:
        text = self.text(part)
        if not text.strip():
            raise RuleError(_place(part), 'write a part of a link, such as clicked "/shop/"')
        return RuleComparison("email", Operator.CLICKED_LINK, (text,), place=_place(part))

    def opened_within(self, count: Token, unit: Token) -> Rule:
        return _about_period(Operator.OPENED_WITHIN, count, unit)

    def clicked_within(self, count: Token, unit: Token) -> Rule:
        return _about_period(Operator.CLICKED_WITHIN, count, unit)

    def inactive(self, count: Token, unit: Token) -> Rule:
        return _about_period(Operator.INACTIVE, count, unit)

    def text(self, token: Token) -> str:
        return _ESCAPED.sub(r"\1", token[1:-1])

    def date(self, token: Token) -> date:
        try:
            return date.fromisoformat(token)
        except ValueError:
            raise RuleError(_place(token), f"{token} is not a valid date") from None

    def whole(self, token: Token) -> int:
        _check_digits(token)
        return int(token)

    def fraction(self, token: Token) -> float:
        _check_digits(token)
        return float(token)

    def true(self, _: Token) -> bool:
        return True

    def false(self, _: Token) -> bool:
        return False


def _about_message(operator: Operator, ref: Token) -> RuleComparison:
    try:
        message = parse_ref(str(ref))  # a token could not be written as JSON
    except Invalid:
        problem = f"expected the reference of a message, which has 18 digits, not {ref[:40]}"
        raise RuleError(_place(ref), problem) from None
    return RuleComparison("email", operator, (message,), place=_place(ref))


def _about_period(operator: Operator, count: Token, unit: Token) -> RuleComparison:
    return RuleComparison("email", operator, period=_period(count, unit), place=_place(count))


def _period(count: Token, unit: Token) -> Period:
    number = int(count) if len(count) <= MOST_DIGITS else -1
    if not 1 <= number <= LONGEST_PERIOD:
        problem = f"the number must be between 1 and {LONGEST_PERIOD}, not {count[:20]}"
        raise RuleError(_place(count), problem)
    return Period(number, Unit(unit.lower().removesuffix("s") + "s"))


def _comparison(name: Token, operator: Operator, *values: Literal) -> RuleComparison:
    return RuleComparison(name.lower(), operator, values, place=_place(name))


def _check_digits(number: Token) -> None:
    digits = sum(each.isdigit() for each in number)
    if digits > MOST_DIGITS:
        problem = f"a number must have at most {MOST_DIGITS} digits, not {digits}"
        raise RuleError(_place(number), problem)


def _place(token: Token) -> RulePosition:
    return RulePosition(token.line or 1, token.column or 1)
