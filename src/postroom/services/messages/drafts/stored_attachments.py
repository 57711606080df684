"""The contents of attached files: blobs next to a message's bodies.

A blob is named by the message and the hash of its content. So it is stored once, however often the
message is saved, and all versions of a draft share it; it is deleted with the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from postroom.domain.errors import Invalid
from postroom.domain.messages.attachments import LARGEST_IN_TOTAL, Attachment
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.domain.units import show_size
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.services import entities
from postroom.storage import Store

MOST_UPLOADED: Final = 10 * LARGEST_IN_TOTAL
"""Bytes of all files that were ever attached to a message and are still stored."""

_ENDING: Final = ".att"


class AttachedFiles:
    def __init__(self, store: Store) -> None:
        self._blobs = store.container(entities.BODIES)

    async def put(self, ref: MessageRef, contents: Mapping[str, bytes]) -> None:
        """Store contents, given by their hashes. Can be repeated. `Invalid` if too much has been
        uploaded for this message: files that it no longer has still belong to its versions."""
        new = {
            digest: content
            for digest, content in contents.items()
            if await self._blobs.info(_name(ref, digest)) is None
        }
        if not new:
            return
        stored = await self._blobs.list(f"{ref}-")
        total = sum(each.size for each in stored.blobs if each.name.endswith(_ENDING))
        total += sum(map(len, new.values()))
        if total > MOST_UPLOADED:
            limit = show_size(MOST_UPLOADED)
            problem = f"must have at most {limit} of uploads per message, removed ones included"
            raise Invalid("attachments", f"{problem}: duplicate the message and continue there")
        for digest, content in new.items():
            await self._blobs.put(_name(ref, digest), content)

    async def check(self, ref: MessageRef, attachments: Sequence[Attachment]) -> None:
        """Raise `Invalid` unless the content of each is stored, with this size."""
        for each in attachments:
            found = await self._blobs.info(_name(ref, each.hash))
            if found is None or found.size != each.size:
                raise Invalid("attachments", f"{each.name}: upload this file again")

    async def read(
        self, ref: MessageRef, attachments: Sequence[Attachment]
    ) -> tuple[AttachedFile, ...]:
        """Return attached files of a message with their contents, in this order. `NotFound`."""
        found = [
            AttachedFile(each.name, each.type, await self._blobs.read(_name(ref, each.hash)))
            for each in attachments
        ]
        return tuple(found)

    async def contents(self, message: Message) -> dict[str, bytes]:
        """Return the contents of a message's files by their hashes. `NotFound`."""
        return {
            each.hash: await self._blobs.read(_name(message.ref, each.hash))
            for each in message.attachments
        }


def _name(ref: MessageRef, digest: str) -> str:
    return f"{ref}-{digest}{_ENDING}"
