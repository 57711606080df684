"""The weekly digest: the results of last week's messages, emailed to one address, and to each user
who wants it, for the lists that they may view.

| table    | partition | row             | holds                                             |
|----------|-----------|-----------------|---------------------------------------------------|
| `alerts` | `digest`  | `2026-W47`      | SentAt: this week's digest was sent to the address |
| `alerts` | `digest`  | `2026-W47,USER` | the same, to a user                               |

It is sent from Monday morning on and is about the week before. One process at a time sends. The row
is written after the mail server has accepted the email: a crash in between sends it again, with the
same Message-ID. A week without messages and changes has none.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_rights import ListAccess, ListRight
from postroom.domain.messages.messages import Message
from postroom.notices import NoFromAddress, NoticeSender, send_notice
from postroom.services.accounts.list_access import ListAccessService
from postroom.services.accounts.users import UserService
from postroom.services.audience.growth.list_movements import Movement
from postroom.services.audience.lists import ListService
from postroom.services.audience.results.message_results import SentMessage
from postroom.services.audience.results.results_over_time import OverTimeService
from postroom.services.audience.visible_lists import VisibleLists
from postroom.services.concurrency import run_periodically
from postroom.storage import Entity, Store
from postroom.transport.contract import ResultKind, Transport

log = logging.getLogger(__name__)

TABLE: Final = "alerts"
_PARTITION: Final = "digest"
_HOUR: Final = 7  # in UTC
_MOST_MESSAGES: Final = 50
_WEEK: Final = timedelta(days=7)


class WeeklyDigest:
    def __init__(
        self,
        store: Store,
        results: OverTimeService,
        lists: ListService,
        users: UserService,
        access: ListAccessService,
        transport: Transport,
        sender: NoticeSender,
        to: Address | None,
        base_url: str,
        *,
        pause: float = 300.0,
    ) -> None:
        self._store = store
        self._table = store.table(TABLE)
        self._results = results
        self._lists = lists
        self._users = users
        self._access = access
        self._transport = transport
        self._sender = sender
        self._to = to
        self._base_url = base_url
        self._pause = pause

    async def run(self, stopping: asyncio.Event) -> None:
        """Send the digest of each week until `stopping`."""
        await run_periodically(
            self._store, "digest", lambda _: self.send_due(), every=self._pause, stopping=stopping
        )

    async def send_due(self) -> bool:
        """Send the digests of this week that are due and were not sent; return whether one was sent
        now."""
        now = clock.now().astimezone(UTC)
        monday = now.date() - timedelta(days=now.weekday())
        if now < datetime.combine(monday, time(_HOUR), UTC):
            return False
        return any([await self._send_to(each, monday, now) for each in await self._readers(monday)])

    async def _readers(self, monday: date) -> list[_Reader]:
        week = f"{monday:%G-W%V}"
        readers = [] if self._to is None else [_Reader(self._to, week)]
        for user in await self._users.all():
            if user.wants_digest and user.email != (self._to or "").lower():
                row = f"{week},{user.email}"
                access = await self._access.of_user(user)
                readers.append(_Reader(Address(user.email), row, access))
        return readers

    async def _send_to(self, reader: _Reader, monday: date, now: datetime) -> bool:
        if await self._table.get(_PARTITION, reader.row) is not None:
            return False
        text = await self._text(reader, monday)
        if text and not await self._send(reader, text, now):
            return False
        await self._table.upsert(Entity(_PARTITION, reader.row, {"SentAt": now}))
        return bool(text)

    async def _send(self, reader: _Reader, text: str, now: datetime) -> bool:
        """Return whether the digest was accepted, or refused for good."""
        try:
            from_address = await self._sender.address()
        except NoFromAddress as exc:
            log.warning("the weekly digest was not sent: %s", exc)
            return False
        result = await send_notice(
            self._transport,
            from_address=from_address,
            to=reader.to,
            subject="Postroom: results of last week",
            text=text,
            date=now,
            key=f"digest-{reader.key}",
        )
        if result.kind is not ResultKind.ACCEPTED:
            log.warning("the weekly digest to %s was not accepted: %s", reader.to, result.reply)
        return result.kind in (ResultKind.ACCEPTED, ResultKind.REFUSED)

    async def _text(self, reader: _Reader, monday: date) -> str:
        """Return the text about the week before a Monday; "" if nothing happened."""
        end = datetime.combine(monday, time(), UTC)
        if reader.access is None or not reader.access.is_limited:
            found = await self._results.read(limit=_MOST_MESSAGES)
        else:
            names = await VisibleLists(self._lists, reader.access).names()
            found = await self._results.read(sees=reader.sees, only=names, limit=_MOST_MESSAGES)
        messages = [each for each in found.messages if end - _WEEK <= each.sent_at < end]
        first, last = (monday - _WEEK).isoformat(), monday.isoformat()
        days = found.movements
        moved = sum((each for day, each in days.items() if first <= day < last), Movement())
        if not messages and not moved.joined and not moved.left:
            return ""
        text = digest_text(monday - _WEEK, messages, moved, self._base_url)
        if reader.access is None:
            return text
        return f"{text}\nTo stop these emails: {self._base_url}/account\n"


class _Reader(msgspec.Struct, frozen=True):
    """Someone who gets the digest, and where it is recorded that it was sent. Without `access`, it
    is about all lists."""

    to: Address
    row: str
    access: ListAccess | None = None

    @property
    def key(self) -> str:
        """Return the row key in a form that a Message-ID allows."""
        return hashlib.sha256(self.row.encode()).hexdigest()[:20] if self.access else self.row

    def sees(self, message: Message) -> bool:
        return self.access is None or self.access.may(ListRight.VIEW, *message.all_lists)


def digest_text(
    begins: date, messages: Sequence[SentMessage], moved: Movement, base_url: str
) -> str:
    """Return the digest of the week that begins on this day."""
    parts = [f"The week from {begins.day} {begins:%B %Y}"]
    parts += [_about(each, base_url) for each in reversed(messages)]
    if not messages:
        parts.append("No message was sent.")
    parts.append(
        f"Subscribers: {moved.joined:,} joined ({moved.form:,} with a form, {moved.imported:,}"
        f" imported, {moved.api:,} through the API, {moved.team:,} by hand), {moved.left:,} left"
        f" ({moved.unsubscribed:,} unsubscribed, {moved.removed:,} removed)."
    )
    return "\n\n".join([*parts, f"All results: {base_url}/results\n"])


def _about(sent: SentMessage, base_url: str) -> str:
    message, rates = sent.message, sent.results.rates
    shown = (
        ("delivered", rates.delivered, 1),
        ("bounced", rates.bounced, 1),
        ("opened", rates.opened, 1),
        ("clicked", rates.clicked, 1),
        ("unsubscribed", rates.unsubscribed, 2),
    )
    known = [f"{value:.{digits}f}% {name}" for name, value, digits in shown if value is not None]
    return (
        f"{message.subject} (to {', '.join(message.lists)}, {sent.sent_at.astimezone(UTC):%a %H:%M}"
        f" UTC)\n{sent.results.accepted:,} accepted: {', '.join(known)}\n"
        f"{base_url}/messages/{message.ref}"
    )
