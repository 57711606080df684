"""Subscribers: signing up, confirming, unsubscribing, and changes by an administrator.

`subscriber_reading.py` finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.consent import (
    BY_API,
    BY_LINK,
    BY_TEAM,
    ConsentAction,
    ConsentSource,
    arrival,
)
from postroom.domain.audience.fields import check_size
from postroom.domain.audience.lists.lists import ListName, Subscriber, parse_guid, parse_list_name
from postroom.domain.audience.renamed_fields import without
from postroom.domain.errors import Exists, NotNow, Overtaken
from postroom.domain.languages import parse_language
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.domain.plain_text import some_lines
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import first_rows
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.growth.list_growth import ListCounts, figures_of
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.changed_details import ChangedDetails
from postroom.services.audience.signup.confirming import (
    confirmation_item,
    confirmed_with,
    is_blocked,
    verified_now,
    with_block,
)
from postroom.services.audience.signup.signup_limits import SignupLimits
from postroom.services.audience.signup.subscriber_reading import SubscriberReading
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.subscriber_rows import SubscriberRows, new_subscriber
from postroom.services.concurrency import both, retry_on_conflict
from postroom.storage import (
    AlreadyExists,
    Batch,
    Put,
    StaleETag,
    Step,
    Store,
)

# A list that existed a moment ago is not read again: `keep` notices if it was deleted.
_SEEN_SECONDS = 5.0
LONGEST_NOTE: Final = 2000


class SubscriptionService(SubscriberReading):
    def __init__(
        self,
        store: Store,
        rows: SubscriberRows,
        lists: ListService,
        counts: ListCounts,
        fields: FieldService,
        limits: SignupLimits,
        unsubscribes: Unsubscribes,
    ) -> None:
        super().__init__(rows, lists)
        self._store = store
        self._confirmations = store.queue(CONFIRM_QUEUE)
        self._fields = fields
        self._limits = limits
        self.changes = ChangedDetails(store, self._rows, fields, self._limits)
        self._seen: dict[ListName, float] = {}  # the list of the last sign-up, and when that was
        self._unsubscribes = unsubscribes
        self._counts = counts

    # -- by the subscriber -------------------------------------------------------------------

    async def subscribe(
        self,
        list_name: str,
        email: str,
        *,
        attributes: Mapping[str, Any] = {},
        consent: str = "",
        tracking: bool = False,
        language: str = "",
        place: str | None = None,
        source: ConsentSource = BY_API,
        may_change: bool = False,
    ) -> bool:
        """Ask the owner of the address to confirm; return False if they already have.

        Signing up again before confirming sends the same link again, unless that has been done too
        often recently, or the address is suppressed: then nothing is sent, and the result is the
        same. Values of public fields in `attributes` count once the owner has confirmed
        (`Invalid`); those of someone who already has are ignored, or with `may_change`, they are
        asked to confirm what differs. `consent` is kept with the subscriber, and so is whether they
        agree to `tracking`. `language` is that of the email, `place` identifies the visitor of a
        page (see `SignupLimits`).

        Programs with an API key mostly sign up new people, so that is tried first.
        """
        name = parse_list_name(list_name, "list_name")
        address = parse_address(email, "email_address")
        language = language and parse_language(language)
        checked = (await self._fields.recent(name)).check_public(attributes)
        new = new_subscriber(
            name,
            address,
            verified=False,
            attributes=checked,
            consent=consent,
            tracking=tracking,
            source=arrival(source),
        )
        if place is None:
            new = await self._rows.with_suppression(new)
            if await self._sign_up_new(new, language, source):
                return True
        (_, subscriber), (allowance, new) = await both(
            both(self._lists.get(name), self._rows.find(name, address)),
            both(self._limits.check(address, name, place), self._rows.with_suppression(new)),
        )
        if subscriber is not None and subscriber.verified:
            if may_change and allowance is not None:
                await self.changes.ask(subscriber, checked, allowance, language, source)
            return False
        if allowance is None:
            return True
        is_counted, signed_up = await both(
            self._limits.take(allowance), self._rows.sign_up(new, subscriber, source)
        )
        if signed_up.verified:
            return False
        if is_counted:
            # If the list is deleted at this moment, the work item has no effect.
            await both(
                self._confirmations.put_many([confirmation_item(signed_up, language)]),
                self._rows.keep(signed_up),
            )
        else:
            await self._rows.keep(signed_up)
        return True

    async def _sign_up_new(self, new: Subscriber, language: str, source: ConsentSource) -> bool:
        """Write rows, limit and work item with one call to the store.

        Return False if the address is on the list, or the mailbox was counted today. Then the work
        item has not been put yet.
        """
        name = new.list_name
        if clock.monotonic() - self._seen.get(name, -_SEEN_SECONDS) >= _SEEN_SECONDS:
            await self._lists.get(name)
            self._seen = {name: clock.monotonic()}
        steps: list[Step] = [
            Batch(entities.LISTS, first_rows(new, ConsentAction.SIGNED_UP, source)),
            await self._limits.first(new.address, name),
            Put(CONFIRM_QUEUE, [confirmation_item(new, language)]),
        ]
        try:
            await self._store.write_in_order(steps)
        except AlreadyExists:
            return False
        await self._rows.keep(new)
        await self._counts.add(name, figures_of(new))
        return True

    async def confirm(
        self, list_name: str, guid: str, source: ConsentSource = BY_LINK
    ) -> Subscriber | None:
        """Verify the owner of a confirmation link; return None for an unknown link. Repeatable.

        An earlier unsubscribe is forgotten first: after an interruption, the link is used again.
        """
        name, wanted = parse_list_name(list_name, "listName"), parse_guid(guid)

        async def attempt() -> Subscriber | None:
            subscriber, head = await self._rows.owner(name, wanted)
            if subscriber is None or subscriber.verified:
                return subscriber
            await self._unsubscribes.forget(subscriber.list_name, subscriber.address)
            confirmed = confirmed_with(subscriber, await self._fields.recent(subscriber.list_name))
            confirmed = await self._rows.with_suppression(confirmed)
            saved = await self._rows.save(subscriber, confirmed, subscriber.etag, source, head=head)
            await self._limits.forget(saved.address)
            return saved

        return await retry_on_conflict(attempt, "subscriber", guid)

    async def unsubscribe(
        self,
        list_name: str,
        guid: str,
        source: ConsentSource = BY_LINK,
        *,
        first: Sequence[Step] = (),
    ) -> Subscriber | None:
        """Remove the owner of an unsubscribe link; return None if they are not on the list.

        The unsubscribe is recorded before they are removed, so that no import adds them again, and
        before that come the steps of `first`, which can be repeated.
        """
        name, wanted = parse_list_name(list_name, "listName"), parse_guid(guid)

        async def attempt() -> Subscriber | None:
            subscriber, head = await self._rows.owner(name, wanted)
            if subscriber is None:
                return None
            if not await self._rows.leave(subscriber, source, head, first):
                raise Overtaken("subscriber", guid)  # removed, or its address changed
            await self._limits.forget(subscriber.address)
            return subscriber

        return await retry_on_conflict(attempt, "subscriber", guid)

    # -- by an administrator -----------------------------------------------------------------

    async def add(
        self,
        list_name: str,
        email: str,
        *,
        verified: bool = False,
        attributes: Mapping[str, Any] | None = None,
        source: ConsentSource = BY_TEAM,
    ) -> Subscriber:
        """Add an address to a list. `Exists`; `Invalid` attributes."""
        mailing_list = await self._lists.get(list_name)
        address, came_by = parse_address(email), arrival(source)
        new = new_subscriber(mailing_list.name, address, verified=verified, source=came_by)
        fields = (await self._fields.of(new.list_name)).fields
        checked = fields.check(attributes or {})
        fields.check_complete(checked)
        new = msgspec.structs.replace(new, attributes=checked)
        try:
            act = ConsentAction.ADDED_CONFIRMED if verified else ConsentAction.ADDED
            return await self._rows.insert(new, act, source)
        except AlreadyExists as exc:
            raise Exists("subscriber", new.address) from exc

    async def ask(self, list_name: str, email: str) -> Subscriber:
        """Send the confirmation email again to an address that is not verified. `NotNow` if it is
        verified or blocked, or has been asked too often recently (`SignupLimits`).

        It is counted before it is queued: after a crash in between, it has to be sent again.
        """
        subscriber = await self.get(list_name, email)
        if subscriber.verified:
            raise NotNow(f"{subscriber.address} has already confirmed")
        if subscriber.blocked:
            raise is_blocked(subscriber)
        allowance = await self._limits.check(subscriber.address, subscriber.list_name, None)
        if allowance is None or not await self._limits.take(allowance):
            raise NotNow(
                f"{subscriber.address} has been asked too often recently: wait five minutes or,"
                " after three times on one day, until tomorrow"
            )
        await self._confirmations.put_many([confirmation_item(subscriber, "")])
        return subscriber

    async def edit(
        self,
        list_name: str,
        email: str,
        *,
        verified: bool | None = None,
        blocked: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        note: str | None = None,
        etag: str | None = None,
        source: ConsentSource = BY_TEAM,
    ) -> Subscriber:
        """Change what is given; of the attributes, those that are named, and None removes one.

        With `etag`: `Overtaken` if another change was saved first.
        """
        old = await self.get(list_name, email)
        new = old
        if verified is not None and verified != old.verified:
            new = (
                verified_now(old)
                if verified
                else msgspec.structs.replace(old, verified=False, verified_at=None)
            )
        if blocked is not None:
            new = with_block(new, blocked)
        if attributes is not None:
            new = msgspec.structs.replace(
                new, attributes=await self._changed(old.list_name, old.attributes, attributes)
            )
        if note is not None:
            checked = some_lines("note", note, longest=LONGEST_NOTE)
            new = msgspec.structs.replace(new, note=checked)
        return await self._rows.save(old, new, etag or old.etag, source)

    async def _changed(
        self, name: ListName, old: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return attributes with these changes. Those of fields that are not declared stay."""
        fields = (await self._fields.of(name)).fields
        checked = fields.keeping_choices(old).check(changes)
        return check_size(without(old, changes, fields) | checked)

    async def change_address(
        self,
        list_name: str,
        email: str,
        new_email: str,
        etag: str | None = None,
        source: ConsentSource = BY_TEAM,
    ) -> Subscriber:
        """Give a subscriber another address, or another spelling of it. `Exists`, `NotNow`.

        The links in emails to the old address still work.
        """
        old = await self.get(list_name, email)
        if etag is not None and etag != old.etag:
            raise Overtaken("subscriber", old.address)
        address = parse_address(new_email)
        if address == old.address:
            return old
        return await self._rows.change_address(old, address, source)

    async def move(
        self, list_name: str, email: str, to_list: str, source: ConsentSource = BY_TEAM
    ) -> Subscriber:
        """Move a subscriber to another list, with the same GUID.

        It is added there before it is removed here: at every moment the subscriber is on one of the
        lists, and an interrupted move is finished by repeating it.
        """
        old = await self.get(list_name, email)
        target = await self._lists.get(to_list)
        new = msgspec.structs.replace(old, list_name=target.name, etag="")
        if target.name == old.list_name:
            return old
        try:
            new = await self._rows.insert(new, ConsentAction.MOVED_IN, source)
        except AlreadyExists as exc:
            there = await self._rows.find(target.name, new.address)
            if there is None or there.guid != old.guid:
                raise Exists("subscriber", new.address) from exc
            new = there
        await self._rows.remove(old, act=ConsentAction.MOVED_OUT, source=source)
        return new

    async def remove(
        self,
        list_name: str,
        email: str,
        etag: str | None = None,
        source: ConsentSource = BY_TEAM,
    ) -> None:
        """Remove an address from a list. `NoSuch`, `Overtaken`."""
        subscriber = await self.get(list_name, email)
        try:
            await self._rows.remove(subscriber, etag, source=source)
        except StaleETag as exc:
            raise Overtaken("subscriber", subscriber.address) from exc
