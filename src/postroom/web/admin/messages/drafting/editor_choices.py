"""What the editor offers: templates that suit a format, and merge fields."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.composing.layouts import LayoutFormat
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.messages import MessageFormat
from postroom.mail.personal.merge_fields import RULES, FieldRule
from postroom.services.messages.drafts.templates import Template
from postroom.web.admin.messages.drafting.message_drafts import Draft
from postroom.web.requests.visit import Visit

_NEEDS_MJML: Final = frozenset({MessageFormat.BLOCKS.value, MessageFormat.MJML.value})
_FIELD_LABELS: Final = {
    "email": "Email address",
    "unsubscribe_url": "Unsubscribe link",
    "preferences_url": "Link to preferences",
    "web_url": "Link to the web page",
    "list_description": "List description",
}


_NAMES: Final = ("first_name", "last_name")
_DEFAULTS: Final = {"first_name": "there"}  # as in "Hello there"


class MergeFieldChoice(msgspec.Struct, frozen=True):
    label: str
    text: str
    """As it is written in a message."""


_CONDITION: Final = MergeFieldChoice(
    "Condition", "{% if first_name is not empty %}…{% else %}…{% end %}"
)


async def usable_templates(visit: Visit, draft: Draft) -> list[Template]:
    """Return the templates that suit the format of a draft, and its own in any case."""
    return [
        each
        for each in await visit.services.templates.list()
        if each.format is LayoutFormat.MJML
        or draft.format not in _NEEDS_MJML
        or each.name == draft.template
    ]


async def merge_field_choices(visit: Visit, draft: Draft) -> list[MergeFieldChoice]:
    """Return the merge fields of the draft's list, each with a default if it may be empty, and an
    example of a condition."""
    rules: Mapping[str, FieldRule] = RULES
    with contextlib.suppress(NoSuch, Invalid):  # no list is chosen yet, or it was deleted
        mailing_list = await visit.services.lists.get(draft.list)
        rules = await visit.services.audiences.merge_fields(mailing_list.name, draft.more_lists)
    return [
        MergeFieldChoice(
            _FIELD_LABELS.get(str(name), str(name).replace("_", " ").capitalize()),
            _written(str(name), rule),
        )
        for name, rule in sorted(rules.items(), key=lambda each: _rank(*each))
    ] + [_CONDITION]


def _written(name: str, rule: FieldRule) -> str:
    if not rule.may_be_empty:
        return f"{{{{ {name} }}}}"
    return f'{{{{ {name} | default: "{_DEFAULTS.get(name, "")}" }}}}'


def _rank(name: str, rule: FieldRule) -> int:
    """Return a number by which the fields that messages use most come first, and links last."""
    if rule.is_link:
        return 3
    if name in _NAMES:
        return 0
    return 2 if name in RULES else 1


async def format_for(visit: Visit, template: str) -> MessageFormat:
    """Return what a new message is written in: blocks, unless its template is HTML."""
    if template:
        with contextlib.suppress(NoSuch):
            found = await visit.services.templates.get(template)
            if found.layout.format is LayoutFormat.HTML:
                return MessageFormat.HTML
    return MessageFormat.BLOCKS
