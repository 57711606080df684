"""`outbox:`: nothing leaves the machine; each email becomes a file (`outbox_folder.py`)."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from postroom.domain.errors import Invalid
from postroom.folders import make_private, open_private, tighten
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import (
    INVALID_ADDRESS,
    INVALID_MESSAGE,
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    TransportError,
    Watcher,
)
from postroom.transport.outbox_folder import file_name

_CHUNK = 100  # emails that are written to temporary files together
_OLD = 3600.0  # seconds after which a temporary file is from a killed process
_KEPT = Result(ResultKind.ACCEPTED, "kept in the outbox")


class OutboxTransport(Transport):
    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)
        # Process IDs are not unique among containers that share the folder.
        self._machine = socket.gethostname()
        self._numbers = itertools.count()
        self._is_ready = False

    def __repr__(self) -> str:
        return f"OutboxTransport({str(self._folder)!r})"

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        """Write temporary files in a thread, then rename one after the other, so that at most one
        email is between `handing_over` and `settled`."""
        if not self._is_ready:
            await asyncio.to_thread(self._make_ready)
            self._is_ready = True
        results: list[Result] = []
        for start in range(0, len(recipients), _CHUNK):
            chunk = recipients[start : start + _CHUNK]
            written = await asyncio.to_thread(self._write_temporary, mailing, chunk)
            for position, (temporary, final) in enumerate(written, start):
                if isinstance(final, Result):
                    result = final
                else:
                    watcher.handing_over(position)
                    result = _rename(temporary, final)
                results.append(result)
                watcher.settled(position, result)
        return results

    async def check(self) -> str:
        try:
            await asyncio.to_thread(self._try_to_write)
        except OSError as exc:
            raise TransportError(
                f"the outbox {self._folder} cannot be written to: {exc.strerror}"
            ) from exc
        return f"emails are kept in {self._folder}; nothing leaves this machine"

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    # — In a thread —

    def _make_ready(self) -> None:
        """Create the folder and remove temporary files of killed processes. Problems show later."""
        with suppress(OSError):
            make_private(self._folder)
            tighten(self._folder)
            for temporary in self._folder.glob(".*.tmp"):
                if temporary.stat().st_mtime < time.time() - _OLD:
                    temporary.unlink(missing_ok=True)

    def _new_temporary(self) -> Path:
        return self._folder / f".{self._machine}.{os.getpid()}.{next(self._numbers)}.tmp"

    def _write_temporary(
        self, mailing: Mailing, recipients: Sequence[Recipient]
    ) -> list[tuple[Path, Path | Result]]:
        written: list[tuple[Path, Path | Result]] = []
        for recipient in recipients:
            temporary = self._new_temporary()
            written.append((temporary, self._write_one(temporary, mailing, recipient)))
        return written

    def _write_one(self, temporary: Path, mailing: Mailing, recipient: Recipient) -> Path | Result:
        """Write one file and return its final path, or a result if that failed."""
        try:
            mail = mailing.mail(recipient)
            with open_private(temporary) as file:
                file.write(mail)
            return self._folder / file_name(mail, mailing.message_id(recipient), recipient.address)
        except Invalid as exc:
            return Result(ResultKind.REFUSED, str(exc), reason=INVALID_ADDRESS)
        except OSError as exc:
            with suppress(OSError):
                temporary.unlink()
            return _held(exc)
        except Exception as exc:  # the other emails of the batch must still be sent
            problem = f"the email cannot be composed: {exc!r}"
            return Result(ResultKind.HELD, problem, FaultScope.MESSAGE, INVALID_MESSAGE)

    def _try_to_write(self) -> None:
        make_private(self._folder)
        probe = self._new_temporary()
        probe.write_bytes(b"")
        probe.unlink()


def _rename(temporary: Path, final: Path) -> Result:
    try:
        os.replace(temporary, final)
    except OSError as exc:
        return _held(exc)
    return _KEPT


def _held(exc: OSError) -> Result:
    problem = f"cannot be kept in the outbox: {exc.strerror}"
    return Result(
        ResultKind.HELD, problem, FaultScope.ACCOUNT, "The outbox folder cannot be written to"
    )
