"""Imports that were begun by an upload: they run in the background, and can be looked at.

What is known of a run is kept in this process only. A restart loses that, and no subscriber: the
same file, imported again, finishes what was interrupted.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Final, cast

from postroom.domain.lists import ListName
from postroom.errors import PostroomError
from postroom.services.imports import ImportReport, ImportService
from postroom.services.subscriber_files import RejectedLine, protected
from postroom.web.background import Background

_REMEMBERED: Final = 50
_AT_ONCE: Final = 2
_PIECE: Final = 256 * 1024


class ImportRun:
    """One import: how far it is, what it did, why it stopped."""

    def __init__(self, list_name: ListName, file_name: str, size: int) -> None:
        self.id = secrets.token_urlsafe(9)
        self.list_name = list_name
        self.file_name = file_name
        self.size = size
        self.started_at = datetime.now(UTC)
        self.done = 0
        self.report = ImportReport()
        self.is_running = True
        self.problem = ""
        self._rejected: IO[str] = TemporaryFile(  # noqa: SIM115 - `close` closes it
            "w+", encoding="utf-8", newline=""
        )
        self._writer = csv.writer(self._rejected)
        self._writer.writerow(("line", "email", "reason"))

    def note(self, done: int, report: ImportReport) -> None:
        self.done, self.report = max(self.done, done), report

    def reject(self, line: RejectedLine) -> None:
        self._writer.writerow((line.line, protected(line.email), protected(line.reason)))

    async def rejected_csv(self) -> AsyncIterator[bytes]:
        """Stream all lines that could not be used; to be read once the run has ended."""
        self._rejected.flush()
        with os.fdopen(os.dup(self._rejected.fileno()), "rb") as file:
            place = 0
            while piece := await asyncio.to_thread(os.pread, file.fileno(), _PIECE, place):
                place += len(piece)
                yield piece

    def close(self) -> None:
        self._rejected.close()


class ImportRuns:
    def __init__(self, imports: ImportService, background: Background) -> None:
        self._imports = imports
        self._background = background
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._runs: OrderedDict[str, ImportRun] = OrderedDict()

    def begin(
        self,
        list_name: ListName,
        file: BinaryIO,
        *,
        file_name: str,
        encoding: str | None,
        verified: bool,
        even_unsubscribed: bool = False,
    ) -> ImportRun:
        """Import a file that is ours from now on."""
        run = ImportRun(list_name, file_name, file.seek(0, io.SEEK_END))
        self._runs[run.id] = run
        while len(self._runs) > _REMEMBERED and not next(iter(self._runs.values())).is_running:
            self._runs.popitem(last=False)[1].close()
        self._background.start(
            self._work(run, file, encoding, verified, even_unsubscribed),
            f"import into the list {list_name}",
        )
        return run

    def find(self, list_name: str, identity: str) -> ImportRun | None:
        run = self._runs.get(identity)
        return run if run is not None and run.list_name == list_name else None

    def close(self) -> None:
        """Forget all runs; nothing may be under way any more."""
        while self._runs:
            self._runs.popitem()[1].close()

    async def _work(
        self,
        run: ImportRun,
        file: BinaryIO,
        encoding: str | None,
        verified: bool,
        even_unsubscribed: bool,
    ) -> None:
        try:
            async with self._turns:
                run.report = await self._imports.import_csv(
                    run.list_name,
                    file,
                    encoding=encoding,
                    verified=verified,
                    even_unsubscribed=even_unsubscribed,
                    progress=run.note,
                    on_rejected=run.reject,
                )
                run.done = run.size
        except PostroomError as exc:
            run.problem = str(exc)
        except BaseException:
            run.problem = "it was interrupted"
            raise
        finally:
            run.is_running = False
            file.close()


def kept_file(upload: BinaryIO) -> BinaryIO:
    """A copy of an upload that outlives its request; it blocks: use it in a thread."""
    copy = TemporaryFile()  # noqa: SIM115 - whoever gets it closes it
    upload.seek(0)
    while piece := upload.read(_PIECE):
        copy.write(piece)
    return cast(BinaryIO, copy)
