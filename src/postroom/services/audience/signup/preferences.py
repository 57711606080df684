"""What subscribers change themselves, on the preferences page: fields, a pause, their address.

The link to that page contains their GUID, which only emails to them contain. Anyone who has it can
change the subscription, but sees no more than that subscription.

A new address counts only once its owner has confirmed it. The email to it contains an encrypted
token with everything that the change needs, and not the GUID: if the address was mistyped, a
stranger gets it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import ConsentSource
from postroom.domain.audience.fields import check_size
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.domain.audience.renamed_fields import without
from postroom.domain.errors import NoSuch
from postroom.domain.languages import parse_list_language
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.encryption import DecryptionError, Keyring
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.signup.signup_limits import SignupLimits
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Store

PAUSE: Final = timedelta(days=30)
NEW_ADDRESS: Final = "new_address"
ADDRESS_CHANGE: Final = "address_change"
"""The properties of a work item that asks the owner of a new address to confirm it."""

BY_OWNER: Final = ConsentSource("preferences page")

_LANGUAGE: Final = "language"
_VALID: Final = timedelta(days=7)


class AddressChange(msgspec.Struct, frozen=True):
    """What the token in an email to a new address says."""

    guid: SubscriberGuid
    old: Address
    new: Address
    until: datetime


class PreferenceService:
    def __init__(
        self,
        store: Store,
        rows: SubscriberRows,
        fields: FieldService,
        limits: SignupLimits,
        keyring: Keyring,
        unsubscribes: Unsubscribes,
    ) -> None:
        self._rows = rows
        self._keyring = keyring
        self._fields = fields
        self._limits = limits
        self._unsubscribes = unsubscribes
        self._confirmations = store.queue(CONFIRM_QUEUE)

    async def save(
        self,
        subscriber: Subscriber,
        attributes: Mapping[str, Any],
        language: str,
        source: ConsentSource = BY_OWNER,
        *,
        tracking: bool | None = None,
    ) -> Subscriber:
        """Change the given public fields, the language ("" for the list's) and the consent to
        tracking, unless that is None. `Invalid`."""
        fields = (await self._fields.of(subscriber.list_name)).fields
        public = {each.name for each in fields.public}
        given = {name: value for name, value in attributes.items() if name in public}
        checked = fields.keeping_choices(subscriber.attributes).check(given)
        language = language and parse_list_language(language, _LANGUAGE)

        def changed(current: Subscriber) -> Subscriber:
            others = without(current.attributes, {*given, _LANGUAGE}, fields)
            new = check_size(others | checked | ({_LANGUAGE: language} if language else {}))
            fields.check_complete(new, public_only=True)
            allowed = current.tracking if tracking is None else tracking
            return msgspec.structs.replace(current, attributes=new, tracking=allowed)

        return await self._change(subscriber, changed, source)

    async def pause(self, subscriber: Subscriber, source: ConsentSource = BY_OWNER) -> Subscriber:
        """Send nothing for 30 days."""
        until = clock.now() + PAUSE
        return await self._change(
            subscriber, lambda current: msgspec.structs.replace(current, paused_until=until), source
        )

    async def resume(self, subscriber: Subscriber, source: ConsentSource = BY_OWNER) -> Subscriber:
        """End a pause."""
        return await self._change(
            subscriber, lambda current: msgspec.structs.replace(current, paused_until=None), source
        )

    # -- another address ---------------------------------------------------------------------

    async def request_address(
        self, subscriber: Subscriber, address: Address, *, language: str, place: str
    ) -> None:
        """Ask the owner of the new address to confirm it, unless that has been done too often or
        the address is suppressed.

        Nothing reveals whether that address is on the list already. It is counted before the email
        is queued: after a crash in between, the subscriber has to ask again.
        """
        there = msgspec.structs.replace(subscriber, address=address)
        if (await self._rows.with_suppression(there)).is_suppressed:
            return
        allowance = await self._limits.check(address, subscriber.list_name, place)
        if allowance is None or not await self._limits.take(allowance):
            return
        change = AddressChange(subscriber.guid, subscriber.address, address, clock.now() + _VALID)
        text = msgspec.json.encode(change).decode()
        token = self._keyring.encrypt(text, _context(subscriber.list_name))
        properties = {"language": language} if language else {}
        await self._confirmations.put(
            f"{subscriber.guid},{subscriber.list_name}",
            properties={**properties, NEW_ADDRESS: address, ADDRESS_CHANGE: token},
        )

    def read_token(self, list_name: ListName, token: str) -> AddressChange | None:
        """Return what a token says; None if it is not one of ours, or has expired."""
        try:
            text = self._keyring.decrypt(token, _context(list_name))
        except DecryptionError:
            return None
        change = msgspec.json.decode(text, type=AddressChange)
        return change if change.until >= clock.now() else None

    async def change_address(
        self, list_name: ListName, change: AddressChange, source: ConsentSource = BY_OWNER
    ) -> Subscriber | None:
        """Give a subscriber the address that its owner has confirmed: same GUID, fields and state.

        Return None if the subscriber is gone, or now has another address. Can be repeated.
        `Exists` if the new address is on the list already; `NotNow` after too many changes.
        """

        async def attempt() -> Subscriber | None:
            done = await self._rows.find(list_name, change.new)
            if done is not None and hmac.compare_digest(done.guid, change.guid):
                return done
            old = await self._rows.find(list_name, change.old)
            if old is None or not hmac.compare_digest(old.guid, change.guid):
                return None
            await self._unsubscribes.forget(list_name, change.new)
            saved = await self._rows.change_address(old, change.new, source)
            await self._limits.forget(saved.address)
            return saved

        return await retry_on_conflict(attempt, "subscriber", change.guid)

    async def _change(
        self,
        subscriber: Subscriber,
        changed: Callable[[Subscriber], Subscriber],
        source: ConsentSource,
    ) -> Subscriber:
        async def attempt() -> Subscriber:
            current = await self._rows.find(subscriber.list_name, subscriber.address)
            if current is None or current.guid != subscriber.guid:
                raise NoSuch("subscriber", subscriber.address)  # unsubscribed at this moment
            return await self._rows.save(current, changed(current), current.etag, source)

        return await retry_on_conflict(attempt, "subscriber", subscriber.guid)


def _context(list_name: ListName) -> str:
    return f"a change of address on list {list_name}"
