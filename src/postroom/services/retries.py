"""Retry only the failed: another message with the same content to those whom one did not reach."""

from __future__ import annotations

from datetime import UTC, datetime

from postroom.domain.errors import NotNow
from postroom.domain.messages import FINAL, Message
from postroom.domain.refs import MessageRef, new_ref
from postroom.services import records
from postroom.services.message_contents import NewBodies
from postroom.services.messages import MessageService
from postroom.services.outcomes import OutcomeService
from postroom.storage import AlreadyExists, Entity, Store


class RetryService:
    def __init__(self, store: Store, messages: MessageService, outcomes: OutcomeService) -> None:
        self._index = store.table(records.INDEX)
        self._messages = messages
        self._outcomes = outcomes

    async def retry_refused(self, ref: str) -> Message:
        """A message, due now, for the refused recipients of one that is done. `NotNow`, `NoSuch`.

        Its recipients are those who are still verified and not blocked when it is queued. There is
        one such message however often this is asked: its reference is kept first, so an interrupted
        call is finished by the next. Those whom it does not reach either are its own to retry.
        """
        message = await self._messages.get(ref)
        if message.status not in FINAL:
            raise NotNow(f"the message {ref} is {message.status}: wait until it is done")
        if not (await self._outcomes.counts(message)).refused:
            raise NotNow(f"of the message {ref} no email was refused")
        bodies = await self._messages.bodies(message)
        return await self._messages.create(
            message.list_name,
            message.subject,
            NewBodies(bodies.html, bodies.text or ""),  # the same mail: no text is made
            datetime.now(UTC),
            ref=await self._kept_ref(message.ref),
            retry_of=message.ref,
        )

    async def retry_of(self, message: Message) -> MessageRef | None:
        """The message that tries the failed of this one again, if there is one."""
        entry = await self._index.get(records.RETRY, message.ref)
        return None if entry is None else MessageRef(records.read(entry, "Ref", str))

    async def _kept_ref(self, original: MessageRef) -> MessageRef:
        ref = new_ref()
        try:
            await self._index.insert(Entity(records.RETRY, original, {"Ref": ref}))
        except AlreadyExists:
            kept = await self._index.get(records.RETRY, original)
            if kept is not None:
                return MessageRef(records.read(kept, "Ref", str))
        return ref
