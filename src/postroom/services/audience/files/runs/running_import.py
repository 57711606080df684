"""An import that this process works on."""

from __future__ import annotations

import asyncio
import csv
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Final, cast

import msgspec

from postroom.services.audience.files.cells import protected
from postroom.services.audience.files.import_report import ImportReport, RejectedLine
from postroom.services.audience.files.runs.import_states import ImportState, Stage, continued

REJECTED_HEADER: Final = ("line", "email", "reason")


class ImportRun:
    """Its progress, and a temporary file of rejected lines."""

    def __init__(self, state: ImportState, upload: BinaryIO | None = None) -> None:
        """`upload` is its file, if this process has received it."""
        self.state = state
        self.upload = upload
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False
        """Whether another process works on it now."""
        self._rejected = cast(IO[str], TemporaryFile("w+", encoding="utf-8", newline=""))  # noqa: SIM115
        self._writer = csv.writer(self._rejected)
        self._writer.writerow(REJECTED_HEADER)

    @property
    def rejected(self) -> IO[str] | None:
        return self._rejected if self.state.report.rejected else None

    def change(self, **changes: object) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)

    def note(self, done: int, report: ImportReport) -> None:
        before = self.state.before
        if before is not None:
            report = continued(before, report)
        self.change(done=max(self.state.done, done), report=report)

    def reject(self, line: RejectedLine) -> None:
        self._writer.writerow((line.line, protected(line.email), protected(line.reason)))

    def stop(self) -> None:
        """Stop an import, so that it can be resumed."""
        if self.state.stage is Stage.IMPORTING and not self.state.is_stopped:
            self.change(is_stopped=True)
            self.cancel()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        self._rejected.close()
        if self.upload is not None:
            self.upload.close()
