"""Background tasks of the web server, which continue after their request: imports of uploaded
files, and redrives."""

from __future__ import annotations

import asyncio
import csv
import io
import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from enum import StrEnum
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, Final, TypeVar, cast

import msgspec

from postroom.domain.audience.lists import ListName
from postroom.domain.errors import Invalid, NotNow
from postroom.errors import PostroomError
from postroom.services.audience.files.cells import protected
from postroom.services.audience.files.field_columns import DateOrder
from postroom.services.audience.files.import_report import Existing, ImportReport, RejectedLine
from postroom.services.audience.files.imports import ImportService
from postroom.services.queues.delivery import QueueService

log = logging.getLogger(__name__)
T = TypeVar("T")
_REMEMBERED: Final = 50
_FILES_KEPT: Final = 10  # waiting for confirmation; each may have 200 MB
_AT_ONCE: Final = 2
_PIECE: Final = 256 * 1024
_VERBS: Final = ("does ", "has ", "names ", "points ", "returned ")

ReadFile = Callable[[Callable[[int, int], None]], Awaitable[BinaryIO]]
"""Reads subscribers from another tool into a file; reports how many were read, and of how many."""


class Background:
    """Tasks that end with the server; each can be interrupted at any time and repeated."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], what: str) -> asyncio.Task[T]:
        """Start a task; a failure is logged as `what`."""
        task = asyncio.create_task(work, name=what)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        if isinstance(failure, PostroomError):
            log.warning("%s: %s", task.get_name(), failure)
        else:
            log.error("%s failed", task.get_name(), exc_info=failure)

    async def stop(self) -> None:
        """Cancel all tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class RedriveProgress(msgspec.Struct):
    """The progress of a redrive, and its result."""

    queue: str
    moved: int = 0
    is_over: bool = False
    problem: str = ""


class Redrives:
    """Redrives of this server. One that ends with the server is completed by starting it again."""

    def __init__(self, queues: QueueService, background: Background) -> None:
        self._queues = queues
        self._background = background
        self._latest: dict[str, RedriveProgress] = {}

    def start(self, queue: str, *, rate: float | None = None, source: str | None = None) -> None:
        """Move all messages of a subqueue back, at most `rate` per second, or those that the
        queue rejected to `source`. `Invalid`, `NotNow`."""
        self._queues.check_redrive(queue, rate, source)
        latest = self._latest.get(queue)
        if latest is not None and not latest.is_over:
            raise NotNow(f"messages of {queue} are already being redriven: wait until that is done")
        progress = self._latest[queue] = RedriveProgress(queue)
        self._background.start(self._redrive(progress, rate, source), f"redrive of {queue}")

    def latest(self, queue: str) -> RedriveProgress | None:
        """Return the latest redrive of the queue."""
        return self._latest.get(queue)

    async def _redrive(
        self, progress: RedriveProgress, rate: float | None, source: str | None
    ) -> None:
        def moved(count: int) -> None:
            progress.moved = count

        try:
            await self._queues.redrive(progress.queue, rate=rate, source=source, progress=moved)
        except PostroomError as exc:
            progress.problem = str(exc)
            raise
        finally:
            progress.is_over = True


class Stage(StrEnum):
    READING = "reading"
    CHECKING = "checking"
    READY = "ready"
    IMPORTING = "importing"
    DONE = "done"


class ImportOptions(msgspec.Struct, frozen=True):
    """What the user says about a file."""

    encoding: str = ""
    verified: bool = False
    even_unsubscribed: bool = False
    existing: Existing = Existing.OVERWRITE
    create_fields: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    date_order: DateOrder = DateOrder.YEAR_FIRST
    on_every_list: bool = False
    """Whether they may suppress addresses on every list."""


class ImportRun:
    """One import: its progress, its report, and why it stopped."""

    def __init__(
        self, list_name: ListName, file_name: str, file: BinaryIO, options: ImportOptions
    ) -> None:
        self.id = secrets.token_urlsafe(9)
        self.list_name = list_name
        self.file_name = file_name
        self.file = file
        self.size = file.seek(0, io.SEEK_END)
        self.options = options
        self.is_stopped = False
        self._rejected = _report_file()
        self.begin(Stage.CHECKING)

    def begin(self, stage: Stage) -> None:
        """Start from the beginning of the file, to check it again or to import it."""
        self.stage = stage
        self.started_at = datetime.now(UTC)
        self.done = 0
        self.report = ImportReport()
        self.problem = ""
        self.is_stopped = False
        self._rejected.close()
        self._rejected = _report_file()
        self._writer = csv.writer(self._rejected)
        self._writer.writerow(("line", "email", "reason"))

    @property
    def is_running(self) -> bool:
        return self.stage in (Stage.READING, Stage.CHECKING, Stage.IMPORTING)

    def note(self, done: int, report: ImportReport) -> None:
        self.done, self.report = max(self.done, done), report

    def reject(self, line: RejectedLine) -> None:
        self._writer.writerow((line.line, protected(line.email), protected(line.reason)))

    async def rejected_csv(self) -> AsyncIterator[bytes]:
        """Stream all rejected lines, once the run has ended."""
        self._rejected.flush()
        with os.fdopen(os.dup(self._rejected.fileno()), "rb") as file:
            place = 0
            while piece := await asyncio.to_thread(os.pread, file.fileno(), _PIECE, place):
                place += len(piece)
                yield piece

    def close(self) -> None:
        self._rejected.close()
        self.file.close()


def _report_file() -> IO[str]:
    return TemporaryFile("w+", encoding="utf-8", newline="")


