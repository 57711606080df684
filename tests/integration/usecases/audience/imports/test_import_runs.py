"""Imports in the background: continued after a restart or a kill, stopped from another process."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from datetime import timedelta

import pytest

from postroom.domain.audience.lists.lists import ListName
from postroom.errors import PostroomError
from postroom.services.audience.files import reading_ahead
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.files.runs import import_runs
from postroom.services.audience.files.runs.import_files import CONTAINER, ImportFiles
from postroom.services.audience.files.runs.import_runs import ImportRuns
from postroom.services.audience.files.runs.import_states import (
    ImportOptions,
    ImportState,
    Stage,
    continued,
)
from postroom.services.audience.files.runs.running_import import ImportRun
from postroom.storage import BlobInfo, Store
from postroom.web.background import Background
from postroom.wiring import Services
from tests.services.waiting import BUSY

NEWS = ListName("news")
PEOPLE = 600
LINES = "".join(f"u{number:04}@example.com\n" for number in range(PEOPLE))
FILE = f"email\nnobody\n{LINES}".encode()
Act = Callable[[ImportRun], None]


class Process:
    """A web process, as far as it imports."""

    def __init__(self, services: Services) -> None:
        self.background = Background()
        self.runs = ImportRuns(services.store, services.imports, self.background)

    async def checked(
        self,
        data: bytes = FILE,
        options: ImportOptions = ImportOptions(),  # noqa: B008
    ) -> ImportState:
        state = await self.runs.begin(
            NEWS, io.BytesIO(data), file_name="people.csv", options=options
        )
        return await self.ended(state)

    async def ended(self, state: ImportState) -> ImportState:
        """Return an import once nothing is under way."""
        for _ in range(300 * BUSY):
            found = await self.runs.find(NEWS, state.id)
            if found is not None and not found.is_running:
                return found
            await asyncio.sleep(0.1)
        raise TimeoutError("the import did not end")


def when_some_are_there(monkeypatch: pytest.MonkeyPatch, act: Act) -> asyncio.Event:
    """Do something to an import, once, when it has added 100 subscribers."""
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 50)
    note, reached = ImportRun.note, asyncio.Event()

    def noted(run: ImportRun, done: int, report: ImportReport) -> None:
        note(run, done, report)
        is_import = run.state.stage is Stage.IMPORTING
        if is_import and run.state.report.added >= 100 and not reached.is_set():
            reached.set()
            act(run)

    monkeypatch.setattr(ImportRun, "note", noted)
    return reached


def kill(run: ImportRun) -> None:
    """A killed process saves nothing any more."""
    run.is_lost = True
    run.cancel()


async def on_the_list(services: Services) -> set[str]:
    return {each.address async for each in services.subscriptions.all(NEWS)}


EVERYBODY = set(LINES.split())


@pytest.fixture
async def first(services: Services) -> Process:
    await services.lists.create(NEWS, "News", "news@contoso.example")
    return Process(services)


async def blobs(store: Store) -> list[str]:
    return [each.name.partition("/")[0] for each in (await store.container(CONTAINER).list()).blobs]


async def test_another_process_continues_after_a_kill(
    services: Services, store: Store, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await first.checked()
    reached = when_some_are_there(monkeypatch, kill)
    assert await first.runs.confirm(state)
    await asyncio.wait_for(reached.wait(), 30 * BUSY)
    await first.background.stop()
    assert await on_the_list(services) < EVERYBODY
    second = Process(services)
    await second.runs.resume()
    left = await second.runs.find(NEWS, state.id)
    assert left is not None
    assert left.is_running, "its process may still be alive"
    monkeypatch.setattr(import_runs, "_SILENT", timedelta(0))

    await second.runs.resume()
    done = await second.ended(state)

    assert (done.stage, done.problem) == (Stage.DONE, "")
    assert done.report.lines == PEOPLE + 1
    assert await on_the_list(services) == EVERYBODY
    rejected = b"".join([each async for each in second.runs.rejected_csv(done)])
    assert rejected.count(b"nobody") == 1
    assert sorted(await blobs(store)) == ["rejected", "state"], "the file is not needed any more"


async def test_a_restart_continues_at_once_and_reports_the_whole(
    services: Services, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await first.checked()
    reached = when_some_are_there(monkeypatch, lambda _: None)
    await first.runs.confirm(state)
    await asyncio.wait_for(reached.wait(), 30 * BUSY)
    await first.background.stop()
    second = Process(services)
    before = await second.runs.find(NEWS, state.id)
    assert before is not None
    assert (before.is_running, before.owner) == (True, "")

    await second.runs.resume()
    done = await second.ended(state)

    assert done.stage is Stage.DONE
    assert await on_the_list(services) == EVERYBODY
    report = done.report
    assert (report.lines, report.rejected) == (PEOPLE + 1, 1)
    in_flight = 50  # what was written when the process ended, but not noted
    assert PEOPLE - in_flight <= report.added <= PEOPLE


async def test_an_import_is_stopped_and_resumed_by_other_processes(
    services: Services, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_runs, "_BEAT", 0.05)
    state = await first.checked()
    held = asyncio.Event()

    async def wait_there(*_: object) -> None:
        await held.wait()

    monkeypatch.setattr(services.imports, "_reject_unwanted", wait_there)
    monkeypatch.setattr(services.imports._counts, "add", wait_there)
    await first.runs.confirm(state)
    second = Process(services)
    running = await second.runs.find(NEWS, state.id)
    assert running is not None
    assert running.stage is Stage.IMPORTING

    await second.runs.stop(running)
    stopped = await second.ended(state)

    monkeypatch.undo()
    assert (stopped.stage, stopped.is_stopped) == (Stage.READY, True)
    assert not await first.runs.confirm(running), "it knows an old state"
    assert await second.runs.confirm(stopped)
    assert (await second.ended(state)).stage is Stage.DONE
    assert await on_the_list(services) == EVERYBODY


async def test_subscribers_who_leave_during_an_interruption_stay_off(
    services: Services, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the import brings back those who had left before."""
    before = await services.subscriptions.add(NEWS, "u0005@example.com", verified=True)
    await services.subscriptions.unsubscribe(NEWS, before.guid)
    state = await first.checked(options=ImportOptions(even_unsubscribed=True))
    reached = when_some_are_there(monkeypatch, lambda run: run.stop())
    await first.runs.confirm(state)
    await asyncio.wait_for(reached.wait(), 30 * BUSY)
    stopped = await first.ended(state)
    guid = (await services.subscriptions.get(NEWS, "u0001@example.com")).guid
    await services.subscriptions.unsubscribe(NEWS, guid)

    await first.runs.confirm(stopped)
    done = await first.ended(state)

    assert await on_the_list(services) == EVERYBODY - {"u0001@example.com"}
    assert done.report.rejected == 2


