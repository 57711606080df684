"""Going on after an earlier answer.

What an index gives as `next` names the index, and whose it is: `["subscribers", "news", …]`. So the
token of another one is refused instead of being taken for a place in this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from postroom.domain.errors import Invalid, NoSuch
from postroom.storage import InvalidValue
from postroom.storage.tokens import decode_token, encode_token

_NOT_OURS = "is not the 'next' of an earlier answer of this index"


class Kind(StrEnum):
    """The indexes that there are."""

    LISTS = "lists"
    SUBSCRIBERS = "subscribers"
    MESSAGES = "messages"
    EMAILS = "emails"
    QUEUES = "queues"
    QUEUE_MESSAGES = "queue-messages"
    APPS = "apps"


class Place:
    """Where an answer of one index begins: `last` is what the one before ended with."""

    def __init__(self, after: str | None, kind: Kind, *whose: str) -> None:
        self._named = (kind.value, *whose)
        self.last = None if after is None else self._last(after)

    def next(self, last: str | None) -> str | None:
        """The token to go on behind `last`; None at the end."""
        return None if last is None else encode_token(*self._named, last)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Around what reads a page: `last` may be nothing that the store has given."""
        try:
            yield
        except InvalidValue as exc:
            if self.last is None:
                raise
            raise Invalid("after", _NOT_OURS) from exc

    def _last(self, after: str) -> str:
        parts = _parts(after)
        if tuple(parts[:-1]) != self._named:
            raise Invalid("after", _NOT_OURS)
        return parts[-1]


def _parts(after: str) -> list[str]:
    """What a token of any index says.

    The document says how tokens look, not which were given: what only looks like one is not found.
    """
    for length in (3, 2, 1):
        try:
            return decode_token(after, length)
        except InvalidValue:
            continue
    if after.startswith(_BEGINNINGS):  # one of ours, cut off
        raise Invalid("after", _NOT_OURS)
    raise NoSuch("page after", after)


# Base64 of `["lists`: six bits to a character, and the last ones depend on what follows.
_BEGINNINGS = tuple(encode_token(kind)[: (len(kind) + 2) * 8 // 6] for kind in Kind)
