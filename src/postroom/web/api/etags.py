"""ETags on the way out and in: a client sends back what it was given, quoted or not."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import quote, unquote

from starlette.requests import Request

from postroom.domain.errors import Overtaken

_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"  # what may stand between quotes, less '%', our escape
_TAGS = re.compile(r'(?:W/)?"([^"]*)"')
_LONGEST = 1000  # characters of a header; ours are far shorter


class Tagged(Protocol):
    @property
    def etag(self) -> str: ...


def shown_etag(etag: str) -> str:
    """The store's ETag as it can stand between quotes; Azure's have quotes of their own."""
    return quote(etag, safe=_SAFE)


async def matched_etag(
    request: Request, kind: str, name: str, read: Callable[[], Awaitable[Tagged]]
) -> str | None:
    """The ETag that the client's `If-Match` allows to be changed; None if it names none.

    `Overtaken` if what is there has none of those.
    """
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    current = (await read()).etag
    if current not in _wanted(given):
        raise Overtaken(kind, name)
    return current


def is_known(request: Request, etag: str) -> bool:
    """Return whether the client has this version already, as its `If-None-Match` says."""
    given = request.headers.get("if-none-match")
    return given is not None and (given.strip() == "*" or etag in _wanted(given))


def _wanted(given: str) -> set[str]:
    if len(given) > _LONGEST:
        return set()
    return {unquote(tag) for tag in _TAGS.findall(given)} or {unquote(given.strip())}
