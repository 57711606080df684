"""The status of messages: pause, resume, cancel. `lifecycle.py` has their content."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.errors import NotNow
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.pages import SCHEDULE_QUEUE
from postroom.services.concurrency import retry_on_conflict
from postroom.services.events import EventService, Severity
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.published_messages import PublishedIndex
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.holds import ACCOUNT, message_key
from postroom.services.messages.sending.page_rows import FREE, Page, PageRows
from postroom.storage import Store
from postroom.storage.limits import QUEUE_SECONDS

_PAUSE_SECONDS: Final = 1.0
"""Within this time every sender has noticed a pause, or has claimed the page that it starts with:
senders remember a message's status for half a second."""


class MessageStates:
    def __init__(
        self,
        store: Store,
        rows: MessageRows,
        pages: PageRows,
        events: EventService,
        holds: HoldService,
        published: PublishedIndex,
    ) -> None:
        self._rows = rows
        self._pages = pages
        self._events = events
        self._holds = holds
        self._published = published
        self._bell = store.queue(SCHEDULE_QUEUE)

    async def pause(self, ref: str, reason: str = "", *, resumptions: int | None = None) -> Message:
        """Pause sending. Senders stop within a second or a page. `NotNow`.

        With `resumptions`, only if the message has not been resumed since it had this number: a
        sender that learns of a fault late must not pause a message after the fault was fixed.
        """
        paused = await self._change_status(ref, MessageStatus.PAUSED, reason, resumptions)
        if resumptions is not None:  # by a sender, not by a person
            await self._events.record(
                "sender",
                f"the message {paused.subject!r} to {paused.list_name} was paused automatically:"
                f" {reason}",
                severity=Severity.WARNING,
                subject=f"message:{paused.ref}",
            )
        return paused

    async def resume(self, ref: str) -> Message:
        """Resume sending. Its holds are probed immediately: perhaps their cause has been fixed."""
        resumed = await self._change_status(ref, None)
        await self._holds.try_now([ACCOUNT, message_key(resumed.ref)])
        return resumed

    async def ask_for_retry(self, ref: str) -> Message:
        """Record that deferred emails are to be retried immediately."""

        async def change() -> Message:
            old = await self._rows.get_for_change(ref)
            return await self._rows.save(msgspec.structs.replace(old, retry_at=clock.now()))

        return await retry_on_conflict(change, "message", ref)

    async def cancel(self, ref: str) -> Message:
        """Cancel permanently: nobody else gets the message."""
        cancelled = await self._change_status(ref, MessageStatus.CANCELLED, "cancelled")
        if cancelled.published:
            await self._published.update(cancelled)
        return cancelled

    async def check_unsent(self, message: Message) -> None:
        """Raise `NotNow` if some of a paused message was sent, may have been, or is being sent:
        then it can no longer be edited."""
        await self._look_for_sent(message)
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._look_for_sent(message)

    async def _look_for_sent(self, message: Message) -> None:
        async for page in self._pages.whole(message):
            if page.claim != FREE:
                raise NotNow("a sender is still busy with this message: try again in a moment")
            if _was_sent(page):
                raise NotNow("a part of this message has been sent, so it can no longer be edited")

    async def wake_scheduler(self, message: Message) -> None:
        """Put a queue message that the scheduler receives when the message is due, or now."""
        due_in = (message.starts_at - clock.now()).total_seconds()
        await self._bell.put(message.ref, delay=min(max(due_in, 0.0), QUEUE_SECONDS))

    async def _change_status(
        self,
        ref: str,
        to: MessageStatus | None,
        reason: str = "",
        resumptions: int | None = None,
    ) -> Message:
        """Change the status; None restores the one before the pause."""

        async def change() -> Message:
            old = await self._rows.get_for_change(ref)
            if resumptions is not None and old.resumptions != resumptions:
                raise NotNow(f"the message {ref} has been resumed in the meantime")
            if to is None and old.status is not MessageStatus.PAUSED:
                raise NotNow(f"a message that is {old.status} cannot be resumed: it is not Paused")
            status = to or old.paused_from or MessageStatus.PENDING
            is_resumed = to is None
            return await self._rows.save(
                with_status(
                    old,
                    status,
                    reason=reason,
                    paused_from=old.status if status is MessageStatus.PAUSED else None,
                    resumptions=old.resumptions + (old.status is MessageStatus.PAUSED),
                    resumed_at=clock.now() if is_resumed else old.resumed_at,
                )
            )

        saved = await retry_on_conflict(change, "message", ref)
        await self._bell.put(saved.ref)
        return saved


def _was_sent(page: Page) -> bool:
    """Return whether an email of the page was sent, or may have been and is pending again."""
    counts = page.counts
    if counts.accepted or counts.refused or counts.in_doubt:
        return True
    return not page.emails.is_new and any(state.was_in_doubt for _, state in page.emails)
