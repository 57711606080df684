"""Files that commands write for their user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from postroom.errors import PostroomError
from postroom.folders import open_private

STANDARD = "-"
"""Stands for standard input or output."""


class FileError(PostroomError):
    """A file that cannot be read or written."""


@contextmanager
def written(target: str) -> Iterator[BinaryIO]:
    """Open a file for writing. It gets its name when it is complete.

    Only its owner can read it: it may contain addresses.
    """
    if target == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    part = path.with_name(f".{path.name}.part")
    try:
        with open_private(part) as file:
            yield file
        part.replace(path)
    except PostroomError:
        raise  # one of the store's, which may be an OSError too
    except OSError as exc:
        raise FileError(f"{target}: {exc.strerror}") from exc
    finally:
        part.unlink(missing_ok=True)
