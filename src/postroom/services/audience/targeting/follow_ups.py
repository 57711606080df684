"""Follow-ups: the same message once more, with another subject, to some of its audience.

A follow-up is a draft like any other. Who gets it is a rule about the first message, kept in a
segment of its list whose name says so; it is evaluated when the follow-up is sent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.errors import Invalid, NoSuch, NotNow
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.messages.drafts.composing import ComposingService
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.sending.retries import RetryService

_MOST_RETRIES: Final = 10  # each to the recipients that the one before it left refused


class FollowUp(StrEnum):
    """Who gets a follow-up."""

    NEW = "new"
    """Everyone in the audience who has not received the message, such as new subscribers."""

    UNCLICKED = "unclicked"
    """Everyone who received the message and is not known to have clicked a link in it."""


class FollowUpService:
    def __init__(
        self,
        messages: MessageService,
        segments: SegmentService,
        composing: ComposingService,
        retries: RetryService,
    ) -> None:
        self._messages = messages
        self._segments = segments
        self._composing = composing
        self._retries = retries

    async def create(self, ref: str, kind: FollowUp, subject: str, who: str) -> Message:
        """Create a draft with the content of a finished message, another subject, and the audience
        of a follow-up. `NotNow`, `Invalid`, `NoSuch`."""
        message = await self._messages.get(ref)
        check_follow_up(message, kind)
        if not subject.strip():
            raise Invalid("subject", "is missing: give the follow-up its own subject")
        refs = await self._refs(message)
        for each in refs:
            check_finished(await self._messages.get(each))
        if kind is FollowUp.NEW:
            rule = " or ".join(f"received {each}" for each in refs)
            name = f"received-{message.ref}"
            others = [each for each in message.exclude_segments if each != name]
            change = ContentChange(exclude_segments=(*others, name))
        else:
            rule = " or ".join(f"(received {each} and not clicked {each})" for each in refs)
            name = f"not-clicked-{message.ref}"
            change = ContentChange(segment=name)
        await self._segments.keep(message.list_name, name, rule)
        change = msgspec.structs.replace(change, subject=subject)
        return await self._composing.duplicate(message.ref, who, change)

    async def _refs(self, message: Message) -> list[MessageRef]:
        """Return the message, the variants of its A/B test, if it went to the rest, and those that
        retried its refused recipients."""
        others = [] if message.part is None else list(message.part.without)
        refs = [message.ref]
        while len(refs) < _MOST_RETRIES and (retry := await self._retries.retry_of(message)):
            try:
                message = await self._messages.get(retry)
            except NoSuch:
                break  # deleted before it was sent
            refs.append(message.ref)
        return [*refs, *others]


def follow_ups(message: Message) -> list[FollowUp]:
    """Return the follow-ups that a message can have now."""
    is_variant = message.part is not None and not message.part.without
    if message.status not in FINAL or message.queued_at is None or is_variant:
        return []
    return list(FollowUp) if message.track is Track.PERSONAL else [FollowUp.NEW]


def check_follow_up(message: Message, kind: FollowUp) -> None:
    """Raise `NotNow` unless a message can have this follow-up."""
    if kind in follow_ups(message):
        return
    check_finished(message)
    if message.part is not None:
        raise NotNow("a variant of an A/B test has no follow-up: use the message to the rest")
    raise NotNow(
        f"it is not known who clicked the message {message.ref}: this requires tracking per person"
    )


def check_finished(message: Message) -> None:
    """Raise `NotNow` while a message may still be sent to someone."""
    if message.status not in FINAL or message.queued_at is None:
        raise NotNow(f"the message {message.ref} is {message.status}: wait until it is sent")
