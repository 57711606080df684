"""The language of rules: what it means, and what it says about mistakes."""

import unicodedata
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.field_types import FieldType, FieldValue
from postroom.domain.audience.rules import (
    Rule,
    RuleError,
    check_rule,
    compile_rule,
    explain,
    fields_of,
    parse_rule,
    text_of,
)
from postroom.domain.audience.rules.syntax import (
    AllRules,
    AnyRule,
    Not,
    Operator,
    Period,
    RuleComparison,
    Unit,
)

TODAY = date(2026, 3, 31)
FIELDS = {
    "email": FieldType.TEXT,
    "city": FieldType.TEXT,
    "age": FieldType.INTEGER,
    "score": FieldType.NUMBER,
    "vip": FieldType.BOOLEAN,
    "joined": FieldType.DATE,
    "plan": FieldType.CHOICE,
    "topics": FieldType.CHOICES,
}
SENT, UNSENT = "639040123456789012", "639040123456789013"
RECEIVED = {
    SENT: {"ann@example.org", *(f"user{each:06}@example.com" for each in range(0, 9, 2))},
    UNSENT: {f"user{each:06}@example.com" for each in range(0, 9, 3)},
}
ENGAGED: dict[str, set[str]] = {
    f"clicked {SENT}": {"ann@example.org"},
    f"opened {SENT}": {"ann@example.org"},
    'clicked "/a \\"b\\""': {"ann@example.org"},
    "clicked within 90 days": {"ann@example.org"},
    "opened within 1 months": set(),
    "inactive for 2 years": set(),
}
ANN: Mapping[str, FieldValue] = {
    "email": "Ann@Example.org",
    "city": "Zürich",
    "age": 30,
    "score": 2.5,
    "vip": True,
    "joined": date(2026, 3, 1),
    "plan": "pro",
    "topics": ["News", "Events"],
}


def selects(
    rule: str, row: Mapping[str, FieldValue], fields: Mapping[str, FieldType] = FIELDS
) -> bool:
    parsed = parse_rule(rule)
    check_rule(parsed, fields, may_ask_messages=True)
    return compile_rule(parsed, TODAY, RECEIVED | ENGAGED)(row)


@pytest.mark.parametrize(
    "rule",
    [
        'city = "ZÜRICH"',
        'city = "Zu\u0308rich"',  # the same letters, encoded otherwise
        'city != "Bern"',
        'city in ("Bern", "zürich")',
        'city not in ("Bern", "Basel")',
        'city contains "ÜR" and city starts with "z" and city ends   with "CH"',
        "age = 30 and age >= 30 and age <= 30 and age > 29.5 and age < 31 and age != -30",
        "age in (29, 30)",
        "score = 2.5 and score > 2",
        "vip = true and vip = YES and vip != no",
        "joined = 2026-03-01 and joined before 2026-03-02 and joined after 2026-02-28",
        "joined within 30 days and joined within 1 month and joined within 5 weeks",
        "not joined within 29 days",
        'plan = "PRO" or age > 100',
        'topics contains "events" and topics in ("sport", "news") and topics not in ("sport")',
        'not topics contains "event"',
        "age > 100 or age > 20 and age < 40",
        "not (age > 100 or age < 20)",
        "NOT age > 100 AND city IS NOT EMPTY",
        'email ends with "@example.org"\n  and (plan = "free"\n    or plan = "pro")',
        "((((vip = true))))",
        "not not vip = true",
        'city != "a \\"quoted\\" word and a \\\\"',
        f"received {SENT} and not received {UNSENT}",
        f"clicked {SENT} and Opened {SENT} and clicked  within 90 day",
        'clicked "/a \\"b\\"" and not (opened within 1 month or inactive  for 2 years)',
    ],
)
def test_a_rule_selects(rule: str) -> None:
    assert selects(rule, ANN)
    assert not selects(f"not ({rule})", ANN)


@pytest.mark.parametrize("empty", [{}, dict.fromkeys(FIELDS), {"city": "", "topics": []}])
def test_an_empty_field_equals_nothing(empty: Mapping[str, FieldValue]) -> None:
    for rule in (
        "city is empty and topics is empty and vip is empty",
        'city != "Bern" and age != 30 and city not in ("Bern") and topics not in ("News")',
        'not city = "" and not city contains ""',
        "not age < 30 and not age >= 30 and not joined within 10000 days",
        "not vip = false and not vip = true",
    ):
        assert selects(rule, empty), rule
    assert selects("age is not empty and vip is not empty", {"age": 0, "vip": False})


