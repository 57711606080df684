"""A message as one subscriber gets it, before or after it is sent, and what is wrong with it as far
as the message itself shows; `message_preflight.py` looks further."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from postroom.composing.content_findings import ContentFinding, Level
from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists.lists import ListName, MailingList, Subscriber, SubscriberGuid
from postroom.domain.errors import Incomplete, Invalid, NoSuch
from postroom.domain.messages import audiences as messages
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.web_pages import known_web_url, new_web_key, web_url
from postroom.mail.bodies.hostile_content import hostile_content
from postroom.mail.bodies.preheader import shown_preheader
from postroom.mail.mail_reader import ReadMail, read_mail
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.personal.content_conditions import (
    HOLDS,
    compared_fields,
    longer_branches,
    without_markers,
)
from postroom.mail.personal.merge_fields import Columns, Personal, columns_in
from postroom.sender.draft_emails import draft_mailing, draft_values
from postroom.services.audience.lists import ListService
from postroom.services.audience.targeting.audiences import AudienceService
from postroom.services.messages.checks.preflight import (
    INCOMPLETE,
    AudienceSummary,
    inspect_attachments,
    inspect_audience,
    inspect_email,
    inspect_fields,
    inspect_hostile,
    inspect_lines,
)
from postroom.services.messages.drafts.composing import ComposingService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_contents import InboxLines, NewBodies

_NOBODY: Final = SubscriberGuid("00000000-0000-4000-8000-000000000000")
_SOMEBODY: Final = Address("subscriber@example.com")
_LONGEST: Final = Address(f"{'a' * 64}@{'.'.join(['b' * 60] * 3)}.example")
"""The longest address that there can be (RFC 5321 4.5.3.1), or nearly so."""


class Subscribers(Protocol):
    async def get(self, list_name: str, address: str) -> Subscriber: ...


def _problems(refusal: Invalid) -> Iterator[ContentFinding]:
    """Yield why a message cannot be sent."""
    problems = {refusal.field: refusal.problem}
    if isinstance(refusal, Incomplete):
        problems = refusal.problems
    for field, problem in problems.items():
        code = INCOMPLETE + field.replace("_", "-")
        yield ContentFinding(Level.ERROR, code, f"{field}: {problem}")


class LongestMail(msgspec.Struct, frozen=True):
    """The email of the subscriber with the longest address and the longest values."""

    mailing: Mailing
    columns: Columns
    personal: Personal
    holding: frozenset[str]
    """The conditions that make the email longer where they hold."""

    @property
    def varies(self) -> bool:
        return bool(self.columns.all)

    def html_size(self, longest: Mapping[str, str]) -> int:
        """Return the bytes of the HTML with these values, as far as they are known."""
        known = {**self.personal.values, **longest}
        fields = tuple(known.get(name, "") for name in self.columns.fields)
        holding = tuple(HOLDS if each in self.holding else "" for each in self.columns.conditions)
        found = read_mail(self.mailing.mail(Recipient(_LONGEST, _NOBODY, fields + holding)))
        return len((found.html or "").encode())


class Examined(msgspec.Struct, frozen=True):
    """What there is to say about a message. Without a `mail`, which has all of its parts, it cannot
    be composed yet."""

    findings: list[ContentFinding]
    audience: AudienceSummary
    mail: ReadMail | None = None
    longest: LongestMail | None = None
    from_address: Address | None = None
    lists: tuple[ListName, ...] = ()
    fields: tuple[str, ...] = ()
    """The fields of the list that it merges."""
    selected: messages.Audience = messages.EVERYBODY
    """Who gets it, by the message's choice."""


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
        name, address, guid, found = message.list_name, _SOMEBODY, _NOBODY, None
        if email is not None:
            found = await self._subscriber(message, parse_address(email))
            name, address = found.list_name, found.address
            guid = found.guid if with_guid else _NOBODY
        mailing_list = await self._lists.get(name)
        personal = await self._audiences.personal(name, found)
        values = draft_values(subject, bodies, lines, personal)
        recipient = Recipient(address, guid, values)
        return await asyncio.to_thread(
            self._composed,
            mailing_list,
            subject,
            lines,
            bodies,
            recipient,
            personal,
            known_web_url(self._base_url, message),
        )

    async def _subscriber(self, message: Message, address: Address) -> Subscriber:
        """Return someone of the first of the message's lists that has them. `NoSuch`."""
        for name in message.lists[:-1]:
            with contextlib.suppress(NoSuch):
                return await self._subscribers.get(name, address)
        return await self._subscribers.get(message.lists[-1], address)

    async def examine(self, ref: str) -> Examined:
        """Return what is wrong with a message, and who will receive it. `NoSuch`."""
        message = await self._messages.get(ref)
        try:
            examined = await self._examine_content(message)
        except Invalid as exc:
            examined = Examined(list(_problems(exc)), AudienceSummary(), lists=message.lists)
        audience, findings = examined.audience, examined.findings
        choices = ("list", "segment", "exclude-segments", "exclude-lists", "more-lists")
        unknown = {INCOMPLETE + each for each in choices}
        if message.list_name and unknown.isdisjoint(each.code for each in findings):
            try:
                audience = await self._audience(message)
                findings += inspect_audience(audience)
            except Invalid as exc:  # a segment has changed since it was scheduled
                findings += _problems(exc)
        return msgspec.structs.replace(
            examined,
            audience=audience,
            findings=findings,
            selected=message.audience,
        )

    async def _examine_content(self, message: Message) -> Examined:
        """Return what is wrong with the email. `Invalid` if it cannot be composed."""
        subject, lines, bodies = await self._content(message)
        mailing_list = await self._lists.get(message.list_name)
        personal = await self._audiences.personal(message.list_name)
        texts = (subject, lines.preheader, bodies.html, bodies.text)
        columns = columns_in(*texts)
        longest = LongestMail(
            await asyncio.to_thread(
                draft_mailing,
                mailing_list,
                subject,
                bodies,
                self._base_url,
                lines,
                personal,
                web_url(self._base_url, message.ref, new_web_key()),
            ),
            columns,
            personal,
            longer_branches(bodies.html or ""),
        )
        mail = await asyncio.to_thread(self._whole, mailing_list, subject, lines, bodies, personal)
        in_inbox = mail
        if "{%" in subject + lines.preheader:  # of each condition, an inbox shows one branch
            recipient = Recipient(
                _SOMEBODY, _NOBODY, draft_values(subject, bodies, lines, personal)
            )
            in_inbox = await asyncio.to_thread(
                self._composed, mailing_list, subject, lines, bodies, recipient, personal
            )
        preheader = shown_preheader(in_inbox.html or "") if bodies.html else lines.preheader
        used = (*columns.fields, *compared_fields(columns.conditions))
        own_host = urlsplit(self._base_url).hostname or ""
        findings = [
            *inspect_fields(used, personal.rules),
            *inspect_lines(in_inbox.subject, preheader),
            *inspect_attachments(message.attachments),
            *inspect_hostile(hostile_content(bodies.html or "", own_host)),
            *inspect_email(mail, own_host),
        ]
        return Examined(
            findings,
            AudienceSummary(),
            mail,
            longest,
            mailing_list.from_address,
            message.lists,
            tuple(sorted(columns.fields)),
        )

    async def _content(self, message: Message) -> tuple[str, InboxLines, NewBodies]:
        if message.status is MessageStatus.DRAFT:
            content, bodies = await self._composing.checked(message)
            return content.subject, content.lines, bodies
        lines = InboxLines(message.preheader, message.from_name, message.reply_to)
        return message.subject, lines, await self._messages.bodies(message)

    async def _audience(self, message: Message) -> AudienceSummary:
        counted = await self._audiences.count(message.list_name, message.audience)
        return AudienceSummary(counted.will_receive, counted.excluded)

    def _whole(
        self,
        mailing_list: MailingList,
        subject: str,
        lines: InboxLines,
        bodies: NewBodies,
        personal: Personal,
    ) -> ReadMail:
        """Return an email with all parts, whatever their conditions are."""
        lines = msgspec.structs.replace(
            lines, preheader=without_markers(lines.preheader, in_html=False)
        )
        subject = without_markers(subject, in_html=False)
        bodies = NewBodies(
            bodies.html and without_markers(bodies.html, in_html=True),
            bodies.text and without_markers(bodies.text, in_html=False),
        )
        values = draft_values(subject, bodies, lines, personal)
        recipient = Recipient(_SOMEBODY, _NOBODY, values)
        return self._composed(mailing_list, subject, lines, bodies, recipient, personal)

    def _composed(
        self,
        mailing_list: MailingList,
        subject: str,
        lines: InboxLines,
        bodies: NewBodies,
        recipient: Recipient,
        personal: Personal,
        page: str = "",
    ) -> ReadMail:
        mailing = draft_mailing(
            mailing_list, subject, bodies, self._base_url, lines, personal, page
        )
        return read_mail(mailing.mail(recipient))
