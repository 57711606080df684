"""Ways to tell somebody: a mail, or a call to an address of theirs."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from http.client import HTTPException
from typing import ClassVar

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.errors import PostroomError
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_notice
from postroom.services.events import Event
from postroom.services.operations.notice_sender import NoFromAddress, NoticeSender
from postroom.transport.contract import ResultKind, Transport, Unwatched

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
