"""Going on after an earlier answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from postroom.domain.errors import NoSuch
from postroom.storage import InvalidValue


@contextmanager
def going_on(after: str | None) -> Iterator[None]:
    """Around what reads a page: a token that looks right but was never given is not found."""
    try:
        yield
    except InvalidValue as exc:
        if after is None:
            raise
        raise NoSuch("page after", after) from exc
