"""An email provider's HTTP API as a transport."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import httpcore2
import httpx2
import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.errors import PostroomError
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.batch import CLOSED, BatchEmail, EmailBatch
from postroom.transport.contract import (
    INVALID_ADDRESS,
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    TransportError,
    Watcher,
)
from postroom.transport.http.provider import (
    HttpProvider,
    HttpResponse,
    TemplatedMailing,
    call_result,
    read_response,
)

CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 120.0  # a shorter one causes duplicates
PATIENCE_SECONDS = 5.0  # a rate limit that ends within it is waited for
GRACE_SECONDS = 5.0  # how long a cancelled `send` waits for responses
CHECK_SECONDS = 30.0
COLLECT_SECONDS = 0.01  # how long emails wait for others of the same mailing


class HttpEmail(BatchEmail, eq=False, kw_only=True):
    """One email, with its part of a call."""

    template: TemplatedMailing
    """Calls carry emails of one template."""
    common: Mapping[str, object]
    personal: Mapping[str, object]

    def settle_unanswered(self, problem: str) -> None:
        """Leave it in doubt if it was handed over and has no result yet."""
        if self.is_handed_over:
            self.settle(Result(ResultKind.IN_DOUBT, problem))


class CallQueue:
    """Joins emails of overlapping sends into calls, and starts a limited number of them at once.

    The sender sends one page of 100 emails at a time; a call may carry more. So emails wait a few
    milliseconds for others of the same mailing, and longer only while all connections are busy.
    Each email still belongs to its own batch, which gets its result.
    """

    def __init__(
        self,
        call: Callable[[list[HttpEmail]], Coroutine[None, None, None]],
        *,
        most_calls: int,
        most_emails: int,
    ) -> None:
        self._call = call
        self._most_calls = most_calls
        self._most_emails = most_emails
        self._waiting: dict[int, list[HttpEmail]] = {}  # by the identity of their template
        self._running: dict[asyncio.Task[None], list[HttpEmail]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, emails: list[HttpEmail]) -> None:
        """Queue emails of one batch."""
        for email in emails:
            self._waiting.setdefault(id(email.template), []).append(email)
        if emails and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(COLLECT_SECONDS, self._start)

    async def close(self) -> None:
        """Cancel all calls: emails without a response are in doubt, queued ones are deferred."""
        left = [each for emails in self._waiting.values() for each in emails]
        left += [each for emails in self._running.values() for each in emails]
        self._waiting.clear()
        if self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)
        for email in left:
            email.settle_unanswered("closed")
            email.settle(CLOSED)

    def _start(self) -> None:
        """Start calls for the queued emails while connections are free."""
        self._timer = None
        while self._waiting and len(self._running) < self._most_calls:
            template, emails = next(iter(self._waiting.items()))
            if len(emails) <= self._most_emails:
                del self._waiting[template]
            else:
                self._waiting[template] = emails[self._most_emails :]
            emails = emails[: self._most_emails]
            task = asyncio.get_running_loop().create_task(self._call(emails))
            self._running[task] = emails
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.result()
            self._start()


class HttpTransport(Transport):
    def __init__(
        self,
        provider: HttpProvider,
        *,
        base_url: str = "",
        connections: int = 8,
        answer_seconds: float = ANSWER_SECONDS,
        patience: float = PATIENCE_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._provider = provider
        self._base_url = (base_url or provider.api_url).rstrip("/")
        self._patience = patience
        self._grace = grace
        self._not_before = 0.0  # time.monotonic, after a rate limit
        self._connections = connections
        self._queue = CallQueue(
            self._send_all, most_calls=connections, most_emails=provider.most_recipients
        )
        self._client = httpx2.AsyncClient(
            base_url=self._base_url,
            headers={**provider.request_headers(), "User-Agent": "postroom"},
            timeout=httpx2.Timeout(answer_seconds, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=connections),
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"HttpTransport({self._provider.name}, {self._base_url})"

    @property
    def keeps_bytes(self) -> bool:
        return False

    @property
    def concurrency(self) -> int:
        """One call in progress and one being collected, or a page for each connection."""
        return max(2 * self._provider.most_recipients, self._connections * PAGE_SIZE)

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        batch = EmailBatch(mailing, recipients, watcher)
        emails = self._prepare(batch)
        self._queue.add(emails)

        def give_up() -> None:
            for email in emails:
                email.settle_unanswered("cancelled")

        return await batch.wait(self._grace, give_up)

    async def check(self) -> str:
        try:
            found = await self._client.get(self._provider.check_path, timeout=CHECK_SECONDS)
        except httpx2.HTTPError as exc:
            raise TransportError(f"{self._base_url} cannot be reached: {_reason(exc)}") from exc
        response = read_response(self._provider, found.status_code, found.content, found.headers)
        if response.status in (401, 403):
            raise TransportError(f"{self._provider.name} rejects the API key: {response.text}")
        if not response.is_success:
            raise TransportError(f"{self._base_url} does not work: {response.text}")
        return f"{self._base_url}: {self._provider.check(response, found.content)}"

    async def close(self) -> None:
        await self._queue.close()
        await self._client.aclose()

    def _prepare(self, batch: EmailBatch) -> list[HttpEmail]:
        """Return the emails that can be sent; settle the others."""
        provider, mailing = self._provider, batch.mailing
        prepared: list[HttpEmail] = []
        try:
            if not isinstance(mailing, TemplatedMailing):
                raise Invalid("message", f"cannot be sent by {provider.name}: it has no templates")
            known: dict[int, tuple[TemplatedMailing, Mapping[str, object]]] = {}
            for position, recipient in enumerate(batch.recipients):
                template = mailing.variant(recipient)
                if id(template) not in known:
                    known[id(template)] = template, provider.common(template)
                try:
                    personal = provider.personal(template, recipient)
                except Invalid as exc:
                    refused = Result(ResultKind.REFUSED, str(exc), reason=INVALID_ADDRESS)
                    BatchEmail(batch, position).settle(refused)
                else:
                    _, common = known[id(template)]
                    prepared.append(
                        HttpEmail(
                            batch, position, template=template, common=common, personal=personal
                        )
                    )
        except Exception as exc:  # `send` raises nothing for a message, whatever is wrong with it
            problem = str(exc) if isinstance(exc, Invalid) else repr(exc)
            reason = f"The message cannot be sent by {provider.name}"
            held = Result(ResultKind.HELD, problem, FaultScope.MESSAGE, reason)
            for position in range(len(batch.recipients)):
                BatchEmail(batch, position).settle(held)
            return []
        return prepared

    async def _send_all(self, emails: list[HttpEmail]) -> None:
        """Call until each of these is settled: with fewer emails each time, so it ends."""
        waiting = [emails]
        while waiting:
            current = [each for each in waiting.pop() if not each.batch.cancelled]
            if not current:
                continue
            response = await self._call(current)
            if response is None:  # some of them were cancelled at the last moment
                waiting.append(current)
                continue
            named = self._provider.results(response, len(current))
            for index, result in named.items():
                current[index].settle(result)
            left = [each for index, each in enumerate(current) if index not in named]
            if named and not response.is_success:
                waiting += [left] if left else []
            elif response.status == 413 and len(left) > 1:
                middle = len(left) // 2
                waiting += [left[middle:], left[:middle]]
            else:
                for each in left:
                    each.settle(call_result(self._provider, response))

    async def _call(self, emails: list[HttpEmail]) -> HttpResponse | None:
        wait = self._not_before - time.monotonic()
        if 0 < wait <= self._patience:
            await asyncio.sleep(wait)
        progress = _WriteProgress(emails)
        body = self._provider.body(emails[0].common, [each.personal for each in emails])
        try:
            found = await self._client.post(
                self._provider.send_path,
                content=msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
                extensions={"trace": progress.trace},
            )
        except _Cancelled:
            return None
        except httpx2.HTTPError as exc:
            return HttpResponse(0, _reason(exc), in_doubt=progress.is_complete)
        except Exception as exc:  # emails must not wait forever
            return HttpResponse(0, repr(exc), in_doubt=progress.is_complete)
        response = read_response(self._provider, found.status_code, found.content, found.headers)
        if response.retry_after:
            self._not_before = time.monotonic() + response.retry_after
        return response


class _Cancelled(PostroomError):
    """An email of a call was cancelled before the call was written."""


class _WriteProgress:
    """How much of a request has been written, from the trace of the HTTP client."""

    def __init__(self, emails: list[HttpEmail]) -> None:
        self._emails = emails
        self.is_complete = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith("send_request_body.started"):
            if any(each.batch.cancelled for each in self._emails):
                raise _Cancelled
            for email in self._emails:
                email.hand_over()
            self.is_complete = True
        elif event.endswith("send_request_body.failed"):
            # Nothing was written to a broken connection; after a timeout it is unknown.
            self.is_complete = not isinstance(info.get("exception"), httpcore2.WriteError)


def _reason(exc: httpx2.HTTPError) -> str:
    return " ".join(f"{type(exc).__name__} {exc}".split())
