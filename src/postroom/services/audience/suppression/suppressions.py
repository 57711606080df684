"""Suppressing addresses and lifting it, by the team or because of bounces.

A suppression is written first, then onto the subscriber's row of each list: a sender reads that row
anyway, so that suppressions cost it nothing. Every step can be repeated. A work item in
`mail/suppress`, put before the first step, repeats the writes to the lists a little later. The
process may have been killed, or the address may have been added to a list at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Set
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.suppressions import (
    LONGEST_SOURCE,
    AddressDigest,
    Suppression,
    address_digest,
    parse_reason,
)
from postroom.domain.errors import Exists, Invalid, NoSuch
from postroom.domain.messages.delivery.bounces import Bounce, BounceSource
from postroom.domain.messages.delivery.providers import provider_of
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import ERASED
from postroom.domain.messages.pages import SUPPRESS_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.domain.plain_text import one_line
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.suppression.bounce_history import BounceRecords
from postroom.services.audience.suppression.bounce_policy import (
    QUIET,
    SOFT_DAYS,
    BounceHistory,
    decide,
    soft_days,
)
from postroom.services.audience.suppression.many_suppressions import ManySuppressions
from postroom.services.audience.suppression.suppression_items import apply_again, count_bounces
from postroom.services.audience.suppression.suppression_rows import (
    SuppressionRows,
    SuppressionSlice,
)
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.storage import Conflict, Store
from postroom.transport.smtp.bounce_verdicts import judge_mailbox

_AGAIN_AFTER: Final = 60.0  # seconds
_COUNT_AFTER: Final = 5.0
_REMEMBERED: Final = 1000  # messages
_LISTS_AT_ONCE: Final = 100
_MESSAGES_AT_ONCE: Final = 50
_LONGEST_SEND: Final = timedelta(days=14)  # from when a message is due until its last email


class SuppressionService:
    def __init__(
        self,
        store: Store,
        rows: SuppressionRows,
        many: ManySuppressions,
        lists: ListService,
        subscriptions: SubscriptionService,
        messages: MessageService,
        times: MessageTimes,
        outcomes: OutcomeService,
    ) -> None:
        self._rows = rows
        self._many = many
        self.bounces = BounceRecords(store)
        self._work = store.queue(SUPPRESS_QUEUE)
        self._counted_at: dict[MessageRef, float] = {}
        """When counting the bounces of a message was last requested."""
        self._lists = lists
        self._subscriptions = subscriptions
        self._subscribers = subscriptions.rows
        self._messages = messages
        self._times = times
        self._outcomes = outcomes

    # -- looking -----------------------------------------------------------------------------

    async def of_address(self, address: Address) -> list[Suppression]:
        """Return the suppressions of an address: that of every list first."""
        return await self._rows.of_address(address)

    async def get(self, email: str, list_name: str | None = None) -> Suppression:
        """Return the suppression of an address, on every list or on one. `NoSuch`, `Invalid`."""
        address = parse_address(email)
        found = await self._rows.find(address, await self._scope(list_name))
        if found is None:
            raise NoSuch("suppression", address)
        return found

    async def slice(
        self, *, contains: str = "", limit: int = 100, after: str | None = None
    ) -> SuppressionSlice:
        """Return suppressions, newest first, whose address contains `contains`."""
        return await self._rows.slice(contains=contains.strip(), limit=limit, after=after)

    def all(self) -> AsyncIterator[Suppression]:
        """Yield every suppression, newest first."""
        return self._rows.all()

    # -- by the team -------------------------------------------------------------------------

    async def suppress(
        self,
        email: str,
        reason: str,
        *,
        source: str,
        list_name: str | None = None,
        expires_at: datetime | None = None,
    ) -> Suppression:
        """Suppress an address on every list, or on one. `Exists`, `Invalid`, `NoSuch` list."""
        now, address = clock.now(), parse_address(email)
        if expires_at is not None and expires_at <= now:
            raise Invalid("expires_at", f"must be in the future, not {expires_at.isoformat()}")
        new = Suppression(
            digest=address_digest(address),
            address=address,
            reason=parse_reason(reason),
            source=one_line("source", source, longest=LONGEST_SOURCE),
            created_at=now,
            list_name=await self._scope(list_name),
            expires_at=expires_at,
        )
        await self._work.put(apply_again(address), delay=_AGAIN_AFTER)

        async def attempt() -> None:
            old = await self._rows.find(address, new.list_name)
            if old is not None and old.counts_at(now):
                raise Exists("suppression", address)
            await self._rows.write(new, old)

        await retry_on_conflict(attempt, "suppression", address)
        await self.apply(address)
        return new

    async def lift(self, email: str, list_name: str | None = None) -> Suppression:
        """Lift a suppression; the bounces that led to it no longer count. `NoSuch`, `Invalid`."""
        address = parse_address(email)

        async def attempt() -> Suppression:
            found = await self.get(email, list_name)
            await self._work.put(apply_again(address), delay=_AGAIN_AFTER)
            await self.bounces.clear(found.digest, clock.now())
            await self._rows.remove(found)
            return found

        lifted = await retry_on_conflict(attempt, "suppression", email)
        await self.apply(address)
        return lifted

    async def _scope(self, list_name: str | None) -> ListName | None:
        return (await self._lists.get(list_name)).name if list_name else None

    async def apply(self, address: Address) -> int:
        """Write the suppressions of an address, or that there are none, onto its row on each list;
        return how many rows changed. Can be repeated."""
        changed, after = 0, None
        while True:
            found = await self._lists.slice(limit=_LISTS_AT_ONCE, after=after)
            results = await asyncio.gather(
                *(self._subscribers.block_suppressed(each.name, address) for each in found.lists)
            )
            changed += sum(each is not None for each in results)
            if (after := found.next) is None:
                return changed

    async def apply_to_many(self, addresses: Iterable[Address]) -> None:
        """Write the suppressions of addresses onto their rows on each list. Can be repeated."""
        await self._many.apply(addresses)

    async def lift_expired(self) -> int:
        """Lift the suppressions that have expired; return how many. The next bounce in the same row
        of bounces suppresses the address again, unless an email was delivered in between."""
        lifted, erased = 0, list[Suppression]()
        async for each in self._rows.expired(clock.now()):
            if not each.address:
                erased.append(each)
                continue
            await self._work.put(apply_again(each.address), delay=_AGAIN_AFTER)
            if await self._remove_expired(each):
                await self.apply(each.address)
                lifted += 1
        if erased:  # their owners may have come back
            await self._unblock({each.digest for each in erased})
        for each in erased:
            lifted += await self._remove_expired(each)
        return lifted

    async def _remove_expired(self, suppression: Suppression) -> bool:
        try:
            await self._rows.remove(suppression)
        except Conflict:
            return False  # another suppression has taken its place in the meantime
        return True

    async def _unblock(self, digests: Set[AddressDigest]) -> None:
        """Write onto the rows of subscribers that suppressions without an address have expired.
        Which subscribers these are is known only by looking at all who are suppressed."""
        async for each in self._subscribers.suppressed():
            if address_digest(each.address) in digests:
                await self._subscribers.block_suppressed(each.list_name, each.address)

    async def erase(self, address: Address) -> None:
        """Remove an address from its suppressions, whose digests still protect it, and forget its
        bounces. Can be repeated."""
        for each in await self._rows.of_address(address):
            if each.address or each.diagnostic:
                erased = msgspec.structs.replace(each, address=Address(""), diagnostic="")
                await self._rows.write(erased, each)
        await self.bounces.erase_history(address)

    # -- by bounces --------------------------------------------------------------------------

    async def record(self, bounce: Bounce) -> Suppression | None:
        """Record a bounce next to its email, and suppress the address if that follows; return the
        suppression. Can be repeated: the event ID identifies the bounce."""
        address = bounce.address or await self._address_of(bounce)
        if address is None:
            return None
        if bounce.source is not BounceSource.SENDING:  # its reply is recorded with the email
            bounce = await self.bounces.record(bounce, address)
            await self._count_soon(bounce.ref)
        digest = address_digest(address)
        history = await self.bounces.remember(bounce, digest)
        if soft_days(history, bounce) >= SOFT_DAYS:
            delivered_at = await self._last_delivery(address, history)
            history = msgspec.structs.replace(history, delivered_at=delivered_at)
        verdict = decide(history, bounce, clock.now())
        if verdict is None:
            return None
        new = Suppression(
            digest=digest,
            address=address,
            reason=verdict.reason.value,
            source=bounce.source.value,
            created_at=bounce.received_at,
            expires_at=verdict.expires_at,
            ref=bounce.ref,
            diagnostic=bounce.diagnostic,
        )
        await self._keep_longest(new)
        await self.apply(address)
        return new

    async def _count_soon(self, ref: MessageRef | None) -> None:
        """Let the bounces of a message be counted a little later, once for all that arrive until
        then."""
        now = clock.monotonic()
        if ref is None or now - self._counted_at.get(ref, -_COUNT_AFTER) < _COUNT_AFTER:
            return
        if len(self._counted_at) > _REMEMBERED:
            self._counted_at.clear()
        await self._work.put(count_bounces(ref), delay=_COUNT_AFTER)
        self._counted_at[ref] = now

    async def _keep_longest(self, new: Suppression) -> None:
        """Write a suppression, unless the address has one that lasts as long."""

        async def attempt() -> None:
            known = await self._rows.find(new.address)
            if known is None or not known.is_at_least(new):
                await self._work.put(apply_again(new.address), delay=_AGAIN_AFTER)
                await self._rows.write(new, known)

        await retry_on_conflict(attempt, "suppression", new.address)

    async def record_refusals(self, ref: MessageRef) -> int:
        """Record what mail servers replied when they refused emails of a message that is done, with
        the same verdicts as for bounces; return how many led to a suppression. Can be repeated."""
        message, suppressed = await self._messages.get(ref), 0
        async for email in self._outcomes.emails(message, EmailOutcome.REFUSED):
            if email.address == ERASED:
                continue
            verdict = judge_mailbox(email.reply)
            bounce = Bounce(
                verdict.kind,
                f"refused {ref} {address_digest(email.address)}",
                BounceSource.SENDING,
                email.at or message.due_at,
                message.list_name,
                address=email.address,
                ref=ref,
                diagnostic=email.reply,
                status=verdict.status,
                by_code=verdict.by_code,
                provider=provider_of(email.address),
            )
            suppressed += await self.record(bounce) is not None
        return suppressed

    async def _address_of(self, bounce: Bounce) -> Address | None:
        if bounce.subscriber is None or bounce.list_name is None:
            return None
        found = await self._subscriptions.by_guid(bounce.list_name, bounce.subscriber)
        return None if found is None else found.address

    async def _last_delivery(self, address: Address, history: BounceHistory) -> datetime | None:
        """Return when the last email to an address was accepted that has not bounced since: only
        those count that are older than any bounce could be late."""
        first = min((each.at for each in history.bounces), default=clock.now())
        until, before = clock.now() - QUIET, None
        while True:
            found = await self._times.all(limit=_MESSAGES_AT_ONCE, before=before)
            for message in found.messages:
                for email in await self._outcomes.emails_to(message, address):
                    is_old = email.at is not None and first <= email.at <= until
                    if email.outcome is not EmailOutcome.ACCEPTED or not is_old:
                        continue
                    if not await self.bounces.of_email(message.ref, address):
                        return email.at
            if (before := found.next) is None or found.messages[-1].due_at < first - _LONGEST_SEND:
                return None
