"""`outbox:`: nothing leaves the machine; each email becomes a file.

File names sort by date and show the recipient:

    20261115T080000Z-alice@example.com-3f2a9c0d1e4b5a67.eml

The last part is a digest of the Message-ID, and the date is the email's own: the same email, sent
again, replaces itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from postroom.domain.errors import Invalid, NoSuch
from postroom.folders import make_private, open_private, tighten
from postroom.mail.mail_reader import read_subject
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import (
    INVALID_ADDRESS,
    INVALID_MESSAGE,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    TransportError,
    Watcher,
)

_HEADERS = 16 * 1024  # bytes that contain the subject
_CHUNK = 100  # emails that are written to temporary files together
_OLD = 3600.0  # seconds after which a temporary file is from a killed process
_LONGEST_NAME = 180  # characters of the recipient; file names are limited to 255 bytes
_SAFE = "@.+-_=!#$&'~"
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(\d{8}T\d{6}Z)-(.+)-([0-9a-f]{16})\.eml", re.ASCII)
_DATE = re.compile(rb"^Date:[ \t]*([^\r\n]+)", re.IGNORECASE | re.MULTILINE)
_KEPT = Result(ResultKind.ACCEPTED, "kept in the outbox")


class OutboxMail(msgspec.Struct, frozen=True):
    """An email in the outbox. `name` is its file name."""

    name: str
    recipient: str
    date: datetime


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
        self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher
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

    # — For the page Outbox —

    async def mails(
        self, *, limit: int = 50, after: str = "", recipient: str = ""
    ) -> list[OutboxMail]:
        """Return emails, newest first, after the one named `after`; optionally of one recipient."""
        return await asyncio.to_thread(self._list, limit, after, recipient)

    async def subjects(self, mails: Sequence[OutboxMail]) -> list[str]:
        """Return the subject of each; empty for one that no longer exists."""
        return await asyncio.to_thread(lambda: [self._subject(mail) for mail in mails])

    async def read(self, name: str) -> bytes:
        """Return one email as it would have been sent; raise `NoSuch` or `Invalid`."""
        if not _NAME.fullmatch(name) or "/" in name:
            raise Invalid("mail", "must be the name of an email in the outbox")
        try:
            return await asyncio.to_thread((self._folder / name).read_bytes)
        except FileNotFoundError as exc:
            raise NoSuch("mail", name) from exc

    def _list(self, limit: int, after: str, recipient: str) -> list[OutboxMail]:
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".eml")]
        except FileNotFoundError:
            return []
        if recipient:
            part = f"Z-{_file_part(recipient)}-"
            names = [name for name in names if part in name]
        if after:
            names = [name for name in names if name < after]
        names.sort(reverse=True)
        found = (_entry(name) for name in names)
        return list(itertools.islice((each for each in found if each is not None), limit))

    # — In a thread —

    def _subject(self, mail: OutboxMail) -> str:
        try:
            with (self._folder / mail.name).open("rb") as file:
                return read_subject(file.read(_HEADERS))
        except FileNotFoundError:
            return ""

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
            return self._folder / _file_name(mail, mailing, recipient)
        except Invalid as exc:
            return Result(ResultKind.REFUSED, str(exc), reason=INVALID_ADDRESS)
        except OSError as exc:
            with suppress(OSError):
                temporary.unlink()
            return _held(exc)
        except Exception as exc:  # the other emails of the batch must still be sent
            problem = f"the mail cannot be composed: {exc!r}"
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


def _file_name(mail: bytes, mailing: Mailing, recipient: Recipient) -> str:
    digest = hashlib.sha256(mailing.message_id(recipient).encode()).hexdigest()[:16]
    found = _DATE.search(mail, 0, mail.find(b"\r\n\r\n"))
    moment = _file_time(found[1] if found else b"")
    return f"{moment}-{_file_part(recipient.address)}-{digest}.eml"


def _file_part(recipient: str) -> str:
    return quote(recipient, safe=_SAFE)[:_LONGEST_NAME]


@lru_cache(maxsize=64)
def _file_time(date: bytes) -> str:
    """Return the time in the Date header; the time of writing differs when it is sent again."""
    try:
        return parsedate_to_datetime(date.decode()).astimezone(UTC).strftime(_TIME)
    except ValueError:
        return datetime.fromtimestamp(0, UTC).strftime(_TIME)


def _entry(name: str) -> OutboxMail | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    date = datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)
    return OutboxMail(name, unquote(found[2]), date)
