"""Mailing lists and their logos: create, find, edit, delete."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import msgspec

from postroom import clock
from postroom.domain.audience.lists.appearance import parse_image
from postroom.domain.audience.lists.lists import (
    ListName,
    MailingList,
    checked_properties,
    parse_list_name,
    parse_new_list_name,
)
from postroom.domain.errors import Exists, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import FINAL
from postroom.services import entities
from postroom.services.accounts.list_grants import ListGrants
from postroom.services.audience.files.runs.import_files import ImportFiles
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.concurrency import ignore_failure
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.published_messages import PublishedIndex
from postroom.storage import (
    AlreadyExists,
    Conflict,
    Delete,
    Entity,
    KeyRange,
    Merge,
    NotFound,
    StaleETag,
    Store,
)

_BATCH = 99  # rows that fit into one batch with the mark of their list
_PAIRS = 49  # with the list's mark they fill a batch


class ListSlice(msgspec.Struct, frozen=True):
    """Some lists in the order of their names; `next` continues.

    `being_deleted` names those whose deletion is not finished.
    """

    lists: list[MailingList]
    next: str | None
    being_deleted: list[ListName] = []


class ListService:
    def __init__(
        self,
        store: Store,
        messages: MessageRows,
        published: PublishedIndex,
        unsubscribes: Unsubscribes,
        foreign_ids: ForeignIds,
        grants: ListGrants,
    ) -> None:
        self._lists = store.table(entities.LISTS)
        self._index = store.table(entities.LIST_INDEX)
        self._logos = store.container(entities.LOGOS)
        self._imports = ImportFiles(store)
        self._unsubscribes = unsubscribes
        self._foreign_ids = foreign_ids
        self._published = published
        self._grants = grants
        self._messages = messages
        self._checking: dict[ListName, asyncio.Task[bool]] = {}

    async def create(
        self, name: str, description: str, from_address: str, **others: object
    ) -> MailingList:
        """Create a list; `others` are further `PROPERTIES`. `Invalid`, `Exists`."""
        given = {"description": description, "from_address": from_address, **others}
        new = MailingList(
            name=parse_new_list_name(name),
            created_at=clock.now(),
            **checked_properties(given),
        )
        # The index first: a list that is missing there could never be found.
        entry = Entity(entities.BY_NAME, new.name, {})
        await self._index.upsert(entry)
        etag = await self._insert(new)
        # And again: an earlier list of this name may have been deleted in between.
        await self._index.upsert(entry)
        return msgspec.structs.replace(new, etag=etag)

    async def get(self, name: str) -> MailingList:
        """Return a list. `NoSuch`."""
        found = await self._lists.get(parse_list_name(name), entities.LIST_ROW)
        if found is None or _is_being_deleted(found):
            raise NoSuch("list", name)
        return entities.list_from(found)

    async def check_exists(self, name: ListName) -> None:
        """Raise `NoSuch` unless there is a list of this name now. Callers of the same moment share
        one read, which begins after all of them have called."""
        checking = self._checking.get(name)
        if checking is None:
            checking = self._checking[name] = asyncio.create_task(self._exists(name))
            checking.add_done_callback(ignore_failure)  # all callers may have been cancelled
        if not await asyncio.shield(checking):
            raise NoSuch("list", name)

    async def _exists(self, name: ListName) -> bool:
        await asyncio.sleep(0)
        del self._checking[name]
        found = await self._lists.get(name, entities.LIST_ROW)
        return found is not None and not _is_being_deleted(found)

    async def slice(
        self, *, prefix: str = "", limit: int = 100, after: str | None = None
    ) -> ListSlice:
        """Return lists in the order of their names, all or those that begin with `prefix`."""
        result = await self._index.query(
            KeyRange.only(entities.BY_NAME), KeyRange.prefix(prefix), limit=limit, after=after
        )
        rows = await asyncio.gather(
            *(self._lists.get(entry.row, entities.LIST_ROW) for entry in result.entities)
        )
        found = [row for row in rows if row is not None]
        lists = [entities.list_from(row) for row in found if not _is_being_deleted(row)]
        leaving = [ListName(row.partition) for row in found if _is_being_deleted(row)]
        return ListSlice(lists, result.next, leaving)

    async def names(self, *, limit: int = 1000) -> list[ListName]:
        """Return the first names in order, with one query."""
        result = await self._index.query(KeyRange.only(entities.BY_NAME), limit=limit)
        return [ListName(entry.row) for entry in result.entities]

    async def all_names(self) -> AsyncIterator[ListName]:
        """Yield the names of all lists in order."""
        async for entry in self._index.scan(KeyRange.only(entities.BY_NAME)):
            yield ListName(entry.row)

    async def edit(self, name: str, *, etag: str | None = None, **changes: object) -> MailingList:
        """Change the `PROPERTIES` that are given (not None).

        With `etag`: `Overtaken` if another change was saved first. `logo` names a stored picture
        (`LogoService`), or empty.
        """
        old = await self.get(name)
        new = msgspec.structs.replace(old, **checked_properties(changes))
        try:
            saved = await self._lists.replace(entities.list_entity(new), etag or old.etag)
        except StaleETag as exc:
            raise Overtaken("list", name) from exc
        except NotFound as exc:
            raise NoSuch("list", name) from exc
        return msgspec.structs.replace(new, etag=saved)

    async def delete(self, name: str, etag: str | None = None) -> int:
        """Delete a list with its subscribers; return how many there were. `NotNow`, `NoSuch`.

        The list is marked first, and from then on it does not exist for anyone. Its rows are
        removed in batches; an interrupted deletion is finished by deleting the list again, or by
        creating one of the same name.
        """
        list_name = parse_list_name(name)
        found = await self._lists.get(list_name, entities.LIST_ROW)
        if found is None:
            raise NoSuch("list", name)
        if _is_being_deleted(found):
            return await self.finish_deletion(list_name, found.etag)
        await self.check_deletable(list_name)
        try:
            mark = await self._lists.merge(_mark(list_name), etag or found.etag)
        except StaleETag as exc:
            raise Overtaken("list", name) from exc
        except NotFound as exc:
            raise NoSuch("list", name) from exc
        return await self.finish_deletion(list_name, mark)

    async def finish_deletion(self, name: ListName, mark: str | None = None) -> int:
        """Remove all rows of a marked list, whose row has the ETag `mark`; that row comes last.

        Each batch writes the mark again, under its ETag. So a process that lags behind removes
        nothing from a new list of the same name.
        """
        removed = 0
        if mark is None:
            found = await self._lists.get(name, entities.LIST_ROW)
            mark = None if found is None else found.etag
        in_pairs = True
        while mark is not None:
            rows = await self._rows_to_remove(name, in_pairs)
            try:
                if not rows:
                    await self._remove_list(name, mark)
                    break
                deletions = [Delete(name, row) for row in rows]
                mark = (await self._lists.apply([Merge(_mark(name), mark), *deletions]))[0]
            except Conflict:
                # Another process deletes as well; or one row of a pair is missing.
                current = await self._find_mark(name)
                in_pairs = current != mark
                mark = current
                continue
            removed += sum(row.startswith(entities.EMAIL_PREFIX) for row in rows)
        return removed

    async def _rows_to_remove(self, name: ListName, in_pairs: bool) -> list[str]:
        """Return some rows of a list: subscribers with their look-up rows, then the others."""
        if in_pairs:
            found = await self._lists.query(
                KeyRange.only(name), KeyRange.prefix(entities.EMAIL_PREFIX), limit=_PAIRS
            )
            guids = [entities.read(e, "SubscriberGUID", str) for e in found.entities]
            pairs = zip(found.entities, guids, strict=True)
            if guids:
                return [row for e, guid in pairs for row in (e.row, entities.GUID_PREFIX + guid)]
        result = await self._lists.query(KeyRange.only(name), limit=_BATCH)
        return [e.row for e in result.entities if e.row != entities.LIST_ROW]

    async def _remove_list(self, name: ListName, mark: str) -> None:
        """Remove logos, rights and index entry if they belong to the marked list; then its row.

        Unsubscribes are removed when the list has no subscribers: no more can follow.
        """

        async def are_ours() -> bool:
            return await self._find_mark(name) == mark

        await self._unsubscribes.remove_all(name, are_ours)
        await self._foreign_ids.remove_all(name, are_ours)
        if await are_ours():
            await self._published.remove_all(name)
            await self._imports.remove_all(name)
            await self._grants.forget_list(name)
        entry = await self._index.get(entities.BY_NAME, name)
        if entry is not None and await self._find_mark(name) == mark:
            for logo in (await self._logos.list(entities.logo_prefix(name))).blobs:
                with contextlib.suppress(NotFound):
                    await self._logos.delete(logo.name)
            with contextlib.suppress(Conflict):  # a new list of this name has just been created
                await self._index.delete(entry.partition, entry.row, entry.etag)
        await self._lists.delete(name, entities.LIST_ROW, mark)

    async def _find_mark(self, name: ListName) -> str | None:
        """Return the ETag of a list that is being deleted, or None."""
        found = await self._lists.get(name, entities.LIST_ROW)
        return None if found is None or not _is_being_deleted(found) else found.etag

    async def _insert(self, new: MailingList) -> str:
        """Insert a list, after finishing an interrupted deletion of the same name."""
        for _ in range(2):
            try:
                return await self._lists.insert(entities.list_entity(new))
            except AlreadyExists:
                mark = await self._find_mark(new.name)
                if mark is not None:
                    await self.finish_deletion(new.name, mark)
        raise Exists("list", new.name)

    async def check_deletable(self, name: ListName) -> None:
        """Raise `NotNow` while a message that is not finished goes to the list or excludes it."""
        async for message in self._messages.open_messages():
            if message.status in FINAL:
                continue
            if name in message.exclude_lists:
                raise NotNow(
                    f"the list {name!r} cannot be deleted while the message {message.ref}, which"
                    f" excludes it, is {message.status}: change or cancel the message, or wait"
                    " until it is sent"
                )
            if name in message.lists:
                raise NotNow(
                    f"the list {name!r} cannot be deleted while its message {message.ref} is"
                    f" {message.status}: cancel the message, or wait until it is sent"
                )


def _mark(name: ListName) -> Entity:
    return Entity(name, entities.LIST_ROW, {"Deleting": True})


def _is_being_deleted(entity: Entity) -> bool:
    return entity.properties.get("Deleting") is True


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
