"""What the builder of segments offers, and the rules that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from postroom.domain.audience.fields import FROM_THE_ROW, Fields
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.audience.rules import (
    RuleError,
    check_rule,
    operators_of,
    parse_rule,
    tree_of,
)
from postroom.domain.audience.rules.syntax import Operator
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.web.rendering.templating import short
from postroom.web.rendering.times import on_day
from postroom.web.requests.visit import Visit

_MESSAGES: Final = 100
_LONGEST_SUBJECT: Final = 60
_ROW_LABELS: Final = {"email": "Email address", "joined": "Joined"}
_PERIODS: Final = (Operator.CLICKED_WITHIN, Operator.OPENED_WITHIN, Operator.INACTIVE)
EMPTY_TREE: Final = '{"kind":"group","all":true,"parts":[]}'


async def offered(visit: Visit, mailing_list: MailingList, fields: Fields) -> list[dict[str, Any]]:
    """Return what conditions can be about: fields, messages, opens and clicks."""
    return [*_fields_offered(fields), *await _about_messages(visit, mailing_list)]


def _fields_offered(fields: Fields) -> list[dict[str, Any]]:
    """Return the fields that the builder offers, with the comparisons of their types."""
    return [
        {
            "name": name,
            "label": _ROW_LABELS[name] if name in FROM_THE_ROW else _label(fields, name),
            "type": kind.value,
            "operators": [each.value for each in operators_of(kind)],
            "choices": list(field.choices) if (field := fields.get(name)) else [],
        }
        for name, kind in fields.types.items()
    ]


async def _about_messages(visit: Visit, mailing_list: MailingList) -> list[dict[str, Any]]:
    """Return what the builder offers about messages, opens and clicks. To be chosen are recent
    messages of the list, newest first; only personal ones know who opened and clicked."""
    found = await visit.messages.all(limit=_MESSAGES)
    messages = [each for each in found.messages if mailing_list.name in each.lists]
    personal = [each for each in messages if each.track is Track.PERSONAL]
    return [
        _offered_row("received", "Message", "message", [Operator.RECEIVED], messages),
        _offered_row("opened", "Message opened", "message", [Operator.OPENED], personal),
        _offered_row("clicked", "Message clicked", "message", [Operator.CLICKED], personal),
        _offered_row("clicked link", "Link", "text", [Operator.CLICKED_LINK]),
        _offered_row("activity", "Activity", "period", _PERIODS),
    ]


def _offered_row(
    name: str,
    label: str,
    kind: str,
    operators: Sequence[Operator],
    messages: Sequence[Message] = (),
) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": kind,
        "operators": [each.value for each in operators],
        "choices": [],
        "messages": [
            [each.ref, f"{short(each.subject, _LONGEST_SUBJECT)} ({on_day(each.due_at.date())})"]
            for each in messages
        ],
    }


def _label(fields: Fields, name: str) -> str:
    field = fields.get(name)
    return field.shown_label if field else name


def shown_tree(rule: str, fields: Fields) -> str:
    """Return a rule for the builder, as JSON; nothing if it has a mistake."""
    try:
        parsed = parse_rule(rule)
        check_rule(parsed, fields.types, may_ask_messages=True)
    except RuleError:
        return ""
    return msgspec.json.encode(tree_of(parsed)).decode()
