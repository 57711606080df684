"""Pictures: upload, find, describe, delete.

| table   | partition | row            | holds                                                    |
|---------|-----------|----------------|----------------------------------------------------------|
| `media` | `picture` | time:TIME,HASH | a picture; TIME counts down, so that the newest is first |
| `media` | `picture` | hash:HASH      | its look-up row, with the key of the other               |
| `media` | `use`     |                | see `picture_uses.py`                                    |

Both rows are in one partition, so that they are written in one batch: pictures are few, and their
bytes are blobs. The blob in the container `media` is written before the rows. A picture that is
being deleted is marked, loses its blob, then its rows. So a picture with rows has its blob, unless
it is marked; what an interruption leaves is removed by `clean_up`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pictures import (
    Picture,
    PictureHash,
    PictureKind,
    checked_alt,
    media_in,
    name_from_file,
    parse_hash,
)
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.drafts.message_versions import MessageVersions
from postroom.services.messages.drafts.templates import TemplateService
from postroom.services.messages.media import picture_uses
from postroom.services.messages.media.picture_files import EncodedPicture, encode_again
from postroom.services.messages.media.picture_uses import PictureUse, PictureUses
from postroom.services.messages.message_contents import MessageBodies, pictures_in
from postroom.services.messages.message_rows import MessageRows
from postroom.services.row_ranges import named_row
from postroom.storage import (
    BlobInfo,
    Conflict,
    Delete,
    Entity,
    Insert,
    KeyRange,
    NotFound,
    Store,
    eq,
)

_PARTITION: Final = "picture"
_BY_TIME, _BY_HASH = "time:", "hash:"
_DELETING: Final = "Deleting"
_READ_AT_ONCE: Final = 1000
_MOST_SEARCHED: Final = 5000
"""Pictures that one search looks at; another call continues after them."""
_USES_NAMED: Final = 3
_LEFT_ALONE: Final = timedelta(hours=1)
"""A blob without rows belongs to an upload that is in progress, until it has this age."""


class PictureSlice(msgspec.Struct, frozen=True):
    """Some pictures, newest first; `next` continues after the last one."""

    pictures: list[Picture]
    next: str | None


Sees = Callable[[Sequence[ListName]], bool]
"""Whether someone may know about what is for these lists."""


class UsedIn(msgspec.Struct, frozen=True):
    """A message, a template or a list that uses a picture: `name` is a message's reference, `title`
    its subject."""

    kind: str
    name: str
    title: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.title!r} ({self.name})"


class PictureService:
    def __init__(
        self,
        store: Store,
        uses: PictureUses,
        message_rows: MessageRows,
        bodies: MessageBodies,
        versions: MessageVersions,
        templates: TemplateService,
    ) -> None:
        self._table = store.table(entities.MEDIA)
        self._blobs = store.container(entities.MEDIA)
        self._uses = uses
        self._message_rows = message_rows
        self._templates = templates
        self._bodies = bodies
        self._versions = versions
        self._lists = store.table(entities.LISTS)
        # One at a time: a picture of many pixels takes much memory.
        self._decoding = asyncio.Semaphore(1)

    # -- reading -----------------------------------------------------------------------------

    async def get(self, name: str) -> Picture:
        """Return a picture by its hash. `NoSuch`."""
        found = await self._find(parse_hash(name))
        if found is None or found.properties[_DELETING] is True:
            raise NoSuch("picture", name)
        return _picture(found)

    async def slice(
        self, *, search: str = "", limit: int = 100, after: str | None = None
    ) -> PictureSlice:
        """Return pictures, newest first, whose name or alternative text contains `search` in upper
        or lower case. There may be fewer than `limit` and still more to come."""
        if after is not None and not after.startswith(_BY_TIME):
            raise Invalid("after", "must be the 'next' of an earlier response of this collection")
        wanted = search.strip().casefold()
        found: list[Picture] = []
        seen = 0
        while seen < _MOST_SEARCHED:
            most = _READ_AT_ONCE if wanted else limit - len(found) + 1
            rows = await self._rows(after, min(most, _READ_AT_ONCE))
            for entity in rows:
                picture = _picture(entity)
                if wanted in picture.name.casefold() or wanted in picture.alt.casefold():
                    if len(found) == limit:
                        return PictureSlice(found, after)
                    found.append(picture)
                after = entity.row
            if len(rows) < min(most, _READ_AT_ONCE):
                return PictureSlice(found, None)
            seen += len(rows)
        return PictureSlice(found, after)

    async def blob(self, file_name: str) -> BlobInfo | None:
        """Return what is known of a picture's bytes, or None if there is no such picture."""
        return await self._blobs.info(file_name)

    def stream(self, file_name: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a picture. `NotFound`."""
        return self._blobs.stream(file_name)

    async def uses(
        self, picture: Picture, *, most: int = 50, sees: Sees | None = None
    ) -> list[UsedIn]:
        """Return up to `most` lists, messages, the oldest first, and templates that use a picture;
        with `sees`, only those for lists that it accepts."""
        found: list[UsedIn] = []
        async for use in self._uses.find(picture.hash):
            title, pictures, lists = await self._looked_up(use)
            if picture.hash in pictures or use.is_settling:
                is_template = use.kind == picture_uses.TEMPLATE
                if sees is None or is_template or (lists is not None and sees(lists)):
                    found.append(UsedIn(use.kind, use.name, title))
            else:
                await self._uses.forget(use)
            if len(found) == most:
                break
        return found

    async def uses_of(
        self, pictures: Sequence[Picture], *, most: int, sees: Sees | None = None
    ) -> dict[PictureHash, list[UsedIn]]:
        """Return up to `most` uses for each of some pictures."""
        found = await asyncio.gather(*(self.uses(each, most=most, sees=sees) for each in pictures))
        return {each.hash: uses for each, uses in zip(pictures, found, strict=True)}

    async def check_unused(self, picture: Picture) -> None:
        """Raise `NotNow`, which says where, if a picture is used."""
        uses = await self.uses(picture, most=_USES_NAMED + 1)
        if not uses:
            return
        named = ", ".join(map(str, uses[:_USES_NAMED]))
        more = " and others" if len(uses) > _USES_NAMED else ""
        raise NotNow(f"the picture {picture.name!r} cannot be deleted: it is used in {named}{more}")

    # -- changing ----------------------------------------------------------------------------

    async def upload(
        self, data: bytes, file_name: str, alt: str = "", *, by: str
    ) -> tuple[Picture, bool]:
        """Store a picture, encoded again; return it, and whether it is new. The same one is stored
        once and keeps its name. `Invalid`."""
        alt = checked_alt(alt)
        async with self._decoding:
            encoded = await asyncio.to_thread(encode_again, data)
        picture = Picture(
            hash=encoded.hash,
            kind=encoded.kind,
            name=name_from_file(file_name),
            alt=alt,
            size=len(encoded.data),
            width=encoded.width,
            height=encoded.height,
            is_animated=encoded.is_animated,
            uploaded_at=clock.now(),
            uploaded_by=by,
        )
        return await retry_on_conflict(
            lambda: self._store(picture, encoded), "picture", picture.name
        )

    async def describe(self, name: str, alt: str, etag: str | None = None) -> Picture:
        """Change the alternative text of a picture. `NoSuch`, `Invalid`, `Overtaken`."""
        alt = checked_alt(alt)
        picture = await self.get(name)
        if etag is not None and etag != picture.etag:
            raise Overtaken("picture", picture.name)
        row = _row(picture)
        try:
            saved = await self._table.merge(Entity(_PARTITION, row, {"Alt": alt}), picture.etag)
        except Conflict as exc:
            raise Overtaken("picture", picture.name) from exc
        return msgspec.structs.replace(picture, alt=alt, etag=saved)

    async def delete(self, name: str) -> Picture:
        """Delete a picture; return what it was. `NoSuch`; `NotNow` if it is used."""
        picture = await self.get(name)
        await self.check_unused(picture)
        marked = Entity(_PARTITION, _row(picture), {_DELETING: True})
        try:
            await self._table.merge(marked, picture.etag)
        except Conflict as exc:
            raise Overtaken("picture", picture.name) from exc
        await self._finish_deleting(picture)
        return picture

    async def clean_up(self) -> int:
        """Remove what interrupted uploads and deletions left; return how many blobs and rows."""
        removed = 0
        async for row in self._table.scan(
            KeyRange.only(_PARTITION), KeyRange.prefix(_BY_TIME), where=eq(_DELETING, True)
        ):
            with contextlib.suppress(NotNow, NotFound):
                await self._finish_deleting(_picture(row))
                removed += 1
        return removed + await self._remove_blobs_without_rows()

    # -- parts -------------------------------------------------------------------------------

    async def _store(self, picture: Picture, encoded: EncodedPicture) -> tuple[Picture, bool]:
        existing = await self._find(picture.hash)
        if existing is not None and existing.properties[_DELETING] is not True:
            return _picture(existing), False
        if existing is not None:
            with contextlib.suppress(NotNow):
                await self._finish_deleting(_picture(existing))
            raise Overtaken("picture", picture.name)  # look again
        await self._blobs.put(picture.file_name, encoded.data)
        entity = _entity(picture)
        lookup = Entity(_PARTITION, _BY_HASH + picture.hash, {"Row": entity.row})
        _, etag = await self._table.apply([Insert(lookup), Insert(entity)])
        if await self._blobs.info(picture.file_name) is None:
            # Someone uploaded and deleted the same picture since it was put.
            await self._blobs.put(picture.file_name, encoded.data)
        return msgspec.structs.replace(picture, etag=etag), True

    async def _finish_deleting(self, picture: Picture) -> None:
        """Delete a picture that is marked, or unmark it if a message has come to use it."""
        row = _row(picture)
        try:
            await self.check_unused(picture)
        except NotNow:
            await self._table.merge(Entity(_PARTITION, row, {_DELETING: False}))
            raise
        with contextlib.suppress(NotFound):
            await self._blobs.delete(picture.file_name)
        with contextlib.suppress(NotFound):  # someone else has finished it
            await self._table.apply(
                [Delete(_PARTITION, _BY_HASH + picture.hash), Delete(_PARTITION, row)]
            )

    async def _find(self, picture: PictureHash) -> Entity | None:
        lookup = await self._table.get(_PARTITION, _BY_HASH + picture)
        if lookup is None:
            return None
        return await self._table.get(_PARTITION, entities.read(lookup, "Row", str))

    async def _rows(self, after: str | None, limit: int) -> list[Entity]:
        every = KeyRange.prefix(_BY_TIME)
        start = every.start if after is None else entities.key_after(after)
        found = await self._table.query(
            KeyRange.only(_PARTITION),
            KeyRange(start, every.stop),
            where=eq(_DELETING, False),
            limit=limit,
        )
        return found.entities

    async def _looked_up(
        self, use: PictureUse
    ) -> tuple[str, frozenset[PictureHash], Sequence[ListName] | None]:
        """Return the title of a message, template or list, the pictures that it shows now, and the
        lists that it is for, if they are known."""
        try:
            match use.kind:
                case picture_uses.TEMPLATE:
                    whole = await self._templates.get(use.name)
                    return whole.template.title, media_in(whole.layout.source), None
                case picture_uses.LIST:
                    return await self._of_list(ListName(use.name))
            message = await self._message_rows.get(use.name)
        except NoSuch:
            return "", frozenset(), None
        pictures = await self._shown_by(message)
        if use.picture not in pictures:
            for earlier in await self._versions.all(message.ref):
                pictures |= await self._shown_by(earlier)
        return message.subject, pictures, message.all_lists

    async def _shown_by(self, version: Message) -> frozenset[PictureHash]:
        try:
            return pictures_in(await self._bodies.read(version))
        except NotFound:  # edited or deleted in the meantime
            return frozenset()

    async def _of_list(
        self, name: ListName
    ) -> tuple[str, frozenset[PictureHash], Sequence[ListName] | None]:
        """Return what the list's own emails show."""
        found = await self._lists.get(name, entities.LIST_ROW)
        if found is None:
            return "", frozenset(), None
        mailing_list = entities.list_from(found)
        texts = [mailing_list.confirmation_emails, mailing_list.welcome_emails]
        return f"Emails of {name}", frozenset[PictureHash]().union(*map(media_in, texts)), (name,)

    async def _remove_blobs_without_rows(self) -> int:
        lookups = self._table.scan(KeyRange.only(_PARTITION), KeyRange.prefix(_BY_HASH))
        known = {each.row.removeprefix(_BY_HASH) async for each in lookups}
        removed = 0
        after: str | None = None
        while True:
            listing = await self._blobs.list(after=after)
            for blob in listing.blobs:
                is_old = clock.now() - blob.modified_at > _LEFT_ALONE
                if is_old and blob.name.partition(".")[0] not in known:
                    # Under its ETag: an upload of the same picture in the meantime keeps its blob.
                    with contextlib.suppress(Conflict):
                        await self._blobs.delete(blob.name, blob.etag)
                        removed += 1
            if listing.next is None:
                return removed
            after = listing.next


def _row(picture: Picture) -> str:
    return _BY_TIME + named_row(picture.uploaded_at, picture.hash)


def _entity(picture: Picture) -> Entity:
    return Entity(
        _PARTITION,
        _row(picture),
        {
            "Name": picture.name,
            "Alt": picture.alt,
            "Kind": picture.kind.value,
            "Size": picture.size,
            "Width": picture.width,
            "Height": picture.height,
            "Animated": picture.is_animated,
            "UploadedAt": picture.uploaded_at,
            "UploadedBy": picture.uploaded_by,
            _DELETING: False,
        },
    )


def _picture(entity: Entity) -> Picture:
    return Picture(
        hash=PictureHash(entity.row.rpartition(",")[2]),
        kind=PictureKind(entities.read(entity, "Kind", str)),
        name=entities.read(entity, "Name", str),
        alt=entities.read(entity, "Alt", str),
        size=entities.read(entity, "Size", int),
        width=entities.read(entity, "Width", int),
        height=entities.read(entity, "Height", int),
        is_animated=entities.read(entity, "Animated", bool),
        uploaded_at=entities.read(entity, "UploadedAt", datetime),
        uploaded_by=entities.read(entity, "UploadedBy", str),
        etag=entity.etag,
    )
