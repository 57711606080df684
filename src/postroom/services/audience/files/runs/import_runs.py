"""Imports of uploaded files: checked first, then confirmed, then run in the background.

    READING → CHECKING → READY → IMPORTING → DONE
                 ↑_________↓   (with other options)

What comes from another tool's API is read into a file first; an uploaded file is there already. A
check reads the whole file and writes nothing; its report is the preview. An import that is stopped
is READY again: what was imported stays, and confirming it imports the rest.

File and state are kept in the store (`import_files.py`), so any web process shows an import. If the
one that works on it ends or is killed, another one continues, or the same one after a restart. It
begins with the first line again: lines that were imported before change nothing. The token of
another tool's API is not stored, so reading from there is not continued.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import timedelta
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, Protocol, cast

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName, parse_list_name
from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.files.imports import ImportService
from postroom.services.audience.files.runs.import_files import ImportFiles
from postroom.services.audience.files.runs.import_states import ImportOptions, ImportState, Stage
from postroom.services.audience.files.runs.running_import import REJECTED_HEADER, ImportRun
from postroom.storage import Conflict, NotFound, Store, StoreError
from postroom.watchdog import end_tasks

log = logging.getLogger(__name__)

_REMEMBERED: Final = 50
_WAITING: Final = 10  # for confirmation; the file of each may have 200 MB
_KEPT: Final = timedelta(days=7)
_AT_ONCE: Final = 2
_BEAT: Final = 2.0  # seconds
_SILENT: Final = timedelta(seconds=30)
"""A process that has been silent for this long has ended."""
_LOOK: Final = 10.0  # seconds
_MOST_ATTEMPTS: Final = 10
"""Give up on an import after this many crashes."""
_PIECE: Final = 256 * 1024
_VERBS: Final = ("does ", "has ", "names ", "points ", "returned ")
_INTERRUPTED: Final = "it was interrupted"

ReadFile = Callable[[Callable[[int, int], None]], Awaitable[BinaryIO]]
"""Reads subscribers from another tool into a file; reports how many were read, and of how many."""

Work = Callable[[ImportRun], Coroutine[Any, Any, None]]


class Starter(Protocol):
    """Starts work that ends with the process; a failure is logged as `what`."""

    def start(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]: ...


class ImportRuns:
    def __init__(self, store: Store, imports: ImportService, background: Starter) -> None:
        self._imports = imports
        self._background = background
        self._files = ImportFiles(store)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._live: dict[str, ImportRun] = {}
        self._process = secrets.token_urlsafe(9)

    # -- requested by people ----------------------------------------------------------------------

    async def begin(
        self, list_name: ListName, file: BinaryIO, *, file_name: str, options: ImportOptions
    ) -> ImportState:
        """Take over a file and start to check it."""
        state = self._new(list_name, file_name, options, Stage.CHECKING)
        state = msgspec.structs.replace(state, size=file.seek(0, 2))
        return await self._add(state, self._work, file)

    async def begin_reading(
        self, list_name: ListName, read: ReadFile, *, source: str, options: ImportOptions
    ) -> ImportState:
        """Start to read a file from another tool, called `source`, and then check it."""
        state = self._new(list_name, source, options, Stage.READING)
        return await self._add(state, lambda run: self._read(run, read))

    async def find(self, list_name: str, identity: str) -> ImportState | None:
        run = self._live.get(identity)
        if run is not None and run.state.list_name == list_name:
            if run.state.is_running and not run.state.is_stopped:
                return run.state
            if run.task is not None:  # until its result is saved
                await asyncio.wait({run.task})
        return await self._files.find(parse_list_name(list_name), identity)

    async def of(self, list_name: str) -> list[ImportState]:
        """Return the imports into a list that are kept, newest activity first."""
        kept = [each for each in await self._files.all() if each.list_name == list_name]
        return sorted(kept, key=lambda each: each.alive_at, reverse=True)

    async def check_again(self, state: ImportState, options: ImportOptions) -> None:
        """Check the file again, with other options, unless it is already being imported."""
        if state.stage is Stage.READY:
            await self._claim(
                state, Stage.CHECKING, options=options, confirmed_at=None, is_stopped=False
            )

    async def confirm(self, state: ImportState) -> bool:
        """Start to import the file as previewed, or the rest of it; return False if it cannot
        start."""
        if state.stage is not Stage.READY or state.problem:
            return False
        return await self._claim(
            state,
            Stage.IMPORTING,
            confirmed_at=state.confirmed_at or clock.now(),
            before=state.report if state.is_stopped else None,
            is_stopped=False,
        )

    async def stop(self, state: ImportState) -> None:
        """Stop an import, so that it can be resumed. The process that works on it does so within
        seconds."""
        run = self._live.get(state.id)
        if run is not None:
            run.stop()
        elif state.stage is Stage.IMPORTING:
            try:
                await self._files.save(msgspec.structs.replace(state, is_stopped=True))
            except Conflict:  # progress was saved at this moment
                found = await self._files.find(state.list_name, state.id)
                if found is not None and found.stage is Stage.IMPORTING:
                    await self._files.save(msgspec.structs.replace(found, is_stopped=True))

    async def rejected_csv(self, state: ImportState) -> AsyncIterator[bytes]:
        """Yield all rejected lines, once the run has ended."""
        is_empty = True
        async for piece in self._files.rejected(state):
            is_empty = False
            yield piece
        if is_empty:
            yield (",".join(REJECTED_HEADER) + "\r\n").encode()

    # -- done automatically ---------------------------------------------------------------

    async def keep_resuming(self, stopping: asyncio.Event) -> None:
        """Continue imports whose process has ended, until `stopping`; delete old ones."""
        while not stopping.is_set():
            try:
                await self.resume()
            except StoreError as exc:
                log.warning("looking for interrupted imports failed: %s", exc)
            try:
                await asyncio.wait_for(stopping.wait(), _LOOK)
            except TimeoutError:
                continue

    async def resume(self) -> None:
        """Continue imports whose process has ended, and delete old ones."""
        states = await self._files.all()
        for state in states:
            is_silent = not state.owner or clock.now() - state.alive_at > _SILENT
            if state.is_running and is_silent and state.id not in self._live:
                await self._take_over(state)
        await self._forget_old_ones(states)

    async def _take_over(self, state: ImportState) -> None:
        if state.is_stopped:
            await self._settle(state, Stage.READY)
        elif state.stage is Stage.READING or state.attempts >= _MOST_ATTEMPTS:
            await self._settle(state, Stage.DONE, problem=_INTERRUPTED)
        else:
            is_import = state.stage is Stage.IMPORTING
            before = state.report if is_import else None
            await self._claim(state, state.stage, before=before, attempts=state.attempts + 1)

    async def _settle(self, state: ImportState, stage: Stage, problem: str = "") -> None:
        """End the work on an import that no process works on."""
        try:
            await self._files.save(msgspec.structs.replace(state, stage=stage, problem=problem))
        except Conflict:
            return
        if stage is Stage.DONE:
            await self._files.remove_file(state)

    async def _forget_old_ones(self, states: list[ImportState]) -> None:
        idle = sorted((each for each in states if not each.is_running), key=lambda e: e.alive_at)
        waiting = [each for each in idle if each.stage is Stage.READY]
        too_many = [*idle[: max(0, len(states) - _REMEMBERED)], *waiting[:-_WAITING]]
        old = [each for each in idle if clock.now() - each.alive_at > _KEPT]
        for state in {each.id: each for each in (*too_many, *old)}.values():
            await self._files.remove(state)

    # -- working -----------------------------------------------------------------------------

    def _new(
        self, list_name: ListName, file_name: str, options: ImportOptions, stage: Stage
    ) -> ImportState:
        identity = secrets.token_urlsafe(9)
        return ImportState(
            identity, list_name, file_name, options, stage, clock.now(), owner=self._process
        )

    async def _add(
        self, state: ImportState, work: Work, upload: BinaryIO | None = None
    ) -> ImportState:
        state = await self._files.add(state)
        run = self._start(state, work, upload)
        await self._forget_old_ones(await self._files.all())
        return run.state

    async def _claim(self, state: ImportState, stage: Stage, **changes: Any) -> bool:
        """Begin a stage, unless another process has changed the import in the meantime."""
        new = msgspec.structs.replace(
            state,
            **{
                "stage": stage,
                "owner": self._process,
                "alive_at": clock.now(),
                "done": 0,
                "report": changes.get("before") or ImportReport(),
                "before": None,
                "problem": "",
                **changes,
            },
        )
        try:
            saved = await self._files.save(new)
        except Conflict:
            return False
        self._start(saved, self._work)
        return True

    def _start(self, state: ImportState, work: Work, upload: BinaryIO | None = None) -> ImportRun:
        run = self._live[state.id] = ImportRun(state, upload)
        what = "import into" if state.stage is Stage.IMPORTING else "check of a file for"
        run.task = self._background.start(
            self._with_beat(run, work), f"{what} the list {state.list_name}"
        )
        run.task.add_done_callback(lambda _: self._forget(run))
        return run

    def _forget(self, run: ImportRun) -> None:
        if self._live.get(run.state.id) is run:
            del self._live[run.state.id]
        run.close()

    async def _with_beat(self, run: ImportRun, work: Work) -> None:
        beating = asyncio.create_task(self._beat(run))
        try:
            await work(run)
        except StoreError:  # the process that sees the store again continues
            raise
        except Exception:
            run.change(stage=Stage.DONE, problem=_INTERRUPTED)
            raise
        finally:
            await end_tasks([beating])
            await self._end(run)

    async def _beat(self, run: ImportRun) -> None:
        """Save the progress, which is also the heartbeat of this process."""
        while True:
            await asyncio.sleep(_BEAT)
            try:
                saved = await self._files.save(
                    msgspec.structs.replace(run.state, alive_at=clock.now())
                )
                run.change(etag=saved.etag, alive_at=saved.alive_at)
            except Conflict:
                found = await self._files.find(run.state.list_name, run.state.id)
                if found is not None and found.owner == self._process and found.is_stopped:
                    run.change(etag=found.etag)
                    run.stop()
                else:
                    run.is_lost = True
                    run.cancel()
                return
            except StoreError as exc:
                log.warning("the progress of an import was not saved: %s", exc)

    async def _end(self, run: ImportRun) -> None:
        """Save the result of a stage. One that is still running continues in another process."""
        if run.is_lost:
            return
        if run.state.is_stopped:
            run.change(stage=Stage.READY)
        run.change(owner="", alive_at=clock.now())
        if not run.state.is_running:
            await self._files.keep_rejected(run.state, run.rejected)
        try:
            run.state = await self._files.save(run.state)
        except Conflict:  # someone has stopped it at this moment, or its list was deleted
            found = await self._files.find(run.state.list_name, run.state.id)
            if found is None or found.owner != self._process:
                return
            is_stopped = found.is_stopped and run.state.stage is Stage.IMPORTING
            stage = Stage.READY if is_stopped else run.state.stage
            run.change(etag=found.etag, is_stopped=is_stopped, stage=stage)
            run.state = await self._files.save(run.state)
        if run.state.stage is Stage.DONE:
            await self._files.remove_file(run.state)

    async def _read(self, run: ImportRun, read: ReadFile) -> None:
        def on_read(count: int, total: int) -> None:
            run.change(done=count, size=total)

        try:
            file = await read(on_read)
        except Exception as exc:
            run.change(stage=Stage.DONE, problem=_reading_problem(exc))
            raise
        run.upload = file
        run.change(stage=Stage.CHECKING, done=0, size=file.seek(0, 2))
        await self._work(run)

    async def _work(self, run: ImportRun) -> None:
        try:
            if run.upload is not None:
                await self._files.keep_file(run.state, run.upload)
            async with self._slots:
                if run.upload is None:
                    run.upload = await self._fetched(run)
                if run.upload is None:
                    return
                report = await self._import(run, run.upload)
            run.note(run.state.size, report)
            is_check = run.state.stage is Stage.CHECKING
            run.change(stage=Stage.READY if is_check else Stage.DONE)
        except StoreError:
            raise
        except PostroomError as exc:
            is_check = run.state.stage is Stage.CHECKING
            run.change(stage=Stage.READY if is_check else Stage.DONE, problem=_problem(exc))

    async def _fetched(self, run: ImportRun) -> BinaryIO | None:
        try:
            return await self._files.fetch_file(run.state)
        except NotFound:
            problem = "the server was stopped before it had stored the file. Upload it again"
            run.change(stage=Stage.DONE, problem=problem)
            return None

    async def _import(self, run: ImportRun, file: BinaryIO) -> ImportReport:
        options = run.state.options
        return await self._imports.import_csv(
            run.state.list_name,
            file,
            encoding=options.encoding or None,
            verified=options.verified,
            even_unsubscribed=options.even_unsubscribed,
            unsubscribed_until=run.state.confirmed_at,
            existing=options.existing,
            create_fields=options.create_fields,
            guess_types=True,
            columns=dict(options.columns),
            date_order=options.date_order,
            dry_run=run.state.stage is Stage.CHECKING,
            on_every_list=options.on_every_list,
            progress=run.note,
            on_rejected=run.reject,
        )


def kept_file(upload: BinaryIO) -> BinaryIO:
    """Return a copy of an upload that outlives its request. It blocks: call it in a thread."""
    copy = TemporaryFile()  # noqa: SIM115 - the caller closes it
    upload.seek(0)
    while piece := upload.read(_PIECE):
        copy.write(piece)
    return cast(BinaryIO, copy)


def _problem(exc: PostroomError) -> str:
    if not isinstance(exc, Invalid):
        return str(exc)
    is_about_file = exc.problem.startswith(("has ", "looks "))
    return f"the file {exc.problem}" if is_about_file else exc.problem


def _reading_problem(exc: Exception) -> str:
    if not isinstance(exc, Invalid):
        return _INTERRUPTED
    what = "the URL" if exc.field == "url" else "the list"
    return f"{what} {exc.problem}" if exc.problem.startswith(_VERBS) else exc.problem
