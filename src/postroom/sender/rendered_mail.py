"""A message as one subscriber gets it, before or after it is sent, and what can be said about it by
looking at it; `preflight.py` looks further."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from postroom.composing.findings import Finding, Level
from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists import ListName, MailingList, Subscriber, SubscriberGuid
from postroom.domain.errors import Incomplete, Invalid
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.mail.mail_reader import ReadMail, read_mail
from postroom.mail.mailing import Recipient
from postroom.mail.merge_fields import FIELD, Personal, list_fields_in
from postroom.sender.draft_mail import draft_mailing, draft_values
from postroom.services.audience.audiences import AudienceService
from postroom.services.audience.lists import ListService
from postroom.services.messages.composing import ComposingService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_contents import InboxLines, NewBodies
from postroom.services.messages.preflight import (
    Audience,
    inspect_attachments,
    inspect_audience,
    inspect_email,
    inspect_fields,
    inspect_lines,
)

_NEVER_EMPTY: Final = frozenset(
    {"email", "joined", "list_description", "preferences_url", "unsubscribe_url", "web_url"}
)
_NOBODY: Final = SubscriberGuid("00000000-0000-4000-8000-000000000000")
_SOMEBODY: Final = Address("subscriber@example.com")
_LONGEST: Final = Address(f"{'a' * 64}@{'.'.join(['b' * 60] * 3)}.example")
"""The longest address that there can be (RFC 5321 4.5.3.1), or nearly so."""


class Subscribers(Protocol):
    async def get(self, list_name: str, address: str) -> Subscriber: ...


def _fields_of(*texts: str | None) -> tuple[str, ...]:
    """Return the merge fields of these texts that may be empty for some subscribers."""
    found = (each[1] for text in texts for each in FIELD.finditer(text or ""))
    return tuple(sorted(set(found) - _NEVER_EMPTY))


def _problems(refusal: Invalid) -> Iterator[Finding]:
    """Yield why a message cannot be sent."""
    problems = {refusal.field: refusal.problem}
    if isinstance(refusal, Incomplete):
        problems = refusal.problems
    for field, problem in problems.items():
        code = f"incomplete-{field.replace('_', '-')}"
        yield Finding(Level.ERROR, code, f"{field}: {problem}")


class Examined(msgspec.Struct, frozen=True):
    """What there is to say about a message. Without a `mail`, it cannot be composed yet."""

    findings: list[Finding]
    audience: Audience
    mail: ReadMail | None = None
    from_address: Address | None = None
    list_name: ListName = ListName("")
    fields: tuple[str, ...] = ()
    """The fields of the list that it merges."""


class Renderer:
    """Composes emails in order to look at them."""

    def __init__(
        self,
        messages: MessageService,
        composing: ComposingService,
        lists: ListService,
        subscribers: Subscribers,
        audiences: AudienceService,
        base_url: str,
    ) -> None:
        self._messages = messages
        self._composing = composing
        self._lists = lists
        self._subscribers = subscribers
        self._audiences = audiences
        self._base_url = base_url

    async def render(
        self, ref: str, email: str | None = None, *, with_guid: bool = True
    ) -> ReadMail:
        """Return the email that this subscriber gets; without one, as an example reads it.
        Without the GUID, its links lead nowhere: for readers who must not act for a subscriber.
        `NoSuch` message, list or subscriber; `Incomplete` draft."""
        message = await self._messages.get(ref)
        subject, lines, bodies = await self._content(message)
        mailing_list = await self._lists.get(message.list_name)
        address, guid, found = _SOMEBODY, _NOBODY, None
        if email is not None:
            found = await self._subscribers.get(message.list_name, parse_address(email))
            address, guid = found.address, found.guid if with_guid else _NOBODY
        personal = await self._audiences.personal(message.list_name, found)
        values = draft_values(subject, bodies, lines, personal)
        recipient = Recipient(address, guid, values)
        return await asyncio.to_thread(
            self._composed, mailing_list, subject, lines, bodies, recipient, personal
        )

    async def examine(self, ref: str) -> Examined:
        """Return what is wrong with a message, and who will receive it. `NoSuch`."""
        message = await self._messages.get(ref)
        try:
            examined = await self._examine_content(message)
        except Invalid as exc:
            examined = Examined(list(_problems(exc)), Audience(), list_name=message.list_name)
        audience, findings = examined.audience, examined.findings
        unknown = {"incomplete-list", "incomplete-segment"} | {
            f"incomplete-exclude-{each}" for each in ("segments", "lists")
        }
        if message.list_name and unknown.isdisjoint(each.code for each in findings):
            try:
                audience = await self._audience(message)
                findings += inspect_audience(audience)
            except Invalid as exc:  # a segment has changed since it was scheduled
                findings += _problems(exc)
        return msgspec.structs.replace(examined, audience=audience, findings=findings)

    async def _examine_content(self, message: Message) -> Examined:
        """Return what is wrong with the email. `Invalid` if it cannot be composed."""
        subject, lines, bodies = await self._content(message)
        mailing_list = await self._lists.get(message.list_name)
        personal = await self._audiences.personal(message.list_name)
        values = draft_values(subject, bodies, lines, personal)
        recipient = Recipient(_LONGEST, _NOBODY, values)
        mail = await asyncio.to_thread(
            self._composed, mailing_list, subject, lines, bodies, recipient, personal
        )
        texts = (subject, lines.preheader, bodies.html, bodies.text)
        findings = [
            *inspect_fields(list_fields_in(*texts), personal.rules),
            *inspect_lines(subject, lines.preheader),
            *inspect_attachments(message.attachments),
            *inspect_email(mail, urlsplit(self._base_url).hostname or ""),
        ]
        return Examined(
            findings,
            Audience(),
            mail,
            mailing_list.from_address,
            message.list_name,
            _fields_of(*texts),
        )

    async def _content(self, message: Message) -> tuple[str, InboxLines, NewBodies]:
        if message.status is MessageStatus.DRAFT:
            content, bodies = await self._composing.checked(message)
            return content.subject, content.lines, bodies
        lines = InboxLines(message.preheader, message.from_name, message.reply_to)
        return message.subject, lines, await self._messages.bodies(message)

    async def _audience(self, message: Message) -> Audience:
        counted = await self._audiences.count(message.list_name, message.audience)
        return Audience(counted.will_receive, counted.excluded)

    def _composed(
        self,
        mailing_list: MailingList,
        subject: str,
        lines: InboxLines,
        bodies: NewBodies,
        recipient: Recipient,
        personal: Personal,
    ) -> ReadMail:
        mailing = draft_mailing(mailing_list, subject, bodies, self._base_url, lines, personal)
        return read_mail(mailing.mail(recipient))
