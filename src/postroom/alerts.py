"""Alerts: warnings and errors by email or webhook, each at least once.

| table    | partition | row       | holds                                         |
|----------|-----------|-----------|-----------------------------------------------|
| `alerts` | `alerts`  | `mail`, … | EventId: the last event this channel was sent |
| `alerts` | `alerts`  | `last`    | the same for all channels, by an old version  |

Any number of processes may offer to alert; one at a time does. Channels do not wait for each other:
an alert that the mail server is down cannot go by email, and must still reach the webhook. The last
event of a channel is stored after it was sent, so a crash in between sends it again.
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
from postroom.domain.audience.lists import SubscriberGuid
from postroom.errors import PostroomError
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_notice
from postroom.services.entities import read
from postroom.services.events import Event, EventService, Severity
from postroom.services.operations.notice_sender import NoFromAddress, NoticeSender
from postroom.services.periodic import run_periodically
from postroom.storage import Entity, Store
from postroom.transport.contract import ResultKind, Transport, Unwatched

log = logging.getLogger(__name__)

TABLE: Final = "alerts"
_PARTITION, _FOR_ALL = "alerts", "last"
_GIVE_UP_AFTER: Final = timedelta(days=1)  # yesterday's news is left to the page of events


_SECONDS = 10


class NotTold(PostroomError):
    """The message did not get through; it is tried again."""


class Channel(ABC):
    name: ClassVar[str]
    """Names the channel in the log, and the row that says what it was told last."""

    @abstractmethod
    async def tell(self, event: Event) -> None:
        """`NotTold`."""


class MailChannel(Channel):
    name = "mail"

    def __init__(
        self, transport: Transport, sender: NoticeSender, to: Address, base_url: str
    ) -> None:
        self._transport = transport
        self._sender = sender
        self._to = to
        self._base_url = base_url

    async def tell(self, event: Event) -> None:
        try:
            from_address = await self._sender.address()
        except NoFromAddress as exc:
            raise NotTold(str(exc)) from exc
        mailing = compile_notice(
            from_address=from_address,
            subject=f"Postroom: {event.text}"[:150],
            text=f"{event.text}\n\n{event.part}, {event.at:%Y-%m-%d %H:%M:%S} UTC\n"
            f"{self._base_url}/events\n",
            date=event.at,
            key=event.id,
        )
        recipient = Recipient(self._to, SubscriberGuid("administrator"))
        [result] = await self._transport.send(mailing, [recipient], Unwatched())
        if result.kind is ResultKind.REFUSED:
            return  # it never will be taken: what stands in the way is in the events, too
        if result.kind is not ResultKind.ACCEPTED:
            raise NotTold(f"the mail to {self._to} is not accepted: {result.reply}")


class WebhookChannel(Channel):
    """POSTs each event as JSON. Any answer below 400 says that it arrived."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self._url = url

    async def tell(self, event: Event) -> None:
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
            # Not its own text: that may repeat a part of the URL, which is a secret.
            raise NotTold(f"the webhook cannot be called: {_reason(exc)}") from None


def _reason(exc: Exception) -> str:
    match exc:
        case urllib.error.HTTPError():
            return f"it answers with status {exc.code}"
        case urllib.error.URLError(reason=OSError() as cause):
            return cause.strerror or type(cause).__name__
        case OSError():
            return exc.strerror or type(exc).__name__
        case HTTPException():
            return f"its URL or its answer is malformed ({type(exc).__name__})"
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
        """Until `stopping`: tell what happens from now on."""
        await run_periodically(
            self._store,
            "alerts",
            lambda _: self.tell_new_ones(),
            every=self._pause,
            stopping=stopping,
        )

    async def tell_new_ones(self) -> int:
        """Alert every channel to what is new for it; return how often that succeeded.

        The first call only records where to begin.
        """
        return sum(await asyncio.gather(*map(self._tell_channel, self._channels)))

    async def _tell_channel(self, channel: Channel) -> int:
        last = await self._last_told(channel)
        if last is None:
            newest = await self._events.since(None, least=self._least, limit=1)
            await self._remember(channel, newest[-1].id if newest else "")
            return 0
        told = 0
        for event in await self._events.since(last or None, least=self._least):
            try:
                await channel.tell(event)
                told += 1
            except NotTold as exc:
                log.warning("no alert to %r by %s: %s", event.text, channel.name, exc)
                if datetime.now(UTC) - event.at < _GIVE_UP_AFTER:
                    break
            await self._remember(channel, event.id)
        return told

    async def _last_told(self, channel: Channel) -> str | None:
        for row in (channel.name, _FOR_ALL):
            found = await self._table.get(_PARTITION, row)
            if found is not None:
                return read(found, "EventId", str)
        return None

    async def _remember(self, channel: Channel, event_id: str) -> None:
        await self._table.upsert(Entity(_PARTITION, channel.name, {"EventId": event_id}))
