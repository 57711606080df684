"""Earlier versions of drafts: the last 20, which can be compared and restored.

| table            | partition | row  | holds                                                     |
|------------------|-----------|------|-----------------------------------------------------------|
| `messageversion` | ref       | time | a draft as it was when it was saved at this time          |

A draft saves itself every few seconds, so not every save is a version: one lasts for some minutes
of work by the same person. What someone else saved is always a separate version.

A version owns the blobs of its bodies. Its row is written before the draft moves on, and its blobs
are deleted before its row. Whatever interrupts this, a row without bodies is removed by the process
that wrote it or by the one that deletes the bodies.
"""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.services import entities
from postroom.services.messages.message_contents import MessageBodies
from postroom.services.messages.message_entities import message_entity, message_from
from postroom.storage import Entity, KeyRange, NotFound, Store

KEPT: Final = 20
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z")
SPAN: Final = timedelta(minutes=5)
"""A version ends after this time, so 20 of them are nearly two hours of writing."""


class MessageVersions:
    def __init__(self, store: Store, bodies: MessageBodies) -> None:
        self._rows = store.table(entities.VERSIONS)
        self._bodies = bodies

    async def all(self, ref: MessageRef) -> list[Message]:
        """Return the earlier versions of a draft, newest first."""
        found = await self._rows.query(KeyRange.only(ref))
        return [_version(each) for each in reversed(found.entities)]

    async def get(self, ref: MessageRef, name: str) -> Message:
        """Return one of them by the name of its row. `NoSuch`."""
        found = await self._rows.get(ref, name) if _NAME.fullmatch(name) else None
        if found is None:
            raise NoSuch("version", name)
        return _version(found)

    async def keep(self, draft: Message) -> None:
        """Keep a draft as it is now, and only the newest versions."""
        await self._rows.upsert(_entity(draft))
        for old in (await self.all(draft.ref))[KEPT:]:
            await self.drop(old)

    async def drop(self, draft: Message) -> None:
        """Delete the bodies of a draft that was replaced, and its row if someone kept it. Can be
        repeated."""
        await self._bodies.delete(draft)
        with contextlib.suppress(NotFound):
            await self._rows.delete(draft.ref, version_name(draft))

    async def drop_if_bare(self, draft: Message) -> None:
        """Delete a row that was kept just when another save deleted its bodies."""
        if not await self._bodies.has(draft):
            await self.drop(draft)

    async def delete_all(self, ref: MessageRef) -> None:
        """Delete the rows of all versions; the message and its bodies are deleted."""
        for each in (await self._rows.query(KeyRange.only(ref))).entities:
            with contextlib.suppress(NotFound):
                await self._rows.delete(each.partition, each.row)


def version_name(draft: Message) -> str:
    """Return the name of a version: when it was saved."""
    return f"{(draft.edited_at or draft.created_at).astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"


def is_over(draft: Message, now: datetime, who: str) -> bool:
    """Return whether a save by this person begins another version."""
    began = draft.version_at or draft.created_at
    return draft.edited_by != who or not timedelta(0) <= now - began < SPAN


def _entity(draft: Message) -> Entity:
    properties = message_entity(draft).properties
    return Entity(draft.ref, version_name(draft), properties)


def _version(entity: Entity) -> Message:
    row = entities.message_row(MessageRef(entity.partition))
    return message_from(Entity(entity.partition, row, entity.properties, entity.etag))