class ImportRuns:
    """Imports of uploaded files: checked first, then confirmed, then run in the background.

        READING → CHECKING → READY → IMPORTING → DONE
                     ↑_________↓   (with other options)

    What comes from another tool's API is read into a file first; an uploaded file is there already.
    A check reads the whole file and writes nothing; its report is the preview. The file is kept
    until the import is done, so that it can be checked again without another upload. An import
    that is stopped is READY again: what was imported stays, and confirming it imports the rest.

    Runs are kept in memory only. A restart forgets them but loses no subscribers: importing the
    same file again finishes what was interrupted.
    """

    def __init__(self, imports: ImportService, background: Background) -> None:
        self._imports = imports
        self._background = background
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._runs: OrderedDict[str, ImportRun] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, list_name: ListName, file: BinaryIO, *, file_name: str, options: ImportOptions
    ) -> ImportRun:
        """Take over a file and start to check it."""
        run = ImportRun(list_name, file_name, file, options)
        self._runs[run.id] = run
        self._forget_old_ones()
        self._start(run, self._work(run))
        return run

    def begin_reading(
        self, list_name: ListName, read: ReadFile, *, source: str, options: ImportOptions
    ) -> ImportRun:
        """Start to read a file from another tool, called `source`, and then check it."""
        nothing = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - the run closes it
        run = ImportRun(list_name, source, nothing, options)
        run.begin(Stage.READING)
        self._runs[run.id] = run
        self._forget_old_ones()
        self._start(run, self._read(run, read))
        return run

    async def _read(self, run: ImportRun, read: ReadFile) -> None:
        def on_read(count: int, total: int) -> None:
            run.done, run.size = count, total

        try:
            file = await read(on_read)
        except BaseException as exc:
            run.problem = _reading_problem(exc)
            run.stage = Stage.DONE
            raise
        run.file.close()
        run.file, run.size = file, file.seek(0, io.SEEK_END)
        run.begin(Stage.CHECKING)
        await self._work(run)

    def check_again(self, run: ImportRun, options: ImportOptions) -> None:
        """Check the file again, with other options, unless it is already being imported."""
        if run.stage is Stage.READY:
            run.options = options
            run.begin(Stage.CHECKING)
            self._start(run, self._work(run))

    def confirm(self, run: ImportRun) -> bool:
        """Start to import the file as previewed; return False if it cannot start."""
        if run.stage is not Stage.READY or run.problem:
            return False
        run.begin(Stage.IMPORTING)
        self._start(run, self._work(run))
        return True

    def stop(self, run: ImportRun) -> None:
        """Stop an import, so that it can be resumed."""
        if run.stage is Stage.IMPORTING and not run.is_stopped:
            run.is_stopped = True
            self._tasks[run.id].cancel()

    def find(self, list_name: str, identity: str) -> ImportRun | None:
        run = self._runs.get(identity)
        return run if run is not None and run.list_name == list_name else None

    def close(self) -> None:
        """Forget all runs; none may be running."""
        while self._runs:
            self._runs.popitem()[1].close()

    def _forget_old_ones(self) -> None:
        idle = [each for each in self._runs.values() if not each.is_running]
        waiting = [each for each in idle if each.stage is Stage.READY]
        too_many = [*idle[: max(0, len(self._runs) - _REMEMBERED)], *waiting[:-_FILES_KEPT]]
        for run in {each.id: each for each in too_many}.values():
            del self._runs[run.id]
            run.close()

    def _start(self, run: ImportRun, work: Coroutine[Any, Any, None]) -> None:
        what = "import into" if run.stage is Stage.IMPORTING else "check of a file for"
        task = self._background.start(work, f"{what} the list {run.list_name}")
        self._tasks[run.id] = task
        task.add_done_callback(lambda done: self._forget_task(run.id, done))

    def _forget_task(self, identity: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(identity) is task:
            del self._tasks[identity]

    async def _work(self, run: ImportRun) -> None:
        is_check = run.stage is Stage.CHECKING
        try:
            async with self._slots:
                run.report = await self._imports.import_csv(
                    run.list_name,
                    run.file,
                    encoding=run.options.encoding or None,
                    verified=run.options.verified,
                    even_unsubscribed=run.options.even_unsubscribed,
                    existing=run.options.existing,
                    create_fields=run.options.create_fields,
                    guess_types=True,
                    columns=dict(run.options.columns),
                    date_order=run.options.date_order,
                    dry_run=is_check,
                    on_every_list=run.options.on_every_list,
                    progress=run.note,
                    on_rejected=run.reject,
                )
                run.done = run.size
        except Invalid as exc:
            is_about_file = exc.problem.startswith(("has ", "looks "))
            run.problem = f"the file {exc.problem}" if is_about_file else exc.problem
        except PostroomError as exc:
            run.problem = str(exc)
        except BaseException:
            run.problem = "" if run.is_stopped else "it was interrupted"
            raise
        finally:
            run.stage = Stage.READY if is_check or run.is_stopped else Stage.DONE
            if run.stage is Stage.DONE:
                run.file.close()


def _reading_problem(exc: BaseException) -> str:
    if not isinstance(exc, Invalid):
        return "it was interrupted"
    what = "the URL" if exc.field == "url" else "the list"
    return f"{what} {exc.problem}" if exc.problem.startswith(_VERBS) else exc.problem


def kept_file(upload: BinaryIO) -> BinaryIO:
    """Return a copy of an upload that outlives its request. It blocks: call it in a thread."""
    copy = TemporaryFile()  # noqa: SIM115 - the caller closes it
    upload.seek(0)
    while piece := upload.read(_PIECE):
        copy.write(piece)
    return cast(BinaryIO, copy)