@pytest.mark.parametrize(
    ("period", "first"),
    [
        ("1 day", date(2026, 3, 30)),
        ("2 weeks", date(2026, 3, 17)),
        ("1 month", date(2026, 2, 28)),
        ("25 months", date(2024, 2, 29)),
        ("2 years", date(2024, 3, 31)),
        ("100000 years", date.min),
    ],
)
def test_a_period_ends_today(period: str, first: date) -> None:
    rule = f"joined within {period}"
    assert selects(rule, {"joined": first})
    assert selects(rule, {"joined": TODAY})
    assert not selects(rule, {"joined": TODAY + timedelta(days=1)})
    if first > date.min:
        assert not selects(rule, {"joined": first - timedelta(days=1)})


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("", 'line 1, column 1: write a rule such as city = "Berlin"'),
        ('ciy = "Bern"', "line 1, column 1: there is no field ciy; did you mean city?"),
        (
            'vip = true and\n  xyz = "Bern"',
            "line 2, column 3: there is no field xyz; the fields are age, city, email, joined,"
            " plan, score, topics, vip",
        ),
        (
            'age = "30"',
            'line 1, column 1: age must be compared with a whole number, such as 30, not "30"',
        ),
        (
            "city in (1, 2)",
            "line 1, column 1: city must be compared with a text in double quotes, such as"
            ' "Berlin", not 1, 2',
        ),
        (
            "age = true",
            "line 1, column 1: age must be compared with a whole number, such as 30, not true",
        ),
        (
            "vip > true",
            "line 1, column 1: vip cannot be compared with >; use =, !=, is empty, is not empty",
        ),
        (
            "city within 3 days",
            "line 1, column 1: city cannot be compared with within; use =, !=, contains,"
            " starts with, ends with, in, not in, is empty, is not empty",
        ),
        (
            "city",
            "line 1, column 5: the rule ends too early: add a comparison such as =, contains or is"
            " empty",
        ),
        (
            "city = ",
            'line 1, column 7: the rule ends too early: add a value such as "Berlin", 30,'
            " 2026-01-31 or true",
        ),
        (
            "city = Berlin",
            'line 1, column 8: expected a value such as "Berlin", 30, 2026-01-31 or true, not'
            " Berlin",
        ),
        ('city = "Berlin', "line 1, column 8: the text has no closing double quote"),
        (
            'city = "a" city = "b"',
            "line 1, column 12: expected and, or, or the end of the rule, not city",
        ),
        (
            '(city = "a"',
            "line 1, column 12: the rule ends too early: add a closing parenthesis",
        ),
        ("age in 3", "line 1, column 8: expected an opening parenthesis, not 3"),
        ("and", "line 1, column 1: expected the name of a field, not and"),
        ("age = 30;", "line 1, column 9: expected and, or, or the end of the rule, not ;"),
        ("joined = 2026-02-30", "line 1, column 10: 2026-02-30 is not a valid date"),
        (
            "joined within 0 days",
            "line 1, column 15: the number must be between 1 and 100000, not 0",
        ),
        (
            "joined within 3",
            "line 1, column 16: the rule ends too early: add days, weeks, months or years",
        ),
        (
            "joined within 3 moons",
            "line 1, column 17: expected days, weeks, months or years, not moons",
        ),
        (
            "age = 1 or received 12",
            "line 1, column 21: expected the reference of a message, which has 18 digits, not 12",
        ),
        (
            "age = 1234567890123456",
            "line 1, column 7: a number must have at most 15 digits, not 16",
        ),
        (
            " or ".join(["age = 1"] * 51),
            "line 1, column 551: a rule must have at most 50 comparisons, not 51",
        ),
        (
            "age = 1 or (age = 1 and (" * 365 + "age = 1" + "))" * 365,
            "line 1, column 626: a rule must have at most 50 comparisons, not 731",
        ),
        ("x" * 10_001, "line 1, column 1: a rule must have at most 10,000 characters, not 10,001"),
    ],
)
def test_a_mistake_is_named_with_its_place(rule: str, problem: str) -> None:
    with pytest.raises(RuleError) as caught:
        selects(rule, ANN)
    assert caught.value.problem == problem
    assert problem.startswith(f"line {caught.value.line}, column {caught.value.column}: ")


def test_only_segments_ask_who_received_a_message() -> None:
    with pytest.raises(RuleError, match="received can be used in segments only"):
        check_rule(parse_rule(f"not received {SENT}"), FIELDS)
    with pytest.raises(RuleError, match="inactive for can be used in segments only"):
        check_rule(parse_rule("inactive for 3 days"), FIELDS)
    for field in ("clicked", "opened", "inactive"):
        assert selects(f"{field} = 3", {field: 3}, {**FIELDS, field: FieldType.INTEGER})
    assert selects("received = 3", {"received": 3}, {**FIELDS, "received": FieldType.INTEGER})