async def test_reading_from_another_tool_is_not_continued(
    services: Services, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: object) -> io.BytesIO:
        await asyncio.Event().wait()
        return io.BytesIO()

    state = await first.runs.begin_reading(NEWS, never, source="a tool", options=ImportOptions())
    await first.background.stop()

    second = Process(services)
    await second.runs.resume()

    ended = await second.ended(state)
    assert (ended.stage, ended.problem) == (Stage.DONE, "it was interrupted")


async def test_an_import_that_ends_its_process_is_given_up(
    services: Services, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await first.checked()
    monkeypatch.setattr(import_runs, "_SILENT", timedelta(seconds=-1))

    async def dies(runs: ImportRuns, run: ImportRun, *_: object) -> None:
        kill(run)
        raise asyncio.CancelledError

    monkeypatch.setattr(ImportRuns, "_work", dies)
    await first.runs.confirm(state)
    for _ in range(11):
        await first.background.stop()
        first = Process(services)
        await first.runs.resume()
    assert (await first.ended(state)).problem == "it was interrupted"


async def test_files_go_with_their_list_and_after_a_week(
    services: Services, store: Store, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await first.checked()
    assert sorted(await blobs(store)) == ["file", "rejected", "state"]
    await first.runs.resume()
    assert len(await blobs(store)) == 3
    monkeypatch.setattr(import_runs, "_KEPT", timedelta(0))
    await first.runs.resume()
    assert await blobs(store) == []
    await first.checked()
    await services.lists.delete(NEWS)
    assert await blobs(store) == []


async def test_a_damaged_file_says_so_and_stays(services: Services, first: Process) -> None:
    state = await first.checked(b"name\nann\n")
    assert state.stage is Stage.READY
    assert "no column" in state.problem
    assert not await first.runs.confirm(state)
    with pytest.raises(PostroomError):
        await services.imports.import_csv(NEWS, io.BytesIO(b"name\nann\n"))


def test_a_continued_report_counts_each_line_once() -> None:
    before = ImportReport(added=40, updated=3, unsubscribed=2, rejected=1, confirmed=40)
    again = ImportReport(added=50, unchanged=45, rejected=5, confirmed=50)
    whole = continued(before, again)
    assert (whole.added, whole.updated, whole.unsubscribed) == (90, 3, 2)
    assert (whole.rejected, whole.unchanged, whole.confirmed) == (5, 0, 90)
    assert whole.lines == again.lines


async def test_an_import_that_changes_while_others_are_listed_hides_none(
    services: Services, first: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await first.checked()
    files = ImportFiles(services.store)
    early, _, late = sorted(await files.all(), key=lambda each: each.id)
    read, is_done = ImportFiles._read, asyncio.Event()
    others: list[asyncio.Task[list[ImportState]]] = []

    async def slow(files: ImportFiles, info: BlobInfo) -> ImportState | None:
        if others:
            await is_done.wait()
        elif info.name.endswith(late.id):
            await files.save(early)
            others.append(asyncio.create_task(files.all()))
            await asyncio.sleep(0.5)  # it reads the first one meanwhile
        return await read(files, info)

    monkeypatch.setattr(ImportFiles, "_read", slow)
    await files.save(late)
    assert len(await files.all()) == 3
    is_done.set()
    assert len(await others[0]) == 3
