"""A cache of messages and their compiled mailings."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from typing import Protocol

import msgspec

from postroom import clock
from postroom.domain.errors import DomainError, NoSuch, NotNow
from postroom.domain.messages.messages import Message, MessageStatus, list_copy
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.web_pages import web_url
from postroom.mail.bounces.envelope_tokens import EnvelopeSigner
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing
from postroom.mail.personal.merge_fields import Columns
from postroom.mail.tracking.utm import with_utm
from postroom.services.messages.drafts.stored_attachments import AttachedFiles
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.message_contents import MessageBodies
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.message_states import MessageStates
from postroom.storage import NotFound

log = logging.getLogger(__name__)

BEING_SENT = (MessageStatus.QUEUING, MessageStatus.PROCESSING)

_STATUS_SECONDS = 0.5  # maximum age of a message's status: a pause takes effect within a second
_REMEMBERED = 8  # mailings: a body may have 10 MB


class _Known(msgspec.Struct):
    message: Message | None = None
    read_at: float = -math.inf
    mailings: dict[int, asyncio.Task[Mailing]] = {}
    """By the numbers of the message's lists."""
    content: tuple[object, ...] = ()
    """The body version, the lines and the attachments that they were compiled from."""


class MailingServices(Protocol):
    """What an email is composed of; `wiring.Services` has all of it."""

    message_rows: MessageRows
    message_states: MessageStates
    message_bodies: MessageBodies
    attached_files: AttachedFiles


class Mailings:
    def __init__(
        self,
        services: MailingServices,
        base_url: str,
        signer: EnvelopeSigner | None = None,
        links: LinkTables | None = None,
    ) -> None:
        self._links = links
        self._messages = services.message_rows
        self._states = services.message_states
        self._bodies = services.message_bodies
        self._files = services.attached_files
        self._signer = signer
        self._base_url = base_url
        self._known: OrderedDict[MessageRef, _Known] = OrderedDict()

    async def message(self, ref: MessageRef) -> Message | None:
        """Return the message as it was at most half a second ago; None if it does not exist."""
        known = self._about(ref)
        if clock.monotonic() - known.read_at < _STATUS_SECONDS:
            return known.message
        read_at = clock.monotonic()
        try:
            message: Message | None = await self._messages.get(ref)
        except NoSuch:
            message = None
        known.message, known.read_at = message, read_at
        return message

    async def ready(self, ref: MessageRef) -> Message | None:
        """Return the message; pause it first if it cannot be composed."""
        message = await self.message(ref)
        if message is not None and message.status is MessageStatus.PAUSED:
            # Parked pages wait for the scheduler, so make sure that it is still paused.
            self.forget_status(ref)
            message = await self.message(ref)
        if message is None or message.status not in BEING_SENT:
            return message
        try:
            for number in range(len(message.lists)):
                await self.mailing(message, number)
        except (DomainError, NotFound) as exc:
            await self._pause(message, f"its email cannot be composed: {exc}")
            return await self._messages.get(ref)
        return message

    async def _pause(self, message: Message, reason: str) -> None:
        try:
            await self._states.pause(message.ref, reason, resumptions=message.resumptions)
            log.error("message %s is paused: %s", message.ref, reason)
        except DomainError as exc:
            log.info("message %s is not paused again: %s", message.ref, exc)
        self.forget_status(message.ref)

    def _about(self, ref: MessageRef) -> _Known:
        known = self._known.get(ref)
        if known is None:
            known = self._known[ref] = _Known()
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(ref)
        return known

    def forget_status(self, ref: MessageRef) -> None:
        """Read the message again next time: this process has changed it."""
        if ref in self._known:
            self._known[ref].read_at = -math.inf

    async def mailing(self, message: Message, number: int = 0) -> Mailing:
        """Return the message, compiled for one of its lists. It is compiled once, although the
        first pages ask at the same moment, and again if its content changes, which only unsent
        messages allow."""
        known = self._about(message.ref)
        lines = message.subject, message.preheader, message.from_name, message.reply_to
        content = (message.body_version, *lines, message.attachments)
        if known.content != content:
            known.content = content
            known.mailings = {}
        compiling = known.mailings.get(number)
        if compiling is None:
            compiling = asyncio.create_task(self._compile(message, number))
            known.mailings[number] = compiling
        try:
            return await asyncio.shield(compiling)
        except Exception:
            if known.mailings.get(number) is compiling:
                del known.mailings[number]  # the next call tries again
            raise

    async def _compile(self, message: Message, number: int) -> Mailing:
        bodies = await self._bodies.read(message)
        if message.from_address is None:
            raise NotNow(
                f"the message {message.ref} has not been queued: it has no From address yet"
            )
        name, shown = message.lists[number], list_copy(message, number)
        html, tracking = bodies.html, None
        if html and message.utm:
            html = await asyncio.to_thread(with_utm, html, self._base_url, message.utm)
        if html and self._links is not None:
            tracking = await self._links.tracking(message, html, self._base_url)
        return compile_mailing(
            ref=message.ref,
            subject=message.subject,
            html=html,
            text=bodies.text,
            list_name=name,
            description=shown.description or name,
            from_address=message.from_address,
            base_url=self._base_url,
            date=message.queued_at or clock.now(),
            language=shown.language,
            postal_address=shown.postal_address,
            preheader=message.preheader,
            from_name=message.from_name,
            reply_to=message.reply_to or shown.reply_to,
            headers=shown.headers,
            attachments=await self._files.read(message.ref, message.attachments),
            web_url=web_url(self._base_url, message.ref, message.web_key),
            columns=Columns(message.fields, message.conditions),
            tracking=tracking,
            envelope=None if self._signer is None else self._signer.of_message(message.ref),
        )
