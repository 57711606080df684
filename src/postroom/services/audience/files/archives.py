"""Files to import: a CSV file, or a zip archive of some, such as the exports of Mailchimp and
Substack.

The members of an archive are copied to temporary files, as far as their size allows. Those whose
name says that their addresses must not receive email come first, so that an interrupted import
never leaves such an address in use.
"""

from __future__ import annotations

import errno
import lzma
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown
from postroom.services.audience.files.columns.meanings import Standing
from postroom.services.audience.files.tools import standing_of_file

MOST_MEMBERS: Final = 20
LARGEST_CONTENT: Final = 2 * 1024**3
_PIECE: Final = 1024 * 1024
_SUFFIXES: Final = (".csv", ".tsv", ".txt")
_SUBSCRIBERS: Final = "email_list."
"""How the one file begins that has subscribers, among all the posts of Substack's archive."""
_DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError,
    ValueError,
)  # fmt: skip
# `bz2` gives no number. A position before the beginning is EINVAL. A full disk is another matter.
_DAMAGED_NUMBERS: Final = (None, errno.EINVAL)


class FilePart(msgspec.Struct, frozen=True):
    """A CSV file. In an archive it has a name, which may give the status of its addresses."""

    file: BinaryIO
    name: str = ""
    least: tuple[Standing, str] | None = None
    size: int = 0


@contextmanager
def opened_parts(file: BinaryIO) -> Iterator[list[FilePart]]:
    """Yield the CSV files of an upload, the strictest first. It blocks. `Invalid`."""
    file.seek(0)
    is_archive = file.read(4) == b"PK\x03\x04"
    file.seek(0)
    if not is_archive:
        yield [FilePart(file)]
        return
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
            parts = [_extracted(stack, archive, each) for each in _members(archive)]
        except Invalid:
            raise
        except (*_DAMAGED, OSError) as exc:
            if isinstance(exc, OSError) and exc.errno not in _DAMAGED_NUMBERS:
                raise
            raise Invalid("file", f"the archive cannot be read: {exc}") from exc
        parts.sort(key=lambda each: -(each.least[0] if each.least else 0))
        yield parts


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = [
        each
        for each in archive.infolist()
        if each.filename.lower().endswith(_SUFFIXES) and not each.filename.startswith("__MACOSX")
    ]
    subscribers = [each for each in members if _base(each).startswith(_SUBSCRIBERS)]
    members = subscribers or members
    if not 1 <= len(members) <= MOST_MEMBERS:
        problem = f"the archive must have 1 to {MOST_MEMBERS} CSV files, not {len(members)}"
        raise Invalid("file", problem)
    size = sum(each.file_size for each in members)
    if size > LARGEST_CONTENT:
        raise Invalid("file", f"the archive must have at most {LARGEST_CONTENT:,} bytes of files")
    return members


def _base(member: zipfile.ZipInfo) -> str:
    return member.filename.rpartition("/")[2].lower()


def _extracted(stack: ExitStack, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> FilePart:
    copy: BinaryIO = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack
    size = 0
    with archive.open(member) as source:
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > member.file_size:  # it is larger than it claims
                raise Invalid("file", "the archive is damaged")
            copy.write(piece)
    return FilePart(copy, shown(member.filename), standing_of_file(member.filename), size)