def test_deep_nesting_does_no_harm() -> None:
    assert selects("(" * 4000 + "vip = true" + ")" * 4000, ANN)
    assert selects("not " * 2000 + "vip = true", ANN)
    nested = "age = 30 and (age = 1 or " * 24 + "vip = true" + ")" * 24
    assert selects(nested, ANN)
    assert selects(text_of(parse_rule(nested)), ANN)


def test_an_explanation_says_of_each_part_whether_it_holds() -> None:
    rule = parse_rule('city = "Bern" or not (age > 20 and vip = false)')
    reason = explain(rule, ANN, TODAY)
    assert reason.holds
    assert [(each.text, each.holds) for each in reason.parts] == [
        ('city = "Bern"', False),
        ("not (age > 20 and vip = false)", True),
    ]
    [both] = reason.parts[1].parts
    assert [(each.text, each.holds) for each in both.parts] == [
        ("age > 20", True),
        ("vip = false", False),
    ]
    assert fields_of(rule) == {"city", "age", "vip"}


def test_an_explanation_has_the_values_that_are_compared() -> None:
    rule = parse_rule('city = "Bern" and (vip = true or joined within 3 days) and age is empty')
    row: dict[str, FieldValue] = {"city": "Ulm", "vip": False, "joined": date(2020, 1, 2)}
    reason = explain(rule, row, TODAY)
    assert [each.value for each in reason.parts] == ["Ulm", None, ""]
    assert [each.value for each in reason.parts[1].parts] == ["no", "2020-01-02"]
    received = explain(
        parse_rule("received 634852858215726983"),
        row | {"email": "a@b.org"},
        TODAY,
        {"634852858215726983": ()},
    )
    assert received.value is None


# -- against a model -------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4)
EDGES = (7, 8, 14, 15, 28, 30, 31, 32, 59, 60, 61, 365, 366)
"""Days before today at which periods may begin."""
few_texts = st.sampled_from(["a", "A", "b", "ab", "Straße", "STRASSE", ""])
literals: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.TEXT: few_texts | texts,
    FieldType.INTEGER: st.integers(-3, 3),
    FieldType.NUMBER: st.sampled_from([-1.5, 0, 0.25, 3.0]),
    FieldType.BOOLEAN: st.booleans(),
    FieldType.DATE: st.dates(TODAY - timedelta(days=3), TODAY + timedelta(days=3))
    | st.sampled_from([TODAY - timedelta(days=each) for each in EDGES]),
    FieldType.CHOICE: few_texts,
}
several = st.lists(few_texts.filter(bool), max_size=3)
rows = st.fixed_dictionaries(
    {},
    optional={
        name: st.none() | (several if kind is FieldType.CHOICES else literals[kind])
        for name, kind in FIELDS.items()
    },
)


@st.composite
def comparison(draw: st.DrawFn) -> Rule:
    name = draw(st.sampled_from(sorted(FIELDS)))
    kind = FIELDS[name]
    usable = (
        {
            FieldType.TEXT: "= != in not_in contains starts_with ends_with",
            FieldType.CHOICE: "= != in not_in contains",
            FieldType.CHOICES: "contains in not_in",
            FieldType.INTEGER: "= != in not_in < <= > >=",
            FieldType.NUMBER: "= != in not_in < <= > >=",
            FieldType.BOOLEAN: "= !=",
            FieldType.DATE: "= != < <= > >= before after in not_in within",
        }[kind]
        .replace("s_", "s ")
        .replace("not_", "not ")
    )
    operator = Operator(draw(st.sampled_from([*_words(usable), "is empty", "is not empty"])))
    if operator is Operator.WITHIN:
        period = Period(draw(st.integers(1, 4)), draw(st.sampled_from(Unit)))
        return RuleComparison(name, operator, period=period)
    if name == "email" and operator in (Operator.STARTS_WITH, Operator.EQUAL, Operator.IN):
        literal = st.sampled_from(["USER", "user00000", "User000003@example.com", "ß", ""])
        more = draw(st.lists(literal, max_size=2)) if operator is Operator.IN else []
        return RuleComparison(name, operator, (draw(literal), *more))
    literal = literals[FieldType.TEXT if kind is FieldType.CHOICES else kind]
    if operator in (Operator.EMPTY, Operator.NOT_EMPTY):
        values: tuple[Any, ...] = ()
    elif operator in (Operator.IN, Operator.NOT_IN):
        values = tuple(draw(st.lists(literal, min_size=1, max_size=3)))
    else:
        values = (draw(literal),)
    return RuleComparison(name, operator, values)


def _words(text: str) -> list[str]:
    joined = text.replace("not in", "not_in").replace("s with", "s_with").split()
    return [word.replace("_", " ") for word in joined]


