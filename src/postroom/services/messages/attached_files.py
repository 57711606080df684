"""The contents of attached files: blobs beside a message's bodies.

A blob is named by the message and the hash of its content. So it is stored once, however often the
message is saved, and all versions of a draft share it; it is deleted with the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postroom.domain.errors import Invalid
from postroom.domain.messages.attachments import Attachment
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.mail.attached_files import AttachedFile
from postroom.services import entities
from postroom.storage import Store


class AttachedFiles:
    def __init__(self, store: Store) -> None:
        self._blobs = store.container(entities.BODIES)

    async def put(self, ref: MessageRef, contents: Mapping[str, bytes]) -> None:
        """Store contents, given by their hashes. Can be repeated."""
        for digest, content in contents.items():
            if await self._blobs.info(_name(ref, digest)) is None:
                await self._blobs.put(_name(ref, digest), content)

    async def check(self, ref: MessageRef, attachments: Sequence[Attachment]) -> None:
        """Raise `Invalid` unless the content of each is stored, with this size."""
        for each in attachments:
            found = await self._blobs.info(_name(ref, each.hash))
            if found is None or found.size != each.size:
                raise Invalid("attachments", f"{each.name}: upload this file again")

    async def read(self, message: Message) -> tuple[AttachedFile, ...]:
        """Return the files of a message, in their order. `NotFound`."""
        return await self.load(message.ref, message.attachments)

    async def load(
        self, ref: MessageRef, attachments: Sequence[Attachment]
    ) -> tuple[AttachedFile, ...]:
        """Return files with their contents. `NotFound`."""
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
    return f"{ref}-{digest}.att"
