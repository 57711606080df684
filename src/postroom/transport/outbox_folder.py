"""The folder of the outbox, as the page Outbox uses it: list, search, read and delete emails.

File names sort by date and show the recipient:

    20261115T080000Z-alice@example.com-3f2a9c0d1e4b5a67.eml

The last part is a digest of the Message-ID, and the date is the email's own: the same email, sent
again, replaces itself. Deleted emails wait in `.deleted/BATCH` for a while, so that deleting them
can be undone.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from postroom.domain.errors import Invalid, NoSuch
from postroom.folders import make_private
from postroom.mail.mail_reader import read_subject

UNDO_SECONDS = 600.0
"""How long deleted emails can be restored. The next look into the folder removes older ones."""

_HEADERS = 16 * 1024  # bytes that contain the subject
_LONGEST_NAME = 180  # characters of the recipient; file names are limited to 255 bytes
_SAFE = "@.+-_=!#$&'~"
_TIME = "%Y%m%dT%H%M%SZ"
_LONGEST_FILE_NAME = 255
_NAME = re.compile(r"(\d{8}T\d{6}Z)-(.+)-([0-9a-f]{16})\.eml", re.ASCII)
_DATE = re.compile(rb"^Date:[ \t]*([^\r\n]+)", re.IGNORECASE | re.MULTILINE)
_SUBJECT = re.compile(rb"^Subject:[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*", re.IGNORECASE | re.MULTILINE)
_OPENED_AT_ONCE = 1000  # emails whose subject is read for one page of results: about 50 ms
_DELETED = ".deleted"
_BATCH = re.compile(r"[0-9a-f]{16}", re.ASCII)


class OutboxMail(msgspec.Struct, frozen=True):
    """An email in the outbox. `name` is its file name."""

    name: str
    recipient: str
    date: datetime


class OutboxResults(msgspec.Struct, frozen=True):
    """Emails, newest first. `next` is the name to continue after, or "" at the end."""

    mails: list[OutboxMail]
    next: str


class OutboxFolder:
    def __init__(self, folder: Path) -> None:
        self.path = Path(folder)

    async def search(self, text: str = "", *, limit: int = 50, after: str = "") -> OutboxResults:
        """Return emails after the one named `after` whose recipient or subject contains the text,
        in upper or lower case. A search may end early, with fewer emails and a `next`."""
        return await asyncio.to_thread(self._search, text.strip().casefold(), limit, after)

    async def subjects(self, mails: Sequence[OutboxMail]) -> list[str]:
        """Return the subject of each; empty for one that no longer exists."""
        return await asyncio.to_thread(lambda: [self._subject(mail) for mail in mails])

    async def read(self, name: str) -> bytes:
        """Return one email as it would have been sent; raise `NoSuch` or `Invalid`."""
        _check_name(name)
        try:
            return await asyncio.to_thread((self.path / name).read_bytes)
        except FileNotFoundError as exc:
            raise NoSuch("email", name) from exc

    async def delete(self, names: Sequence[str]) -> tuple[int, str]:
        """Delete emails; return how many there were, and the batch that restores them. `Invalid`"""
        for name in names:
            _check_name(name)
        return await asyncio.to_thread(self._delete, names)

    async def restore(self, batch: str) -> int:
        """Restore deleted emails, and return how many; 0 if it is too late. `Invalid`"""
        if not _BATCH.fullmatch(batch):
            raise Invalid("batch", "must be the name of a batch of deleted emails")
        return await asyncio.to_thread(self._restore, batch)

    async def delete_all(self) -> int:
        """Delete all emails permanently, including those that could be restored; return how
        many."""
        return await asyncio.to_thread(self._delete_all)

    # — In a thread —

    def _search(self, text: str, limit: int, after: str) -> OutboxResults:
        self._forget_deleted()
        newest_first = self._names(after)
        newest_first.sort(reverse=True)
        if not text:
            mails = list(itertools.islice(_entries(newest_first), limit + 1))
            return OutboxResults(mails[:limit], mails[limit - 1].name if len(mails) > limit else "")
        return self._matching(text, _entries(newest_first), limit)

    def _matching(self, text: str, mails: Iterable[OutboxMail], limit: int) -> OutboxResults:
        found: list[OutboxMail] = []
        opened, last = 0, ""
        for mail in mails:
            if len(found) == limit or opened == _OPENED_AT_ONCE:
                return OutboxResults(found, last)
            last = mail.name
            if text in mail.recipient.casefold():
                found.append(mail)
                continue
            opened += 1
            if text in self._subject(mail).casefold():
                found.append(mail)
        return OutboxResults(found, "")

    def _names(self, after: str = "") -> list[str]:
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return [each for each in names if each.endswith(".eml") and (not after or each < after)]

    def _subject(self, mail: OutboxMail) -> str:
        try:
            with open(f"{self.path}/{mail.name}", "rb", buffering=0) as file:
                head = file.read(_HEADERS)
        except FileNotFoundError:
            return ""
        return _subject_in(head.partition(b"\r\n\r\n")[0])

    def _delete(self, names: Sequence[str]) -> tuple[int, str]:
        self._forget_deleted()
        batch = secrets.token_hex(8)
        to = self.path / _DELETED / batch
        make_private(to)
        return _move(names, self.path, to), batch

    def _restore(self, batch: str) -> int:
        waiting = self.path / _DELETED / batch
        try:
            names = os.listdir(waiting)
        except FileNotFoundError:
            return 0
        restored = _move(names, waiting, self.path)
        with suppress(OSError):
            waiting.rmdir()
        return restored

    def _delete_all(self) -> int:
        shutil.rmtree(self.path / _DELETED, ignore_errors=True)
        count = 0
        for mail in _entries(self._names()):
            with suppress(FileNotFoundError):
                os.unlink(self.path / mail.name)
                count += 1
        return count

    def _forget_deleted(self) -> None:
        """Remove deleted emails that can no longer be restored."""
        with suppress(FileNotFoundError), os.scandir(self.path / _DELETED) as batches:
            for each in batches:
                if each.stat().st_mtime < time.time() - UNDO_SECONDS:
                    shutil.rmtree(each.path, ignore_errors=True)


def file_name(mail: bytes, message_id: str, recipient: str) -> str:
    """Return the name of an email's file."""
    digest = hashlib.sha256(message_id.encode()).hexdigest()[:16]
    found = _DATE.search(mail, 0, mail.find(b"\r\n\r\n"))
    moment = _file_time(found[1] if found else b"")
    return f"{moment}-{quote(recipient, safe=_SAFE)[:_LONGEST_NAME]}-{digest}.eml"


