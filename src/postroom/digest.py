"""The weekly digest: what became of last week's messages, by email to one address.

| table    | partition | row        | holds                                        |
|----------|-----------|------------|----------------------------------------------|
| `alerts` | `digest`  | `2026-W47` | SentAt: the digest of this week was sent     |

It is sent from Monday morning on and is about the week before. One process at a time sends. The row
is written after the mail server has accepted the email: a crash in between sends it again, with the
same Message-ID. A week without messages and changes has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.notices import NoFromAddress, NoticeSender, send_notice
from postroom.services.audience.growth.list_movements import ListMovements, Movement
from postroom.services.audience.results.message_results import ResultService, SentMessage
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
        results: ResultService,
        movements: ListMovements,
        transport: Transport,
        sender: NoticeSender,
        to: Address,
        base_url: str,
        *,
        pause: float = 300.0,
    ) -> None:
        self._store = store
        self._table = store.table(TABLE)
        self._results = results
        self._movements = movements
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
        """Send the digest of this week if it is due and was not sent; return whether it was sent
        now."""
        now = clock.now().astimezone(UTC)
        monday = now.date() - timedelta(days=now.weekday())
        if now < datetime.combine(monday, time(_HOUR), UTC):
            return False
        week = f"{monday:%G-W%V}"
        if await self._table.get(_PARTITION, week) is not None:
            return False
        text = await self._text(monday)
        if text and not await self._send(week, text, now):
            return False
        await self._table.upsert(Entity(_PARTITION, week, {"SentAt": now}))
        return bool(text)

    async def _send(self, week: str, text: str, now: datetime) -> bool:
        """Return whether the digest is done with: accepted, or refused for good."""
        try:
            from_address = await self._sender.address()
        except NoFromAddress as exc:
            log.warning("the weekly digest was not sent: %s", exc)
            return False
        result = await send_notice(
            self._transport,
            from_address=from_address,
            to=self._to,
            subject="Postroom: results of last week",
            text=text,
            date=now,
            key=f"digest-{week}",
        )
        if result.kind is not ResultKind.ACCEPTED:
            log.warning("the weekly digest to %s was not accepted: %s", self._to, result.reply)
        return result.kind in (ResultKind.ACCEPTED, ResultKind.REFUSED)

    async def _text(self, monday: date) -> str:
        """Return the text about the week before a Monday; "" if nothing happened."""
        end = datetime.combine(monday, time(), UTC)
        newest = await self._results.newest(_MOST_MESSAGES)
        messages = [each for each in newest if end - _WEEK <= each.sent_at < end]
        first, last = (monday - _WEEK).isoformat(), monday.isoformat()
        days = await self._movements.days(None, last=15)
        moved = sum((each for day, each in days.items() if first <= day < last), Movement())
        if not messages and not moved.joined and not moved.left:
            return ""
        return digest_text(monday - _WEEK, messages, moved, self._base_url)


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
    known = [f"{value:.{digits}f} % {name}" for name, value, digits in shown if value is not None]
    return (
        f"{message.subject} (to {', '.join(message.lists)}, {sent.sent_at.astimezone(UTC):%a %H:%M}"
        f" UTC)\n{sent.results.accepted:,} accepted: {', '.join(known)}\n"
        f"{base_url}/messages/{message.ref}"
    )
