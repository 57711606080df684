"""The lists that a request is about, and the right on them that it needs: pages and API alike.

A request names lists and messages in its path, its query and its body, always by the same names.
All of them are checked here, before the endpoint sees the request. Lists that someone may not view
are treated as if they did not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from postroom.domain.audience.lists.list_rights import ListAccess, ListRight
from postroom.domain.audience.rules import RuleError, messages_of, parse_rule
from postroom.domain.errors import Invalid, NoListRight, NoSuch
from postroom.wiring import Services

LIST_FIELDS: Final = frozenset(
    {"list", "lists", "list_name", "more_lists", "exclude_lists", "to_list"}
)
"""Parameters and fields, of forms and of JSON, that name a list or several."""
MESSAGE_FIELDS: Final = frozenset({"ref"})
"""Parameters and fields that name a message."""
RULE_FIELDS: Final = frozenset({"rule"})
"""Parameters and fields with the rule of a segment, which may ask who received a message."""
SEGMENT_FIELDS: Final = frozenset({"segment", "exclude_segments"})
"""Parameters and fields that name a segment, or several, of the lists that a request names."""
_LISTS_PATH: Final = "/lists/{name}"


class Named(msgspec.Struct, frozen=True):
    """The lists, messages, rules and segments that a request names."""

    lists: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()


def named_in_path(pattern: str, parameters: Mapping[str, Any]) -> Named:
    """Return what the path of a request names; `pattern` is its route's."""
    of_list = (str(parameters["name"]),) if pattern.startswith(_LISTS_PATH) else ()
    return together(Named(of_list), named_in_fields(parameters.items()))


def named_in_fields(fields: Iterable[tuple[str, Any]]) -> Named:
    """Return what the query, a form or a JSON object names; empty values name nothing."""
    lists: list[str] = []
    messages: list[str] = []
    rules: list[str] = []
    segments: list[str] = []
    for name, value in fields:
        values = value if isinstance(value, list | tuple) else [value]
        texts = [each for each in values if isinstance(each, str) and each]
        if name in LIST_FIELDS:
            lists += texts
        elif name in MESSAGE_FIELDS:
            messages += texts
        elif name in RULE_FIELDS:
            rules += texts
        elif name in SEGMENT_FIELDS:
            segments += texts
    return Named(tuple(lists), tuple(messages), tuple(rules), tuple(segments))


def together(*parts: Named) -> Named:
    return Named(
        tuple(dict.fromkeys(each for part in parts for each in part.lists)),
        tuple(dict.fromkeys(each for part in parts for each in part.messages)),
        tuple(dict.fromkeys(each for part in parts for each in part.rules)),
        tuple(dict.fromkeys(each for part in parts for each in part.segments)),
    )


async def find_lists(services: Services, access: ListAccess, named: Named) -> tuple[str, ...]:
    """Return all lists that a request is about, those of its messages included.

    `NoSuch` for a list or a message that does not exist for them. Those with a role see what there
    is, and whether a list exists is up to the endpoint.
    """
    if access.is_limited:
        for name in named.lists:
            if not access.may(ListRight.VIEW, name):
                raise NoSuch("list", name)
    found = list(named.lists)
    for ref in named.messages:
        try:
            message = await services.messages.get(ref)
        except (NoSuch, Invalid):
            if access.is_limited:
                raise
            continue
        if access.is_limited and not access.may(ListRight.VIEW, *message.all_lists):
            raise NoSuch("message", ref)
        # A draft without a list is for those with the right on every list.
        found += message.all_lists or ("",)
    return tuple(dict.fromkeys(found))


async def check_named_rules(services: Services, access: ListAccess, named: Named) -> None:
    """Raise `RuleError` if a rule that a request names asks who received a message that does not
    exist for them: it was typed, or belongs to a segment or to the audience of a message."""
    if not access.is_limited:
        return
    for text in named.rules:
        await check_rule_access(services, access, text)
    await check_segment_access(services, access, named.lists, named.segments)
    for ref in named.messages:
        message = await services.messages.get(ref)
        if message.queued_at is None:  # its rules are still to be used
            segments = message.audience.segments
            await check_segment_access(services, access, (message.list_name,), segments)


async def check_segment_access(
    services: Services, access: ListAccess, lists: Iterable[str], segments: Iterable[str]
) -> None:
    """Raise `RuleError` if a stored segment asks who received a message that does not exist for
    them: someone with more rights has written it. Anything that is not a segment is refused
    later."""
    names = tuple(segments) if access.is_limited else ()
    for list_name in lists if names else ():
        for name in names:
            try:
                found = await services.segments.get(list_name, name)
            except (NoSuch, Invalid):
                continue
            await check_rule_access(services, access, found.rule)


async def check_rule_access(services: Services, access: ListAccess, text: str) -> None:
    """Raise `RuleError` if a rule asks who received a message that does not exist for them.
    Anything that is not a rule is refused later."""
    if not access.is_limited:
        return
    try:
        messages = messages_of(parse_rule(text))
    except RuleError:
        return
    for ref, place in messages.items():
        try:
            message = await services.messages.get(ref)
        except (NoSuch, Invalid):
            message = None
        if message is None or not access.may(ListRight.VIEW, *message.all_lists):
            raise RuleError(place, f"there is no message {ref}")


def require(access: ListAccess, right: ListRight, lists: Iterable[str]) -> None:
    """Raise `NoListRight` unless they have a right on each list. If no list is named, they need it
    on some list. An index may always be viewed: it shows only what is on their lists."""
    lists = tuple(lists)
    for name in lists:
        if not access.may(right, name):
            raise NoListRight(right, name)
    if not lists and right is not ListRight.VIEW and not access.may_somewhere(right):
        raise NoListRight(right)