@lru_cache(maxsize=64)
def _file_time(date: bytes) -> str:
    """Return the time in the Date header; the time of writing differs when it is sent again."""
    try:
        return parsedate_to_datetime(date.decode()).astimezone(UTC).strftime(_TIME)
    except ValueError:
        return datetime.fromtimestamp(0, UTC).strftime(_TIME)


def _entries(names: Iterable[str]) -> Iterator[OutboxMail]:
    for name in names:
        if found := _NAME.fullmatch(name):
            date = datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)
            yield OutboxMail(name, unquote(found[2]), date)


def _subject_in(headers: bytes) -> str:
    found = _SUBJECT.search(headers)
    if found is None:
        return ""
    if b"=?" in found[0]:  # encoded words, RFC 2047
        return read_subject(found[0] + b"\r\n\r\n")
    text = found[0].partition(b":")[2].decode(errors="replace")
    return text.replace("\r", "").replace("\n", "").strip()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or "/" in name or "\0" in name or len(name) > _LONGEST_FILE_NAME:
        raise Invalid("email", "must be the name of an email in the outbox")


def _move(names: Iterable[str], source: Path, to: Path) -> int:
    """Move files, and return how many of them existed."""
    count = 0
    for name in names:
        with suppress(FileNotFoundError):
            os.replace(source / name, to / name)
            count += 1
    return count
