"""The tables of tracked links: the target of each number, for each version of a body.

A table is a blob next to the body: `REF-VERSION.links`. It is written before the first email of the
message is composed and never changes, so that links keep their meaning.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import cached_property
from typing import Final

import msgspec

from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.encryption import Keyring
from postroom.mail.tracking.link_tracking import LinkTracking, link_table, tracking_of
from postroom.mail.tracking.tracking_tokens import PURPOSE, TrackingTokens
from postroom.services import entities
from postroom.storage import AlreadyExists, NotFound, Store

_KIND: Final = "links"


class LinkTables:
    def __init__(self, store: Store, keyring: Keyring) -> None:
        self._blobs = store.container(entities.BODIES)
        self._keyring = keyring

    @cached_property
    def tokens(self) -> TrackingTokens:
        """The tokens in links. The secret key is loaded when they are first needed."""
        return TrackingTokens(self._keyring.signing_keys(PURPOSE))

    async def tracking(self, message: Message, html: str, base_url: str) -> LinkTracking | None:
        """Return how the links of a message are tracked; None if they are not."""
        if message.track in (None, Track.OFF):
            return None
        table = await self.prepare(message, html, base_url)
        tokens = self.tokens.of_message(message.ref)
        is_personal = message.track is Track.PERSONAL
        return tracking_of(base_url, tokens.of_everybody, table, tokens if is_personal else None)

    async def read(self, message: Message) -> tuple[str, ...] | None:
        """Return the targets of a message's links by their numbers; None if it tracks none."""
        try:
            stored = await self._blobs.read(_name(message))
        except NotFound:
            return None
        return msgspec.json.decode(stored, type=tuple[str, ...])

    async def prepare(self, message: Message, html: str, base_url: str) -> tuple[str, ...]:
        """Return the table of a message, which is made from its HTML if there is none yet."""
        found = await self.read(message)
        if found is not None:
            return found
        table = await asyncio.to_thread(link_table, html, base_url)
        with contextlib.suppress(AlreadyExists):  # another sender made the same one
            await self._blobs.put(_name(message), msgspec.json.encode(table), new=True)
        return await self.read(message) or table


def _name(message: Message) -> str:
    return entities.body_name(message.ref, message.body_version, _KIND)
