"""The bodies of messages: blobs, a new pair of them for each version of a message."""

from __future__ import annotations

import contextlib

from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.services import entities
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import NotFound, Store

_HTML, _TEXT = "htm", "txt"


class MessageBodies:
    def __init__(self, store: Store) -> None:
        self._blobs = store.container(entities.BODIES)

    async def read(self, message: Message) -> NewBodies:
        """Both, as they were given; None for one that the message does not have."""
        html = await self._read(message, _HTML) if message.has_html else None
        text = await self._read(message, _TEXT) if message.has_text else None
        return NewBodies(html, text)

    async def write(self, message: Message, bodies: NewBodies) -> None:
        """Under the message's version: those of other versions stay as they are."""
        for kind, body in ((_HTML, bodies.html), (_TEXT, bodies.text)):
            if body:
                await self._blobs.put(_name(message, kind), body.encode())

    async def delete(self, message: Message) -> None:
        """Those of this version. Can be repeated."""
        for kind, there in ((_HTML, message.has_html), (_TEXT, message.has_text)):
            if there:
                await self._delete(_name(message, kind))

    async def delete_all(self, ref: MessageRef) -> None:
        """Those of every version, also what an interrupted edit has left."""
        for blob in (await self._blobs.list(ref)).blobs:
            await self._delete(blob.name)

    async def _read(self, message: Message, kind: str) -> str:
        return (await self._blobs.read(_name(message, kind))).decode()

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._blobs.delete(name)


def _name(message: Message, kind: str) -> str:
    return entities.body_name(message.ref, message.body_version, kind)