def rules_of(comparisons: st.SearchStrategy[Rule]) -> st.SearchStrategy[Rule]:
    return st.recursive(
        comparisons,
        lambda part: st.one_of(
            part.filter(lambda each: not isinstance(each, Not)).map(Not),
            st.lists(part, min_size=2, max_size=3).map(lambda parts: AllRules(tuple(parts))),
            st.lists(part, min_size=2, max_size=3).map(lambda parts: AnyRule(tuple(parts))),
        ),
        max_leaves=6,
    )


rules = rules_of(comparison())
received = st.sampled_from([SENT, UNSENT]).map(
    lambda ref: RuleComparison("email", Operator.RECEIVED, (ref,))
)
rules_with_messages = rules_of(comparison() | received)


def model(rule: Rule, row: Mapping[str, Any], today: date = TODAY) -> bool:
    """What a rule means, written as plainly as possible."""
    match rule:
        case Not(part):
            return not model(part, row, today)
        case AllRules(parts):
            return min(model(each, row, today) for each in parts)
        case AnyRule(parts):
            return max(model(each, row, today) for each in parts)
    if rule.operator is Operator.RECEIVED:
        return row["email"] in RECEIVED[str(rule.values[0])]
    value = row.get(rule.field)
    if value in (None, "", []):
        return rule.operator in (Operator.EMPTY, Operator.NOT_EQUAL, Operator.NOT_IN)
    known = [plain(each) for each in (value if isinstance(value, list) else [value])]
    wanted = [plain(each) for each in rule.values]
    match rule.operator:
        case Operator.EMPTY:
            return False
        case Operator.NOT_EMPTY:
            return True
        case Operator.EQUAL | Operator.IN:
            return any(each in wanted for each in known)
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            return all(each not in wanted for each in known)
        case Operator.CONTAINS if isinstance(value, list):
            return wanted[0] in known
        case Operator.CONTAINS:
            return wanted[0] in known[0]
        case Operator.STARTS_WITH:
            return bool(known[0].startswith(wanted[0]))
        case Operator.ENDS_WITH:
            return bool(known[0].endswith(wanted[0]))
        case Operator.LESS | Operator.BEFORE:
            return bool(known[0] < wanted[0])
        case Operator.AT_MOST:
            return bool(known[0] <= wanted[0])
        case Operator.MORE | Operator.AFTER:
            return bool(known[0] > wanted[0])
        case Operator.AT_LEAST:
            return bool(known[0] >= wanted[0])
        case Operator.WITHIN if rule.period is not None:
            return bool(begins(rule.period, today) <= known[0] <= today)
    raise AssertionError(rule)


def begins(period: Period, today: date) -> date:
    """The first day of a period, found by looking at one day after the other."""
    if period.unit in (Unit.DAYS, Unit.WEEKS):
        return today - timedelta(days=period.count * (7 if period.unit is Unit.WEEKS else 1))
    months = period.count * (12 if period.unit is Unit.YEARS else 1)
    day = today
    while months:  # to the last day of the month before
        day, months = day.replace(day=1) - timedelta(days=1), months - 1
    while day.day > today.day:
        day -= timedelta(days=1)
    return day


def plain(value: Any) -> Any:
    return unicodedata.normalize("NFC", value).casefold() if isinstance(value, str) else value


@given(rules, rows)
def test_rules_agree_with_the_model_and_survive_being_written_as_text(
    rule: Rule, row: Mapping[str, FieldValue]
) -> None:
    check_rule(rule, FIELDS)
    expected = model(rule, row)
    assert compile_rule(rule, TODAY)(row) == expected
    read_again = parse_rule(text_of(rule))
    assert compile_rule(read_again, TODAY)(row) == expected
    assert text_of(read_again) == text_of(rule)
    assert explain(rule, row, TODAY).holds == expected


@given(st.text(st.sampled_from('ab ="()\n\\1-.,<>') | st.characters(), max_size=40))
def test_any_text_is_a_rule_or_a_named_mistake(text: str) -> None:
    try:
        rule = parse_rule(text)
    except RuleError as exc:
        mistake = exc
    else:
        assert text_of(parse_rule(text_of(rule))) == text_of(rule)
        return
    lines = text.split("\n")
    assert 1 <= mistake.line <= len(lines)
    assert 1 <= mistake.column <= len(lines[mistake.line - 1]) + 1


@pytest.mark.parametrize("text", ENGAGED)
def test_a_rule_about_opens_and_clicks_is_written_as_it_is_read(text: str) -> None:
    assert text_of(parse_rule(text)) == text
    assert text_of(parse_rule(f"not ({text} or {text})")) == f"not ({text} or {text})"
