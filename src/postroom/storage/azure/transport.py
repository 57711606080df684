"""One HTTP session for the clients of all three services, and a count of what goes through it."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, Final

import aiohttp
from azure.core.pipeline.transport import AioHttpTransport

_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 30.0

# Larger bodies are written in parts: aiohttp would hold up the event loop, and warns of it.
_AT_ONCE_BYTES: Final = 1024 * 1024


def new_session() -> aiohttp.ClientSession:
    """A session like the SDK's own: without cookies, and without touching what comes in."""
    return aiohttp.ClientSession(
        trust_env=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        middlewares=(_never_resend,),
    )


async def _never_resend(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Report a lost reply in a way that does not make aiohttp send a PUT or DELETE again. We must
    know of it: a refusal means something else after a resend (see `connection.py`)."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as exc:
        raise aiohttp.ClientConnectionError(str(exc)) from exc


class CountedTransport(AioHttpTransport):  # type: ignore[misc]  # the SDK gives it no type
    """One service's use of the session. Counts every request, repeated ones too.

    It has to be one of the SDK's own kind: signatures depend on it.
    """

    def __init__(
        self, service: str, session: aiohttp.ClientSession, requests: Counter[str]
    ) -> None:
        super().__init__(
            session=session,
            session_owner=False,
            connection_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
        )
        self._service = service
        self._requests = requests

    async def send(self, request: Any, **options: Any) -> Any:
        self._requests[self._service] += 1
        return await super().send(request, **options)

    def _get_request_data(self, request: Any) -> Any:
        data = super()._get_request_data(request)
        large = isinstance(data, bytes) and len(data) > _AT_ONCE_BYTES
        return io.BytesIO(data) if large else data
