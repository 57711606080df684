"""The way to the account: clients that share one HTTP session, and calls that do not give up early.

The SDK could try again by itself, but it does so for each service differently and does not tell.
Here it is switched off, and `Connection.run` does it for all calls in one way, because only who
knows that a call was tried before can read the answer: a row that 'already exists' may be the one
that the first try wrote before its answer was lost.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

from azure.data.tables.aio import TableServiceClient
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from postroom.storage.azure.account import Account
from postroom.storage.azure.errors import FAULTS, Failure, Outcome, Refused, failure_of
from postroom.storage.azure.transport import CountedTransport, new_session
from postroom.storage.errors import StoreClosed, StoreUnavailable

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""How long a call tries before it says that the store is unavailable."""

OPENING_PATIENCE_SECONDS: Final = 4.0
"""The same while a store is opened: somebody waits at a command line."""

IDENTITY_PATIENCE_SECONDS: Final = 20.0
"""Opening by managed identity asks several places for a token first, some of them slow."""

DELETION_SECONDS: Final = 90.0
"""Azure frees the name of a dropped queue or container after 30 s, that of a table after 40 s or
more; a write to it waits that long."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

# One block of a blob; what is smaller goes in one request.
BLOCK_BYTES: Final = 4 * 1024 * 1024


class Connection:
    """The three services of one account. `requests` counts what was sent to each."""

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
        """Do a call, again and again while there is hope, and answer what it answers.

        - `Refused` is the service's clear answer.
        - `repeatable` says that doing it twice is the same as once. Otherwise a refusal after a
          try whose answer was lost proves nothing: `StoreUnavailable`, the outcome is unknown.
        - `make` makes the table, queue or container if that is what is missing.
        - `await_deletion` waits until the name of one that was dropped is free again.
        - `tolerate_crash` gives an answer 500 without an error code back as `Refused`.
        """
        async with self._counted():
            tries = _Tries(self.patience, self.location)
            while True:
                result, failure = await _attempt(call, tries.remaining)
                if failure is None:
                    return cast(T, result)
                refused = failure.refused
                if refused and refused.place_missing and make is not None:
                    await make()
                    await tries.pause_if_repeated(failure)
                elif refused and refused.place_being_deleted and (await_deletion or make):
                    tries.allow(DELETION_SECONDS)
                    await tries.pause(failure)
                elif refused and tolerate_crash and refused.status == 500 and not refused.code:
                    raise refused
                elif failure.outcome is Outcome.REFUSED:
                    raise self._final(failure, in_doubt=tries.in_doubt and not repeatable)
                else:
                    await tries.pause(failure)

    async def create(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a table, queue or container. That somebody else just did is fine."""
        try:
            await self.run(call, repeatable=True, await_deletion=True)
        except Refused as refused:
            if not refused.already_made:
                raise

    async def drop(self, call: Callable[[], Awaitable[object]]) -> None:
        """Remove a queue or container. That there is none is fine."""
        try:
            await self.run(call, repeatable=True)
        except Refused as refused:
            if not refused.nothing_there:
                raise

    def _final(self, failure: Failure, *, in_doubt: bool) -> Exception:
        error = failure.error(self.location)
        if in_doubt and isinstance(error, Refused):
            return StoreUnavailable(
                f"Azure Storage at {self.location}: the answer to a write was lost, and another"
                f" try was answered with {failure.reason}; whether it was done is unknown"
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
        """No new calls; those under way end; then the session and the token's source close."""
        self._closed = True
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            pass  # what still hangs fails with the session
        await self._session.close()
        if self._identity is not None:
            await self._identity.close()


class _Tries:
    """How often and how long a call is tried."""

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
        """The first time, what was missing has just been made: go on at once."""
        if self._repeated:
            await self.pause(failure)
        self._repeated = True

    async def pause(self, failure: Failure) -> None:
        """Wait before the next try, longer each time; `StoreUnavailable` if there is none."""
        self.in_doubt = self.in_doubt or failure.outcome is Outcome.UNKNOWN
        # Different pauses, so that those who were turned away together do not come back together.
        pause = max(self._pause * random.uniform(0.5, 1.0), failure.retry_after)
        if pause >= self.remaining:
            raise StoreUnavailable(
                f"Azure Storage at {self._location} does not answer: {failure.reason}"
            )
        await asyncio.sleep(pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


async def _attempt(
    call: Callable[[], Awaitable[T]], seconds: float
) -> tuple[T | None, Failure | None]:
    """One try. A failure is answered, not raised, so that the SDK's error is no cause of ours."""
    try:
        async with asyncio.timeout(seconds):
            return await call(), None
    except FAULTS as fault:
        return None, failure_of(fault)
