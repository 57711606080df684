"""Access to queues: rules about who may do what, and secrets that viewers do not see.

| table         | partition | row              | holds                             |
|---------------|-----------|------------------|-----------------------------------|
| `queueaccess` | principal | right `:` queues | Queues, Effect: `allow` or `deny` |

A rule applies to queues whose names begin with its path, and to their subqueues. What no rule
denies is allowed. A denying rule takes precedence, until it is removed or replaced by `allow`.
"""

from __future__ import annotations

import contextlib
import re
from enum import StrEnum

import msgspec

from postroom.domain.errors import Invalid, NoSuch, NotAllowed
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.domain.plain_text import one_line
from postroom.domain.queues.queue_names import root_queue, segments
from postroom.services import entities
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.attempts import HistoryEntry
from postroom.services.queues.hosts import HostStatusService
from postroom.storage import Entity, KeyRange, NotFound, QueueMessage, Store

TABLE = "queueaccess"
_LONGEST = 200


class Right(StrEnum):
    SEND = "send"
    PEEK = "peek"
    RECEIVE = "receive"
    MANAGE = "manage"


class Effect(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


class AccessRule(msgspec.Struct, frozen=True):
    """`principal` is `app:/path` or `key:ID`; `queues` a path such as `/shop`, `/` for all."""

    principal: str
    right: Right
    queues: str
    effect: Effect


class AccessService:
    def __init__(self, store: Store, hosts: HostStatusService, apps: AppRegistry) -> None:
        self._table = store.table(TABLE)
        self._hosts = hosts
        self._apps = apps

    async def allowed(self, principal: str, right: Right, queue: str) -> bool:
        """Return whether no rule denies it."""
        rows = self._table.scan(KeyRange.only(principal), KeyRange.prefix(f"{right}:"))
        found = [_rule_from(row) async for row in rows]
        return not any(rule.effect is Effect.DENY and _fits(rule, queue) for rule in found)

    async def check(self, principal: str | None, right: Right, queue: str) -> None:
        """Raise `NotAllowed` if a rule denies it. The principal None may do everything."""
        if principal is not None and not await self.allowed(principal, right, queue):
            raise NotAllowed(principal, right, queue)

    async def set_rule(self, principal: str, right: str, queues: str, effect: str) -> AccessRule:
        """Add a rule, or change its effect. `Invalid`; `NoSuch` for an unknown application."""
        rule = _parsed(principal, right, queues, effect)
        kind, _, name = rule.principal.partition(":")
        if kind == "app":
            found = await self._apps.get(name)
            rule = msgspec.structs.replace(rule, principal=found.principal)
        properties = {"Queues": rule.queues, "Effect": rule.effect.value}
        await self._table.upsert(Entity(rule.principal, _row(rule), properties))
        await self._hosts.ring_bells("access")
        return rule

    async def remove_rule(self, principal: str, right: str, queues: str) -> None:
        """Remove a rule. `NoSuch`."""
        rule = _parsed(principal, right, queues, Effect.DENY)
        try:
            await self._table.delete(rule.principal, _row(rule))
        except NotFound as exc:
            raise NoSuch("rule", f"{principal} {right} {queues}") from exc
        await self._hosts.ring_bells("access")

    async def forget(self, principal: str) -> None:
        """Remove all rules of a principal."""
        rows = [row async for row in self._table.scan(KeyRange.only(principal))]
        for row in rows:
            with contextlib.suppress(NotFound):
                await self._table.delete(row.partition, row.row)

    async def rules(self) -> list[AccessRule]:
        """Return all rules, sorted by principal."""
        return [_rule_from(row) async for row in self._table.scan()]


def _fits(rule: AccessRule, queue: str) -> bool:
    wanted = segments(rule.queues)
    return segments(root_queue(queue))[: len(wanted)] == wanted


def _parsed(principal: str, right: str, queues: str, effect: str) -> AccessRule:
    who = one_line("principal", principal, longest=_LONGEST)
    kind, _, name = who.partition(":")
    if kind not in ("app", "key") or not name:
        raise Invalid("principal", f"must be app:/path or key:ID, not {who!r}")
    if right not in set(Right):
        raise Invalid("right", f"must be one of {', '.join(Right)}, not {right!r}")
    if effect not in set(Effect):
        raise Invalid("effect", f"must be one of {', '.join(Effect)}, not {effect!r}")
    path = one_line("queues", queues, longest=_LONGEST)
    clean = "/" + "/".join(part for part in path.split("/") if part)
    return AccessRule(who, Right(right), clean, Effect(effect))


def _row(rule: AccessRule) -> str:
    return f"{rule.right}:/{'/'.join(segments(rule.queues))}"


def _rule_from(entity: Entity) -> AccessRule:
    return AccessRule(
        principal=entity.partition,
        right=Right(entity.row.partition(":")[0]),
        queues=entities.read(entity, "Queues", str),
        effect=Effect(entities.read(entity, "Effect", str)),
    )


MASK = "●●●●●●"
"""Shown in place of a subscriber's GUID, which is a secret: anyone who has it can confirm or
unsubscribe its owner. Administrators and API keys with the scope `subscribers` see it."""

_GUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII)


def hide_guids(text: str) -> str:
    """Return the text with a mask in place of each GUID."""
    return _GUID.sub(MASK, text)


def hide_in_message(message: QueueMessage) -> QueueMessage:
    """Hide GUIDs in a message of `mail/confirm` (`GUID,LIST`) and its subqueues; messages of other
    queues belong to applications and stay as they are."""
    if root_queue(message.queue) != CONFIRM_QUEUE:
        return message
    return msgspec.structs.replace(
        message,
        body=hide_guids(message.body),
        properties={name: hide_guids(text) for name, text in message.properties.items()},
    )


def hide_in_history(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    """Hide GUIDs in what went wrong with a message of `mail/confirm`."""
    return [
        msgspec.structs.replace(
            each,
            event=hide_guids(each.event),
            error=hide_guids(each.error),
            traceback=hide_guids(each.traceback),
        )
        if root_queue(each.queue) == CONFIRM_QUEUE
        else each
        for each in entries
    ]
