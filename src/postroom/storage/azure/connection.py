"""The connection to the account: clients that share one HTTP session, and calls with retries.

The SDK's own retries are switched off: they differ between services and are invisible to us.
`Connection.run` retries all calls in the same way. It has to know of earlier attempts to understand
a response: a row that 'already exists' may be the one that the first attempt wrote before its
response was lost.
"""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import aiohttp
from azure.core.pipeline.transport import AioHttpTransport
from azure.data.tables.aio import TableServiceClient
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from postroom.storage.azure.errors import FAULTS, Failure, Outcome, Refused, failure_of
from postroom.storage.azure.storage_account import Account
from postroom.storage.errors import StoreClosed, StoreUnavailable

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""How long a call retries before it raises `StoreUnavailable`."""

OPENING_PATIENCE_SECONDS: Final = 4.0
"""The same while a store is opened: a person may be waiting."""

IDENTITY_PATIENCE_SECONDS: Final = 20.0
"""Opening by managed identity asks several services for a token first, some of them slow."""

DELETION_SECONDS: Final = 90.0
"""Azure frees the name of a dropped queue or container after 30 s, that of a table after 40 s or
more; a write to it waits that long."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

# One block of a blob; a smaller blob is one request.
BLOCK_BYTES: Final = 4 * 1024 * 1024
_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 30.0

# Larger bodies are written in parts: aiohttp would block the event loop, and warns of it.
_AT_ONCE_BYTES: Final = 1024 * 1024


class Connection:
    """The three services of one account. `requests` counts the requests to each."""

    def __init__(self, account: Account) -> None:
        self.location = account.location
        self.requests: Counter[str] = Counter()
        self.patience = IDENTITY_PATIENCE_SECONDS if account.identity else OPENING_PATIENCE_SECONDS
        self._identity = account.identity
        self._session = new_session()
        self._closed = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        credential: Any = account.credential
        self.tables = TableServiceClient(
            account.endpoints["table"], credential=credential, **self._options("table")
        )
        self.queues = QueueServiceClient(
            account.endpoints["queue"], credential=credential, **self._options("queue")
        )
        self.blobs = BlobServiceClient(
            account.endpoints["blob"],
            credential=credential,
            max_single_put_size=BLOCK_BYTES,
            max_single_get_size=BLOCK_BYTES,
            max_chunk_get_size=BLOCK_BYTES,
            **self._options("blob"),
        )

    def _options(self, service: str) -> dict[str, Any]:
        transport = CountedTransport(service, self._session, self.requests)
        return {"transport": transport, "retry_total": 0, "logging_enable": False}

    async def run(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        repeatable: bool = False,
        make: Callable[[], Awaitable[object]] | None = None,
        await_deletion: bool = False,
        tolerate_crash: bool = False,
    ) -> T:
        """Make a call, retry it while that may help, and return its result.

        - `Refused` is a definite response of the service.
        - `repeatable`: making the call twice has the same effect as once. Otherwise a refusal after
          an attempt whose response was lost proves nothing: the outcome is unknown, and
          `StoreUnavailable` is raised.
        - `make` creates the table, queue or container if it does not exist.
        - `await_deletion` waits until the name of a dropped one is free again.
        - `tolerate_crash` raises a response 500 without an error code as `Refused`.
        """
        async with self._counted():
            attempts = _Attempts(self.patience, self.location)
            while True:
                result, failure = await _attempt(call, attempts.remaining)
                if failure is None:
                    return cast(T, result)
                refused = failure.refused
                if refused and refused.place_missing and make is not None:
                    await make()
                    await attempts.pause_if_repeated(failure)
                elif refused and refused.place_being_deleted and (await_deletion or make):
                    attempts.allow(DELETION_SECONDS)
                    await attempts.pause(failure)
                elif refused and tolerate_crash and refused.status == 500 and not refused.code:
                    raise refused
                elif failure.outcome is Outcome.REFUSED:
                    raise self._final(failure, in_doubt=attempts.in_doubt and not repeatable)
                else:
                    await attempts.pause(failure)

    async def create(self, call: Callable[[], Awaitable[object]]) -> None:
        """Create a table, queue or container, unless another caller just did."""
        try:
            await self.run(call, repeatable=True, await_deletion=True)
        except Refused as refused:
            if not refused.already_exists:
                raise

    async def drop(self, call: Callable[[], Awaitable[object]]) -> None:
        """Remove a queue or container, if it exists."""
        try:
            await self.run(call, repeatable=True)
        except Refused as refused:
            if not refused.nothing_there:
                raise

    def _final(self, failure: Failure, *, in_doubt: bool) -> Exception:
        error = failure.error(self.location)
        if in_doubt and isinstance(error, Refused):
            return StoreUnavailable(
                f"Azure Storage at {self.location}: the response to a write was lost, and a retry"
                f" got {failure.reason}; it is unknown whether the write took effect"
            )
        return error

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        if self._closed:
            raise StoreClosed("this store has been closed")
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def close(self) -> None:
        """Refuse new calls, wait for running ones, then close the session and the credential."""
        self._closed = True
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            pass  # calls that still hang fail when the session closes
        await self._session.close()
        if self._identity is not None:
            await self._identity.close()


class _Attempts:
    """The attempts of one call: how long to continue, and how long to pause."""

    def __init__(self, seconds: float, location: str) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._location = location
        self._pause = _FIRST_PAUSE
        self._repeated = False
        self.in_doubt = False

    @property
    def remaining(self) -> float:
        return self._started + self._seconds - time.monotonic()

    def allow(self, seconds: float) -> None:
        self._seconds = max(self._seconds, seconds)

    async def pause_if_repeated(self, failure: Failure) -> None:
        """Continue immediately the first time: what was missing has just been created."""
        if self._repeated:
            await self.pause(failure)
        self._repeated = True

    async def pause(self, failure: Failure) -> None:
        """Wait before the next attempt, longer each time; `StoreUnavailable` if time is up."""
        self.in_doubt = self.in_doubt or failure.outcome is Outcome.UNKNOWN
        # Random, so that callers that were refused together do not return together.
        pause = max(self._pause * random.uniform(0.5, 1.0), failure.retry_after)
        if pause >= self.remaining:
            raise StoreUnavailable(
                f"Azure Storage at {self._location} does not respond: {failure.reason}"
            )
        await asyncio.sleep(pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


async def _attempt(
    call: Callable[[], Awaitable[T]], seconds: float
) -> tuple[T | None, Failure | None]:
    """Make one attempt. A failure is returned, not raised, so that the SDK's error does not become
    the cause of ours."""
    try:
        async with asyncio.timeout(seconds):
            return await call(), None
    except FAULTS as fault:
        return None, failure_of(fault)


def new_session() -> aiohttp.ClientSession:
    """Return a session like the SDK's own: without cookies, and without decompressing responses."""
    return aiohttp.ClientSession(
        trust_env=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        middlewares=(_never_resend,),
    )


async def _never_resend(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Report a lost response in a way that does not make aiohttp resend a PUT or DELETE: we have to
    know of every retry."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as exc:
        raise aiohttp.ClientConnectionError(str(exc)) from exc


class CountedTransport(AioHttpTransport):  # type: ignore[misc]  # untyped in the SDK
    """One service's use of the session. Counts every request, including retries.

    It must be a subclass of the SDK's own transport: signatures depend on it.
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
