"""Reading an index part by part: where each response begins, and the token for the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from postroom.domain.errors import Invalid, NoSuch
from postroom.storage import InvalidValue
from postroom.storage.codec import decode_token, encode_token

_NOT_OURS = "must be the 'next' of an earlier response of this collection"


class IndexName(StrEnum):
    LISTS = "lists"
    SUBSCRIBERS = "subscribers"
    SEGMENTS = "segments"
    SUPPRESSIONS = "suppressions"
    MESSAGES = "messages"
    EMAILS = "emails"
    TEMPLATES = "templates"
    PEOPLE = "people"
    MEDIA = "media"
    PROVIDERS = "providers"
    WARM_UPS = "warm-ups"
    QUEUES = "queues"
    QUEUE_MESSAGES = "queue-messages"
    APPS = "apps"


class Cursor:
    """Where a response of one index begins: `last` is what the one before ended with.

    The `next` of an index names the index and its owner: `["subscribers", "news", …]`. So the token
    of another index is refused instead of being taken for a place in this one.
    """

    def __init__(self, after: str | None, index: IndexName, *owner: str) -> None:
        self._names = (index.value, *owner)
        self.last = None if after is None else self._last(after)

    def next(self, last: str | None) -> str | None:
        """Return the token to continue after `last`; None at the end."""
        return None if last is None else encode_token(*self._names, last)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Refuse a `last` that the store never gave, around the code that reads from it."""
        try:
            yield
        except InvalidValue as exc:
            if self.last is None:
                raise
            raise Invalid("after", _NOT_OURS) from exc

    def _last(self, after: str) -> str:
        parts = _parts(after)
        if tuple(parts[:-1]) != self._names:
            raise Invalid("after", _NOT_OURS)
        return parts[-1]


def _parts(after: str) -> list[str]:
    """Return the contents of a token of any index.

    The OpenAPI document describes what tokens look like, not which exist: one that only looks right
    is 'not found'.
    """
    for length in (3, 2, 1):
        try:
            return decode_token(after, length)
        except InvalidValue:
            continue
    if after.startswith(_BEGINNINGS):  # one of our tokens, truncated
        raise Invalid("after", _NOT_OURS)
    raise NoSuch("page after", after)


# Base64 of `["lists`: six bits to a character, and the last ones depend on what follows.
_BEGINNINGS = tuple(encode_token(index)[: (len(index) + 2) * 8 // 6] for index in IndexName)
