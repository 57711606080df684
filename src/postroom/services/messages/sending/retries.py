"""Retries deferred emails, and refused recipients with another message of the same content."""

from __future__ import annotations

from postroom import clock
from postroom.domain.errors import NotNow
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.services import entities
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_contents import InboxLines, NewBodies
from postroom.services.messages.message_states import MessageStates
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import PageRows
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import AlreadyExists, Entity, MessageToPut, Store


class RetryService:
    def __init__(
        self,
        store: Store,
        messages: MessageService,
        states: MessageStates,
        pages: PageRows,
        outcomes: OutcomeService,
    ) -> None:
        self._index = store.table(entities.INDEX)
        self._queue = store.queue(SEND_QUEUE)
        self._messages = messages
        self._states = states
        self._pages = pages
        self._outcomes = outcomes

    async def retry(self, ref: str) -> Message:
        """Retry deferred emails now while a message is being sent, and refused recipients with
        another message once it is finished. Return the message that does it."""
        message = await self._messages.get(ref)
        if message.status in FINAL:
            return await self.retry_refused(ref)
        return await self.retry_deferred(message)

    async def retry_deferred(self, message: Message) -> Message:
        """Make the deferred emails of a message due immediately. `NotNow` if there are none.

        After an interruption some pages keep their times; the call can be repeated.
        """
        if message.status is MessageStatus.PAUSED:
            raise NotNow(f"the message {message.ref} is Paused: resume it first")
        pages = [
            number
            async for number, page in self._pages.summaries(message)
            if page.waits_until is not None
        ]
        if not pages:
            raise NotNow(f"the message {message.ref} has no deferred emails")
        asked = await self._states.ask_for_retry(message.ref)
        items = [WorkItem(message.day, message.ref, page, restarted=True) for page in pages]
        # Senders remember a message for half a second.
        await self._queue.put_many([MessageToPut(str(item), delay=1.0) for item in items])
        return asked

    async def retry_refused(self, ref: str) -> Message:
        """Create a message, due now, for the refused recipients of a finished one. `NotNow`,
        `NoSuch`.

        Its recipients are those who are still verified and not blocked when it is queued. However
        often this is called, there is one such message: its reference is stored first, so the next
        call finishes an interrupted one. Recipients refused again are retried from the new message.
        """
        message = await self._messages.get(ref)
        if message.status not in FINAL:
            raise NotNow(f"the message {ref} is {message.status}: wait until it is finished")
        if not (await self._outcomes.counts(message)).refused:
            raise NotNow(f"the message {ref} has no refused emails")
        bodies = await self._messages.bodies(message)
        return await self._messages.create(
            message.list_name,
            message.subject,
            NewBodies(bodies.html, bodies.text or ""),  # the same email: no text is generated
            clock.now(),
            audience=Audience(more_lists=message.more_lists),
            lines=InboxLines(message.preheader, message.from_name, message.reply_to),
            options=SendingOptions(message.track),
            attachments=message.attachments,
            files={
                attachment.hash: file.content
                for attachment, file in zip(
                    message.attachments, await self._messages.files(message), strict=True
                )
            },
            ref=await self._kept_ref(message.ref),
            retry_of=message.ref,
        )

    async def retry_of(self, message: Message) -> MessageRef | None:
        """Return the message that retries the refused recipients of this one, if there is one."""
        entry = await self._index.get(entities.RETRY, message.ref)
        return None if entry is None else MessageRef(entities.read(entry, "Ref", str))

    async def _kept_ref(self, original: MessageRef) -> MessageRef:
        ref = new_ref()
        try:
            await self._index.insert(Entity(entities.RETRY, original, {"Ref": ref}))
        except AlreadyExists:
            kept = await self._index.get(entities.RETRY, original)
            if kept is not None:
                return MessageRef(entities.read(kept, "Ref", str))
        return ref
