"""The logos on the sign-up pages of lists."""

from __future__ import annotations

import contextlib
import secrets

from postroom.domain.audience.images import parse_image
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Overtaken
from postroom.services import entities
from postroom.services.audience.lists import ListService
from postroom.storage import NotFound, Store


class LogoService:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._blobs = store.container(entities.LOGOS)
        self._lists = lists

    async def put(self, list_name: str, data: bytes, etag: str | None = None) -> MailingList:
        """Set the logo of a list. `Invalid`, `NoSuch`; with `etag`, `Overtaken`.

        The picture is stored before the list names it, and the old one is removed last: an
        interruption leaves a picture too many, never a list without its own.
        """
        image = parse_image(data)
        old = await self._lists.get(list_name)
        logo = f"{entities.logo_prefix(old.name)}{secrets.token_hex(8)}.{image.kind}"
        await self._blobs.put(logo, data)
        try:
            new = await self._lists.edit(old.name, logo=logo, etag=etag or old.etag)
        except Overtaken:
            await self._delete(logo)
            raise
        await self._delete(old.logo)
        return new

    async def remove(self, list_name: str, etag: str | None = None) -> MailingList:
        """Remove the logo of a list. `NoSuch`; with `etag`, `Overtaken`."""
        old = await self._lists.get(list_name)
        new = await self._lists.edit(old.name, logo="", etag=etag or old.etag)
        await self._delete(old.logo)
        return new

    async def read(self, mailing_list: MailingList) -> bytes | None:
        """Return the logo, or None."""
        if not mailing_list.logo:
            return None
        try:
            return await self._blobs.read(mailing_list.logo)
        except NotFound:
            return None  # just replaced

    async def _delete(self, logo: str) -> None:
        if logo:
            with contextlib.suppress(NotFound):
                await self._blobs.delete(logo)
