"""Alerts: warnings and errors by email or webhook, each at least once.

| table    | partition | row       | holds                                         |
|----------|-----------|-----------|-----------------------------------------------|
| `alerts` | `alerts`  | `mail`, … | EventId: the last event this channel was sent |
| `alerts` | `alerts`  | `last`    | the same for all channels, by an old version  |

Any number of processes may run this; one at a time sends alerts. Channels do not wait for each
other: an alert that the mail server is down cannot go by email, and must still reach the webhook.
The last event of a channel is stored after it was sent, so a crash in between sends it again.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import ClassVar, Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.errors import PostroomError
from postroom.notices import NoFromAddress, NoticeSender, send_notice
from postroom.services.concurrency import run_periodically
from postroom.services.entities import read
from postroom.services.events import Event, EventService, Severity
from postroom.storage import Entity, Store
from postroom.transport.contract import Result, ResultKind, Transport

log = logging.getLogger(__name__)

TABLE: Final = "alerts"
_PARTITION, _FOR_ALL = "alerts", "last"
_GIVE_UP_AFTER: Final = timedelta(days=1)  # older events are only shown on the page
_SECONDS = 10


class AlertFailed(PostroomError):
    """An alert could not be delivered; it is retried."""


class Channel(ABC):
    name: ClassVar[str]
    """Names the channel in the log, and the row with its last event."""

    @abstractmethod
    async def send(self, event: Event) -> None:
        """Deliver an event. `AlertFailed`."""

    async def test(self, event: Event) -> None:
        """Deliver an event while someone waits. `AlertFailed`, even if a retry would not help."""
        await self.send(event)


class MailChannel(Channel):
    name = "mail"

    def __init__(
        self, transport: Transport, sender: NoticeSender, to: Address, base_url: str
    ) -> None:
        self._transport = transport
        self._sender = sender
        self._to = to
        self._base_url = base_url

    async def send(self, event: Event) -> None:
        result = await self._hand_over(event)
        if result.kind is ResultKind.REFUSED:
            return  # a retry would not help, and the cause is among the events, too
        self._check(result)

    async def test(self, event: Event) -> None:
        self._check(await self._hand_over(event))

    def _check(self, result: Result) -> None:
        if result.kind is not ResultKind.ACCEPTED:
            raise AlertFailed(f"the email to {self._to} was not accepted: {result.reply}")

    async def _hand_over(self, event: Event) -> Result:
        try:
            from_address = await self._sender.address()
        except NoFromAddress as exc:
            raise AlertFailed(str(exc)) from exc
        return await send_notice(
            self._transport,
            from_address=from_address,
            to=self._to,
            subject=f"Postroom: {event.text}"[:150],
            text=f"{event.text}\n\n{event.part}, {event.at:%Y-%m-%d %H:%M:%S} UTC\n"
            f"{self._base_url}/events\n",
            date=event.at,
            key=event.id,
        )


class WebhookChannel(Channel):
    """POSTs each event as JSON. Any status below 400 confirms it."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, event: Event) -> None:
        body = msgspec.json.encode(
            {
                "id": event.id,
                "at": event.at.astimezone(UTC),
                "severity": event.severity,
                "part": event.part,
                "text": event.text,
                "subject": event.subject,
                "sent_at": datetime.now(UTC),
            }
        )
        await asyncio.to_thread(self._post, body)

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "Postroom"}
        try:
            # The setting allows http and https only.
            request = urllib.request.Request(self._url, body, headers)  # noqa: S310
            with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310
                return
        except (OSError, ValueError, HTTPException) as exc:
            # Not the error's own text: it may repeat a part of the URL, which is a secret.
            raise AlertFailed(f"the webhook cannot be called: {_reason(exc)}") from None


def _reason(exc: Exception) -> str:
    match exc:
        case urllib.error.HTTPError():
            return f"it returned status {exc.code}"
        case urllib.error.URLError(reason=OSError() as cause):
            return cause.strerror or type(cause).__name__
        case OSError():
            return exc.strerror or type(exc).__name__
        case HTTPException():
            return f"its URL or its response is malformed ({type(exc).__name__})"
        case _:
            return "its URL is malformed"


class Alerts:
    def __init__(
        self,
        store: Store,
        events: EventService,
        channels: Sequence[Channel],
        *,
        least: Severity = Severity.WARNING,
        pause: float = 5.0,
    ) -> None:
        self._store = store
        self._table = store.table(TABLE)
        self._events = events
        self._channels = channels
        self._least = least
        self._pause = pause

    async def run(self, stopping: asyncio.Event) -> None:
        """Send alerts for events from now on, until `stopping`."""
        await run_periodically(
            self._store,
            "alerts",
            lambda _: self.send_new(),
            every=self._pause,
            stopping=stopping,
        )

    async def send_new(self) -> int:
        """Send every channel the events that are new for it; return how many were delivered.

        The first call only records where to start.
        """
        return sum(await asyncio.gather(*map(self._send_to, self._channels)))

    async def _send_to(self, channel: Channel) -> int:
        last = await self._last_sent(channel)
        if last is None:
            newest = await self._events.since(None, least=self._least, limit=1)
            await self._remember(channel, newest[-1].id if newest else "")
            return 0
        delivered = 0
        for event in await self._events.since(last or None, least=self._least):
            try:
                await channel.send(event)
                delivered += 1
            except AlertFailed as exc:
                log.warning("alert %r not delivered by %s: %s", event.text, channel.name, exc)
                if datetime.now(UTC) - event.at < _GIVE_UP_AFTER:
                    break
            await self._remember(channel, event.id)
        return delivered

    async def _last_sent(self, channel: Channel) -> str | None:
        for row in (channel.name, _FOR_ALL):
            found = await self._table.get(_PARTITION, row)
            if found is not None:
                return read(found, "EventId", str)
        return None

    async def _remember(self, channel: Channel, event_id: str) -> None:
        await self._table.upsert(Entity(_PARTITION, channel.name, {"EventId": event_id}))
