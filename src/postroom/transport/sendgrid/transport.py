"""`sendgrid://` — SendGrid's HTTP API v3, up to 1,000 recipients a call.

One call carries the message once, with placeholders, and each recipient's values beside it. It is
accepted or not as a whole (202); addresses that SendGrid does not take (400 names their positions)
are taken out, and the others are sent again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2
import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.placeholders import Parts
from postroom.transport.contract import Result, ResultKind, Transport, TransportError, Watcher
from postroom.transport.sendgrid.batch import SendgridBatch, TemplatedMailing
from postroom.transport.sendgrid.calls import MOST_RECIPIENTS, Calls, Email
from postroom.transport.sendgrid.responses import Answer, answer_of
from postroom.transport.waiting import wait_although_cancelled

__all__ = ["API", "Parts", "SendgridTransport", "TemplatedMailing", "base_url_of"]

API = "https://api.sendgrid.com"
CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 120.0  # shorter ones make duplicates
PATIENCE_SECONDS = 5.0  # a rate limit that ends within it is waited for
GRACE_SECONDS = 5.0  # that a cancelled `send` waits for answers


class SendgridTransport(Transport):
    def __init__(
        self,
        api_key: str,
        *,
        base_url: str = API,
        connections: int = 8,
        answer_seconds: float = ANSWER_SECONDS,
        patience: float = PATIENCE_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise TransportError("the API key of SendGrid contains what no key can: set it again")
        self._base_url = base_url.rstrip("/")
        self._patience = patience
        self._grace = grace
        self._not_before = 0.0  # time.monotonic, after a rate limit
        self._connections = connections
        self._calls = Calls(self._send_all, connections)
        self._client = httpx2.AsyncClient(
            base_url=self._base_url,
            headers={"Authorization": f"Bearer {api_key}", "User-Agent": "postroom"},
            timeout=httpx2.Timeout(answer_seconds, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=connections),
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"SendgridTransport({self._base_url})"

    @property
    def at_once(self) -> int:
        """One call under way and one that is being collected, or a page for each connection."""
        return max(2 * MOST_RECIPIENTS, self._connections * PAGE_SIZE)

    async def send(
        self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher
    ) -> list[Result]:
        if not recipients:
            return []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finished() -> None:
            if not done.done():
                done.set_result(None)

        batch = SendgridBatch(mailing, recipients, watcher, finished)
        self._calls.add(batch, batch.prepare())
        try:
            await asyncio.wait((done,))
        except asyncio.CancelledError:
            batch.cancel()
            await wait_although_cancelled(done, self._grace)
            batch.doubt("cancelled")
            raise
        return batch.results

    async def check(self) -> str:
        """The scopes of the key say whether it may send."""
        try:
            response = await self._client.get("/v3/scopes", timeout=30.0)
        except httpx2.HTTPError as exc:
            raise TransportError(f"{self._base_url} cannot be reached: {_reason(exc)}") from exc
        answer = answer_of(response.status_code, response.content, response.headers)
        if response.status_code in (401, 403):
            raise TransportError(f"SendGrid does not accept the API key: {answer.text}")
        if response.status_code != 200:
            raise TransportError(f"{self._base_url} does not work: {answer.text}")
        scopes = response.json().get("scopes", [])
        if "mail.send" not in scopes:
            raise TransportError("the API key of SendGrid may not send: give it 'Mail Send'")
        return f"{self._base_url}: the API key may send"

    async def close(self) -> None:
        await self._calls.close()
        await self._client.aclose()

    async def _send_all(self, emails: list[Email]) -> None:
        """Send until each of these is settled: fewer with every call, so it ends."""
        waiting = [emails]
        while waiting:
            current = [each for each in waiting.pop() if not each[0].cancelled]
            if not current:
                continue
            answer = await self._call(current)
            if answer is None:  # some of them were cancelled in the last moment
                waiting.append(current)
                continue
            refused = answer.refused(len(current))
            for index, reply in refused.items():
                _settle(current[index], Result(ResultKind.REFUSED, reply, reason=_BAD_ADDRESS))
            left = [each for index, each in enumerate(current) if index not in refused]
            if refused:
                waiting += [left] if left else []
            elif answer.status == 413 and len(left) > 1:
                middle = len(left) // 2
                waiting += [left[middle:], left[:middle]]
            else:
                for each in left:
                    _settle(each, answer.result)

    async def _call(self, emails: list[Email]) -> Answer | None:
        wait = self._not_before - time.monotonic()
        if 0 < wait <= self._patience:
            await asyncio.sleep(wait)
        written = _Written(emails)
        batch = emails[0][0]
        personal = [each.personal[position] for each, position in emails]
        try:
            response = await self._client.post(
                "/v3/mail/send",
                content=msgspec.json.encode({**batch.common, "personalizations": personal}),
                headers={"Content-Type": "application/json"},
                extensions={"trace": written.trace},
            )
        except _Cancelled:
            return None
        except httpx2.HTTPError as exc:
            return Answer(0, _reason(exc), in_doubt=written.completely)
        except Exception as exc:  # whatever it is: nobody may wait for ever
            return Answer(0, repr(exc), in_doubt=written.completely)
        answer = answer_of(response.status_code, response.content, response.headers)
        if answer.retry_after:
            self._not_before = time.monotonic() + answer.retry_after
        return answer


_BAD_ADDRESS = "SendGrid does not accept this address"


def _settle(email: Email, result: Result) -> None:
    batch, position = email
    batch.settle(position, result)


class _Cancelled(Exception):
    """An email of a call was cancelled before the call was written."""


class _Written:
    """How much of a request has left, from the trace of the HTTP client."""

    def __init__(self, emails: list[Email]) -> None:
        self._emails = emails
        self.completely = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith("send_request_body.started"):
            if any(batch.cancelled for batch, _ in self._emails):
                raise _Cancelled
            for batch, position in self._emails:
                batch.hand_over(position)
            self.completely = True
        elif event.endswith("send_request_body.failed"):
            # A broken connection took nothing of it; of a slow one nobody knows.
            self.completely = not isinstance(info.get("exception"), httpcore2.WriteError)


def base_url_of(rest: str) -> str:
    """From what follows `sendgrid:`: another host than SendGrid's own. HTTP only to ourselves."""
    parts = urlsplit(f"x:{rest}")
    host = parts.hostname or ""
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", host) or parts.username or parts.path.strip("/"):
        raise Invalid("transport", "sendgrid:// is followed by nothing, or by host and port")
    scheme = "http" if host in ("127.0.0.1", "localhost", "::1") else "https"
    return f"{scheme}://{parts.netloc}"


def _reason(exc: httpx2.HTTPError) -> str:
    return " ".join(f"{type(exc).__name__} {exc}".split())
