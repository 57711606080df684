"""Published messages: those that the web archive of a list shows, and messages as web pages.

| table          | partition     | row      | holds                                            |
|----------------|---------------|----------|--------------------------------------------------|
| `messageindex` | `web,` + list | time,ref | a message in the archive: its subject, preheader |

The time is the one at which the message was due. It gets its entry once it is published and
sending begins. The message's own row decides whether it can be seen; an entry that an interruption
leaves behind leads to a page that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName, MailingList
from postroom.domain.errors import NoSuch, Overtaken
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.web_pages import (
    archive_path,
    is_in_archive,
    is_sent,
    new_web_key,
    web_url,
)
from postroom.mail.web_version import WebValues, check_publishable, web_document, web_line
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.message_contents import MessageBodies, NewBodies
from postroom.services.messages.message_rows import MessageRows
from postroom.storage import Entity, KeyRange, NotFound, Store

_PARTITION: Final = "web,"


class PublishedMessage(msgspec.Struct, frozen=True):
    """A message as the archive lists it."""

    ref: MessageRef
    subject: str
    preheader: str
    sent_at: datetime


class PublishedIndex:
    """Which messages the archive of each list shows."""

    def __init__(self, store: Store) -> None:
        self._index = store.table(entities.INDEX)

    async def of(self, list_name: ListName) -> list[PublishedMessage]:
        """Return the messages of a list, newest first. A weekly letter has 52 in a year."""
        found = [
            _published(each)
            async for each in self._index.scan(KeyRange.only(_PARTITION + list_name))
        ]
        return found[::-1]

    async def update(self, message: Message) -> None:
        """Add, change or remove the entry of a message, as it is now. Can be repeated."""
        if is_in_archive(message):
            await self._index.upsert(_entry(message))
        elif message.scheduled_at is not None:
            await self.remove(message)

    async def remove(self, message: Message) -> None:
        """Remove the entry of a message, if it has one. Can be repeated."""
        entry = _entry(message)
        with contextlib.suppress(NotFound):
            await self._index.delete(entry.partition, entry.row)

    async def remove_all(self, list_name: ListName) -> None:
        """Remove the entries of a list that is deleted. Can be repeated."""
        async for each in self._index.scan(KeyRange.only(_PARTITION + list_name)):
            with contextlib.suppress(NotFound):
                await self._index.delete(each.partition, each.row)


class PublishingService:
    """Publishes messages, and shows them as web pages."""

    def __init__(
        self, rows: MessageRows, bodies: MessageBodies, index: PublishedIndex, base_url: str = ""
    ) -> None:
        self._rows = rows
        self._bodies = bodies
        self._base_url = base_url
        self._index = index

    async def publish(self, ref: str, published: bool, *, etag: str | None = None) -> Message:
        """Publish a message or take it off the web, whatever its status is. `Invalid` if one of its
        merge fields has no default; a draft is checked when it is scheduled. `Overtaken`."""

        async def change() -> Message:
            old = await self._rows.get_for_change(ref)
            if published and old.status is not MessageStatus.DRAFT:
                await self._check(old)
            new = msgspec.structs.replace(
                old, published=published, web_key=old.web_key or new_web_key()
            )
            save = self._rows.save_archived if old.status in FINAL else self._rows.save
            return await save(new)

        if etag is not None and (await self._rows.get(ref)).etag != etag:
            raise Overtaken("message", ref)
        saved = await retry_on_conflict(change, "message", ref)
        await self._index.update(saved)
        return saved

    async def in_archive(self, list_name: ListName, ref: str) -> Message:
        """Return a message that the archive of this list shows. `NoSuch`."""
        message = await self._rows.get(ref)
        if message.list_name != list_name or not is_in_archive(message):
            raise NoSuch("message", ref)
        return message

    async def by_key(self, ref: str, key: str) -> Message:
        """Return the message that a link leads to. `NoSuch`, even if it exists but has not been
        sent."""
        message = await self._rows.get(ref)
        is_right = hmac.compare_digest(key.encode(errors="replace"), message.web_key.encode())
        if not (message.web_key and is_right and is_sent(message)):
            raise NoSuch("message", ref)
        return message

    async def document(self, message: Message, mailing_list: MailingList) -> str:
        """Return the document of a message without any subscriber's data. `NoSuch`."""
        try:
            bodies = await self._bodies.read(message)
        except NotFound as exc:  # deleted in the meantime
            raise NoSuch("message", message.ref) from exc
        return await asyncio.to_thread(
            web_document,
            bodies.html,
            bodies.text,
            self._values(message, mailing_list),
            title=shown_subject(message),
            language=message.list_language,
        )

    def _values(self, message: Message, mailing_list: MailingList) -> WebValues:
        base = self._base_url.rstrip("/")
        if is_in_archive(message):
            page = base + archive_path(message.list_name, message.ref)
        else:
            page = web_url(base, message.ref, message.web_key)
        signup = f"{base}/subscribe?list={mailing_list.name}" if mailing_list.public else page
        return WebValues(_description(message), page, signup)

    async def _check(self, message: Message) -> None:
        try:
            bodies = await self._bodies.read(message)
        except NotFound as exc:
            raise NoSuch("message", message.ref) from exc
        check_content(message.subject, message.preheader, bodies)


def check_content(subject: str, preheader: str, bodies: NewBodies) -> None:
    """Raise `Invalid` if a message cannot be published. Its text matters only without HTML."""
    body = {"html": bodies.html} if bodies.html else {"text": bodies.text}
    check_publishable({"subject": subject, "preheader": preheader, **body})


def shown_subject(message: Message) -> str:
    """Return the subject without any subscriber's data."""
    return web_line(message.subject, WebValues(_description(message), "", ""))


def shown_preheader(message: Message) -> str:
    return web_line(message.preheader, WebValues(_description(message), "", ""))


def _description(message: Message) -> str:
    return message.list_description or message.list_name


def _entry(message: Message) -> Entity:
    return Entity(
        _PARTITION + message.list_name,
        entities.due_row(message.due_at, message.ref),
        {"Subject": shown_subject(message), "Preheader": shown_preheader(message)},
    )


def _published(entry: Entity) -> PublishedMessage:
    moment, _, ref = entry.row.partition(",")
    return PublishedMessage(
        MessageRef(ref),
        entities.read(entry, "Subject", str),
        entities.read(entry, "Preheader", str),
        datetime.fromisoformat(moment),
    )
