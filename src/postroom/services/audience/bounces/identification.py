"""Which email a bounce is about: by the signed token in the envelope, in our header or in what a
provider repeats, or by the Message-ID of the returned email. Never by an address alone: mail
systems fold it, and name the mailbox that an email was forwarded to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists import ListName, Subscriber, SubscriberGuid
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
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.sending.outcomes import OutcomeService

_MOST_ADDRESSES: Final = 10


class IdentifiedEmail(msgspec.Struct, frozen=True):
    """The email that a bounce is about. The address is missing if its owner has left the list."""

    ref: MessageRef
    list_name: ListName
    guid: SubscriberGuid
    address: Address | None


class BounceIdentification:
    def __init__(
        self,
        messages: MessageService,
        subscriptions: SubscriptionService,
        outcomes: OutcomeService,
        keyring: Keyring,
    ) -> None:
        self._messages = messages
        self._subscriptions = subscriptions
        self._outcomes = outcomes
        self._keyring = keyring

    @cached_property
    def signer(self) -> EnvelopeSigner:
        """What reads tokens. The secret key is loaded when the first bounce arrives."""
        return EnvelopeSigner(self._keyring.signing_keys(PURPOSE))

    async def identify(self, text: str, addresses: Iterable[str]) -> IdentifiedEmail | None:
        """Return the email whose token or Message-ID is in the text; None if there is none of ours,
        or its message has been deleted. `addresses` are those that the bounce names."""
        identity = self.signer.read(text)
        if identity is not None:
            message = await self._message(identity.ref)
            return None if message is None else await self._by_guid(message, identity.guid)
        candidates = list(dict.fromkeys(addresses))[:_MOST_ADDRESSES]
        for found in find_message_ids(text):
            message = await self._message(found.ref)
            if message is None:
                continue
            for each in candidates:
                if (email := await self._by_message_id(message, found, each)) is not None:
                    return email
        return None

    async def _message(self, ref: MessageRef) -> Message | None:
        try:
            return await self._messages.get(ref)
        except NoSuch:
            return None

    async def _by_guid(self, message: Message, guid: SubscriberGuid) -> IdentifiedEmail:
        for name in _lists_of(message):
            subscriber = await self._subscriptions.by_guid(name, guid)
            if subscriber is not None:
                address = await self._address_of(message, subscriber)
                return IdentifiedEmail(message.ref, name, guid, address)
        return IdentifiedEmail(message.ref, message.list_name, guid, None)

    async def _by_message_id(
        self, message: Message, found: FoundMessageId, reported: str
    ) -> IdentifiedEmail | None:
        """Return the email to this address, of somebody who has it or had it, if the Message-ID is
        that of the email."""
        try:
            address = parse_address(reported)
        except Invalid:
            return None
        for name in _lists_of(message):
            subscriber = await self._subscriptions.find(name, address)
            owners = [] if subscriber is None else [(subscriber, subscriber.address)]
            former = await self._subscriptions.rows.former.now(name, address)
            for each, its_address in [*owners, *((each, address) for each in former)]:
                if self.signer.is_message_id(found, name, its_address):
                    return IdentifiedEmail(found.ref, name, each.guid, its_address)
        return None

    async def _address_of(self, message: Message, subscriber: Subscriber) -> Address:
        """Return the address that the email went to: bounces say nothing about a later one."""
        if not subscriber.former_addresses:
            return subscriber.address
        emails = await self._outcomes.emails_of(message, subscriber)
        return emails[0].address if emails else subscriber.address


def _lists_of(message: Message) -> tuple[ListName, ...]:
    return (message.list_name, *message.more_lists)
