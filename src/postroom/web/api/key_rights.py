"""The lists and messages that exist for an API key, and the rights that a call needs on them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from starlette.requests import Request

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoListRight
from postroom.domain.messages.messages import Message
from postroom.services.accounts.api_keys import ApiKey
from postroom.services.audience.visible_lists import VisibleLists
from postroom.services.messages.visible_messages import VisibleMessages
from postroom.web.api.middleware import KEY_IN_SCOPE
from postroom.web.requests.list_checks import (
    check_named_rules,
    check_rule_access,
    find_lists,
    named_in_fields,
    named_in_path,
    require,
    together,
)
from postroom.wiring import Services


async def check_lists(request: Request, pattern: str, right: ListRight, body: bytes) -> None:
    """Raise `NoSuch` or `NoListRight` unless the key has a right on all lists that a call names in
    its path, its query and its body."""
    named = together(
        named_in_path(pattern, request.path_params),
        named_in_fields(request.query_params.multi_items()),
        named_in_fields(_fields_of(body)),
    )
    services, access = _services(request), _key(request).access
    found = await find_lists(services, access, named)
    await check_named_rules(services, access, named)
    require(access, right, found)


def lists_of(request: Request) -> VisibleLists:
    """Return the lists that exist for the key of a call."""
    return VisibleLists(_services(request).lists, _key(request).access)


def messages_of(request: Request) -> VisibleMessages:
    """Return the messages that exist for the key of a call."""
    services = _services(request)
    return VisibleMessages(services.times, services.messages, _key(request).access)


def require_right(request: Request, right: ListRight, *lists: str) -> None:
    """Raise `NoListRight` unless the key has a right on each of these lists; without a list, it
    needs the right on every list."""
    if not _key(request).access.may(right, *lists):
        raise NoListRight(right, next(iter(lists), ""))


def require_right_on(request: Request, right: ListRight, message: Message) -> None:
    """Raise `NoListRight` unless the key has a right on each list of a message."""
    require_right(request, right, *message.all_lists)


def rule_check(request: Request) -> Callable[[str], Awaitable[None]]:
    """Return a check that raises `RuleError` for rules about messages that a key cannot see."""
    return partial(check_rule_access, _services(request), _key(request).access)


def is_limited(request: Request) -> bool:
    return _key(request).only_lists


def _key(request: Request) -> ApiKey:
    key: ApiKey = request.scope[KEY_IN_SCOPE]
    return key


def _services(request: Request) -> Services:
    services: Services = request.app.state.context.services
    return services


def _fields_of(body: bytes) -> Iterable[tuple[str, Any]]:
    """Return the fields of a JSON object. It is read as FastAPI reads it, in the same encodings;
    what is not JSON is refused later."""
    try:
        found = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return ()
    return found.items() if isinstance(found, dict) else ()
