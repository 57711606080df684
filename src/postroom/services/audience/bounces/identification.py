"""Which email a bounce is about: by the signed token in the envelope, in our header or in what a
provider repeats, or by the Message-ID of the returned email. Never by an address alone: mail
systems fold it, and name the mailbox that an email was forwarded to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.encryption import Keyring
from postroom.mail.bounces.envelope_tokens import (
    PURPOSE,
    EnvelopeSigner,
    FoundMessageId,
    find_message_ids,
)
from postroom.services.audience.bounces.sent_addresses import SentAddresses, SentEmail
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.messages.lifecycle import MessageService

_MOST_ADDRESSES: Final = 10


class IdentifiedEmail(msgspec.Struct, frozen=True):
    """The email that a bounce is about, and the address that it was sent to. The address is missing
    if it was erased."""

    ref: MessageRef
    list_name: ListName
    guid: SubscriberGuid
    address: Address | None


class BounceIdentification:
    def __init__(
        self,
        messages: MessageService,
        subscriptions: SubscriptionService,
        sent: SentAddresses,
        keyring: Keyring,
    ) -> None:
        self._messages = messages
        self._sent = sent
        self._subscriptions = subscriptions
        self._keyring = keyring

    @cached_property
    def signer(self) -> EnvelopeSigner:
        """What reads tokens. The secret key is loaded when the first bounce arrives."""
        return EnvelopeSigner(self._keyring.signing_keys(PURPOSE))

    async def identify(self, text: str, addresses: Iterable[str]) -> IdentifiedEmail | None:
        """Return the email whose token or Message-ID is in the text; None if there is none of ours,
        or its message has been deleted. `addresses` are those that the bounce names."""
        candidates = list(dict.fromkeys(addresses))[:_MOST_ADDRESSES]
        identity = self.signer.read(text)
        if identity is not None:
            message = await self._message(identity.ref)
            if message is None:
                return None
            return await self._by_guid(message, identity.guid, candidates)
        for found in find_message_ids(text):
            message = await self._message(found.ref)
            if message is None:
                continue
            for each in candidates:
                if (email := await self._by_message_id(message, found, each)) is not None:
                    return IdentifiedEmail(found.ref, email.list_name, email.guid, email.address)
        return None

    async def _message(self, ref: MessageRef) -> Message | None:
        try:
            return await self._messages.get(ref)
        except NoSuch:
            return None

    async def _by_guid(
        self, message: Message, guid: SubscriberGuid, reported: list[str]
    ) -> IdentifiedEmail:
        """Return the email to the subscriber with this GUID. Its page knows the address, even of
        those who have left: a spam report and one-click unsubscribing often come together."""
        subscriber = await self._owner(message, guid)
        known = () if subscriber is None else (subscriber.address, *subscriber.former_addresses)
        candidates = [*known, *reported]
        found = await self._sent.find(message, guid, candidates) or subscriber
        if found is None:
            return IdentifiedEmail(message.ref, message.list_name, guid, None)
        return IdentifiedEmail(message.ref, found.list_name, guid, found.address)

    async def _owner(self, message: Message, guid: SubscriberGuid) -> Subscriber | None:
        for name in _lists_of(message):
            subscriber = await self._subscriptions.by_guid(name, guid)
            if subscriber is not None:
                return subscriber
        return None

    async def _by_message_id(
        self, message: Message, found: FoundMessageId, reported: str
    ) -> SentEmail | Subscriber | None:
        """Return the email to this address, or its subscriber, if the Message-ID is that of the
        email."""
        try:
            address = parse_address(reported)
        except Invalid:
            return None
        owners: list[SentEmail | Subscriber] = [*await self._sent.to(message, address)]
        for name in _lists_of(message):
            subscriber = await self._subscriptions.rows.find(name, address)
            if subscriber is not None:
                owners.append(subscriber)
        for each in owners:
            if self.signer.is_message_id(found, each.list_name, each.address):
                return each
        return None


def _lists_of(message: Message) -> tuple[ListName, ...]:
    return (message.list_name, *message.more_lists)
