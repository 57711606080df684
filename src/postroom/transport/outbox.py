"""`outbox:` — nothing leaves the machine: each mail is a file that can be looked at.

A name sorts by the mail's date and shows its recipient:

    20261115T080000Z-alice@example.com-3f2a9c0d1e4b5a67.eml

The last part is made of the Message-ID, and the date is the mail's own: the same email, sent again,
has the same name and replaces itself.
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
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.reading import read_subject
from postroom.transport.contract import (
    Result,
    ResultKind,
    Scope,
    Transport,
    TransportError,
    Watcher,
)

_HEADERS = 16 * 1024  # bytes in which the subject is found
_CHUNK = 100  # mails that are written before the first of them appears
_OLD = 3600.0  # seconds after which a file that never appeared belongs to nobody
_LONGEST_NAME = 180  # characters of the recipient; a file's name has 255 bytes
_SAFE = "@.+-_=!#$&'~"
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(\d{8}T\d{6}Z)-(.+)-([0-9a-f]{16})\.eml", re.ASCII)
_DATE = re.compile(rb"^Date:[ \t]*([^\r\n]+)", re.IGNORECASE | re.MULTILINE)
_KEPT = Result(ResultKind.ACCEPTED, "kept in the outbox")


class OutboxMail(msgspec.Struct, frozen=True):
    """A mail in the outbox. `name` is how to ask for it."""

    name: str
    recipient: str
    date: datetime


class OutboxTransport(Transport):
    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)
        # Containers that share the folder have the same numbers of processes.
        self._machine = socket.gethostname()
        self._numbers = itertools.count()
        self._is_ready = False

    def __repr__(self) -> str:
        return f"OutboxTransport({str(self._folder)!r})"

    async def send(
        self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher
    ) -> list[Result]:
        """Files are written aside in a thread; what makes one appear is a rename. So between
        `handing_over` and `settled` there is never more than one."""
        if not self._is_ready:
            await asyncio.to_thread(self._make_ready)
            self._is_ready = True
        results: list[Result] = []
        for start in range(0, len(recipients), _CHUNK):
            chunk = recipients[start : start + _CHUNK]
            written = await asyncio.to_thread(self._write_aside, mailing, chunk)
            for position, (aside, final) in enumerate(written, start):
                if isinstance(final, Result):
                    result = final
                else:
                    watcher.handing_over(position)
                    result = _appear(aside, final)
                results.append(result)
                watcher.settled(position, result)
        return results

    async def check(self) -> str:
        try:
            await asyncio.to_thread(self._try_to_write)
        except OSError as exc:
            raise TransportError(
                f"the outbox {self._folder} cannot be written: {exc.strerror}"
            ) from exc
        return f"mails are kept in {self._folder}; nothing leaves this machine"

    async def close(self) -> None:
        """Nothing is held open."""

    # — For a page that shows them —

    async def mails(
        self, *, limit: int = 50, after: str = "", recipient: str = ""
    ) -> list[OutboxMail]:
        """Newest first, from the one that follows `after`; only those to `recipient` if given."""
        return await asyncio.to_thread(self._list, limit, after, recipient)

    async def subjects(self, mails: Sequence[OutboxMail]) -> list[str]:
        """The subject of each; empty for one that is gone."""
        return await asyncio.to_thread(lambda: [self._subject(mail) for mail in mails])

    async def read(self, name: str) -> bytes:
        """One mail as it would have been sent. `NoSuch`, `Invalid`."""
        if not _NAME.fullmatch(name) or "/" in name:
            raise Invalid("mail", "is no name of a mail in the outbox")
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
        """Remove what a killed process had written aside. Problems show when mails are written."""
        with suppress(OSError):
            make_private(self._folder)
            tighten(self._folder)
            for aside in self._folder.glob(".*.tmp"):
                if aside.stat().st_mtime < time.time() - _OLD:
                    aside.unlink(missing_ok=True)

    def _new_aside(self) -> Path:
        return self._folder / f".{self._machine}.{os.getpid()}.{next(self._numbers)}.tmp"

    def _write_aside(
        self, mailing: Mailing, recipients: Sequence[Recipient]
    ) -> list[tuple[Path, Path | Result]]:
        written: list[tuple[Path, Path | Result]] = []
        for recipient in recipients:
            aside = self._new_aside()
            written.append((aside, self._write_one(aside, mailing, recipient)))
        return written

    def _write_one(self, aside: Path, mailing: Mailing, recipient: Recipient) -> Path | Result:
        """The name that the file will have, or why there is none."""
        try:
            mail = mailing.mail(recipient)
            with open_private(aside) as file:
                file.write(mail)
            return self._folder / _file_name(mail, mailing, recipient)
        except Invalid as exc:
            return Result(
                ResultKind.REFUSED, str(exc), reason="Mail cannot be sent to this address"
            )
        except OSError as exc:
            with suppress(OSError):
                aside.unlink()
            return _not_now(exc)
        except Exception as exc:  # whatever it is: the other emails of the batch must go on
            problem = f"the mail cannot be composed: {exc!r}"
            return Result(ResultKind.HELD, problem, Scope.MESSAGE, "The message cannot be composed")

    def _try_to_write(self) -> None:
        make_private(self._folder)
        probe = self._new_aside()
        probe.write_bytes(b"")
        probe.unlink()


def _appear(aside: Path, final: Path) -> Result:
    try:
        os.replace(aside, final)
    except OSError as exc:
        return _not_now(exc)
    return _KEPT


def _not_now(exc: OSError) -> Result:
    problem = f"cannot be kept in the outbox: {exc.strerror}"
    return Result(
        ResultKind.HELD, problem, Scope.ACCOUNT, "The folder of the outbox cannot be written"
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
    """From the header: the file's own time would change when the email is sent again."""
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
