"""The files of imports: blobs of the container `imports`.

| blob               | holds                                                                       |
|--------------------|-----------------------------------------------------------------------------|
| `state/LIST/ID`    | JSON of an `ImportState`, with the first rejected lines only                |
| `file/LIST/ID`     | the uploaded file, until it is imported                                     |
| `rejected/LIST/ID` | all rejected lines of the last check or import as CSV, if there are any     |

The state is written first and deleted last, so no file is ever left without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Collection
from functools import partial
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Final, cast

import msgspec

from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.lists.lists import ListName
from postroom.services.audience.files.runs.erased_lines import (
    Mentions,
    lines_without,
    report_without,
)
from postroom.services.audience.files.runs.import_states import ImportState
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import BlobInfo, Conflict, NotFound, Store

CONTAINER: Final = "imports"
ERRORS_KEPT: Final = 50
_STATE, _FILE, _REJECTED = "state/", "file/", "rejected/"
_IDENTITY: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_PIECE: Final = 256 * 1024
_AT_ONCE: Final = 1000


class ImportFiles:
    def __init__(self, store: Store) -> None:
        self._blobs = store.container(CONTAINER)
        self._known: dict[str, ImportState] = {}
        """States by the names of their blobs, as they were listed last."""

    # -- states ------------------------------------------------------------------------------

    async def add(self, state: ImportState) -> ImportState:
        etag = await self._blobs.put(_STATE + _name(state), _packed(state), new=True)
        return msgspec.structs.replace(state, etag=etag)

    async def save(self, state: ImportState) -> ImportState:
        """Replace a state under its ETag. `Conflict` if another process has changed it."""
        try:
            etag = await self._blobs.put(_STATE + _name(state), _packed(state), etag=state.etag)
        except NotFound as exc:  # it was deleted
            raise Conflict(str(exc)) from exc
        return msgspec.structs.replace(state, etag=etag)

    async def find(self, list_name: ListName, identity: str) -> ImportState | None:
        if not _IDENTITY.fullmatch(identity):
            return None
        name = f"{_STATE}{list_name}/{identity}"

        async def attempt() -> ImportState | None:
            return await self._read(await self._blobs.info(name))

        return await retry_on_conflict(attempt, "import", identity)  # replaced while it was read

    async def all(self) -> list[ImportState]:
        """Return all imports that are kept: a few dozen."""
        listing = await self._blobs.list(_STATE, limit=_AT_ONCE)
        known: dict[str, ImportState] = {}  # its own: others may list them at the same time
        for info in listing.blobs:
            state = self._known.get(info.name)
            if state is None or state.etag != info.etag:
                identity = info.name.rpartition("/")[2]
                state = await retry_on_conflict(partial(self._read, info), "import", identity)
            if state is not None:
                known[info.name] = state
        self._known = known
        return list(known.values())

    async def _read(self, info: BlobInfo | None) -> ImportState | None:
        if info is None:
            return None
        try:
            data = await self._blobs.read(info.name)
        except NotFound:
            return None
        # If it has been replaced in between, the ETag is an old one, and saving it is a conflict.
        state = msgspec.json.decode(data, type=ImportState)
        return msgspec.structs.replace(state, etag=info.etag)

    # -- files -------------------------------------------------------------------------------

    async def keep_file(self, state: ImportState, file: BinaryIO) -> None:
        await self._blobs.put(_FILE + _name(state), _pieces(file))

    async def fetch_file(self, state: ImportState) -> BinaryIO:
        """Return a copy of the uploaded file, which the caller closes. `NotFound`."""
        return await self._fetch(_FILE + _name(state))

    async def _fetch(self, name: str) -> BinaryIO:
        copy = TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            async for piece in self._blobs.stream(name):
                await asyncio.to_thread(copy.write, piece)
        except BaseException:
            copy.close()
            raise
        return cast(BinaryIO, copy)

    async def remove_file(self, state: ImportState) -> None:
        await self._delete(_FILE + _name(state))

    async def keep_rejected(self, state: ImportState, lines: IO[str] | None) -> None:
        """Keep the rejected lines; with None, remove those of an earlier check."""
        name = _REJECTED + _name(state)
        if lines is None:
            await self._delete(name)
            return
        lines.flush()
        await self._blobs.put(name, _pieces(lines.buffer))  # type: ignore[attr-defined]

    async def rejected(self, state: ImportState) -> AsyncIterator[bytes]:
        """Yield the rejected lines; nothing if there are none."""
        with contextlib.suppress(NotFound):
            async for piece in self._blobs.stream(_REJECTED + _name(state)):
                yield piece

    async def erase(self, keys: Collection[AddressKey]) -> None:
        """Remove addresses, and what lines say about them, from the reports of imports that have
        ended. Can be repeated.

        Files that wait for a confirmation stay, for seven days at most.
        """
        mentions = Mentions(keys)
        for each in await self.all():
            if not each.is_running:
                erase = partial(self._erase_one, each.list_name, each.id, mentions)
                await retry_on_conflict(erase, "import", each.id)

    async def _erase_one(self, list_name: ListName, identity: str, mentions: Mentions) -> None:
        state = await self.find(list_name, identity)
        if state is None or state.is_running:
            return
        with contextlib.suppress(NotFound), await self._fetch(_REJECTED + _name(state)) as lines:
            lines.seek(0)
            if (left := await asyncio.to_thread(lines_without, lines, mentions)) is not None:
                with left:
                    await self.keep_rejected(state, left)
        after = msgspec.structs.replace(
            state,
            report=report_without(state.report, mentions),
            before=state.before and report_without(state.before, mentions),
        )
        if after != state:
            await self.save(after)

    async def remove(self, state: ImportState) -> None:
        """Remove everything about an import. Can be repeated."""
        for kind in (_FILE, _REJECTED, _STATE):
            await self._delete(kind + _name(state))

    async def remove_all(self, list_name: ListName) -> None:
        """Remove all imports into a list. Can be repeated."""
        for kind in (_FILE, _REJECTED, _STATE):
            for each in (await self._blobs.list(f"{kind}{list_name}/", limit=_AT_ONCE)).blobs:
                await self._delete(each.name)

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._blobs.delete(name)


def _name(state: ImportState) -> str:
    return f"{state.list_name}/{state.id}"


def _packed(state: ImportState) -> bytes:
    errors = state.report.errors[:ERRORS_KEPT]
    report = msgspec.structs.replace(state.report, errors=errors)
    before = state.before and msgspec.structs.replace(state.before, errors=[])
    return msgspec.json.encode(
        msgspec.structs.replace(state, report=report, before=before, etag="")
    )


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    file.seek(0)
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece
