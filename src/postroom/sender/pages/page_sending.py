"""Sends what is due of a page: results of the mail server → new states of its emails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import WorkItem
from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.limits.paced_sending import PageSlots, SendPart
from postroom.sender.mailings import BEING_SENT
from postroom.sender.pages.active_pages import ActivePage
from postroom.sender.policy import Judge, suppressed
from postroom.sender.sender_parts import SenderParts
from postroom.services.messages.sending.page_rows import Page
from postroom.transport.contract import (
    ConnectionQuota,
    PartWatcher,
    Result,
    ResultKind,
    Transport,
    Watcher,
)

LOST_OWNER = "another sender had claimed the page and did not finish it"
LEFT = "no longer a confirmed subscriber at the time of sending"

_REFUSED = ResultKind.REFUSED


class PageSending:
    def __init__(self, parts: SenderParts, progressed: Callable[[], None]) -> None:
        """`progressed` is called when the number of emails of a page is known, and when all of them
        are sent: there may be room for more pages."""
        self._parts = parts
        self._progressed = progressed
        # Pages with emails that may have been handed over and have no record, even after the page
        # was lost: its results are discarded then.
        self._unsettled: set[str] = set()

    def has_sent(self, item: WorkItem) -> bool:
        """Return whether emails of a page may have been handed over that are not settled."""
        return item.partition in self._unsettled

    def settled(self, item: WorkItem) -> None:
        """Note that all results of a page are recorded."""
        self._unsettled.discard(item.partition)

    async def new_states(
        self, message: Message, page: Page, taken: ActivePage, allowed: Mapping[Address, Recipient]
    ) -> dict[int, EmailState]:
        """Send what is due; return the new states of the page's emails, by their places."""
        judge, emails = self._judge(), page.emails
        if page.claim.doubtful:
            # From a sender whose journal is unavailable: every email without a record is in doubt.
            return {
                place: judge.unanswered(LOST_OWNER, emails.state(place))
                for place in emails.pending()
            }
        if message.status not in BEING_SENT:
            return {}
        states = self._parts.lost_history.in_doubt_states(page)
        places: dict[Address, int] = {}
        recipients: list[Recipient] = []
        values = emails.values()
        for place, address in taken.due:
            if place in states:
                continue
            if (recipient := allowed.get(address)) is not None:
                if values:
                    recipient = Recipient(
                        recipient.address, recipient.guid, values[place], recipient.agreed
                    )
                places[address] = place
                recipients.append(recipient)
            else:
                states[place] = suppressed(LEFT, emails.state(place), judge.now)
        admission = await self._parts.faults.admit(message.ref, recipients)
        recipients = admission.recipients
        if emails.has_lists:
            recipients = sorted(recipients, key=lambda e: emails.list_number(places[e.address]))
        limits, sender = self._parts.limits, message.from_address or ""
        limited = await limits.admit(sender, recipients, admission.probes)
        for address, wait in limited.waiting.items():
            place = places[address]
            states[place] = judge.waits(wait.reason, wait.until, emails.state(place))
        try:
            sent = await self._send(message, page, limited.slots, taken, places)
        except BaseException:
            if not self.has_sent(taken.item):
                await limits.conclude(limited, {})
            raise
        await limits.conclude(limited, sent)
        await self._parts.faults.conclude(admission.probes, sent)
        holds = await self._parts.faults.holds()
        judge = self._judge()
        for address, result in sent.items():
            if result is None:
                continue
            place = places[address]
            before = emails.state(place)
            if result.kind is _REFUSED and holds.holds_refusal(result):
                states[place] = judge.held(result.reply, before)
            else:
                states[place] = judge.attempted(result, before)
        return states

    async def _send(
        self,
        message: Message,
        page: Page,
        slots: PageSlots,
        taken: ActivePage,
        places: Mapping[Address, int],
    ) -> dict[Address, Result | None]:
        """Hand emails to the transport; return the result of each, even if it was stopped."""
        parts, item = self._parts, taken.item
        recipients = slots.recipients
        if parts.stopping.is_set() or not recipients:
            return {}
        send = await self._send_part(message, page, recipients, places)
        if parts.faults.has_met(message.ref):
            return {}
        addresses = [each.address for each in recipients]

        def tried(address: Address) -> bool:
            return page.emails.state(places[address]).tries > 0

        listener = parts.faults.listener(page.ref, page.number, tried)
        watcher = parts.journal.sending(item.partition, addresses, listener)
        taken.watcher = watcher
        self._unsettled.add(item.partition)
        taken.sending = asyncio.create_task(
            parts.paced.send(slots.parts, send, watcher, parts.faults.has_met_provider)
            if slots.is_paced
            else send(recipients, watcher, None)
        )
        self._progressed()
        await asyncio.wait([taken.sending])
        self._progressed()
        if not taken.sending.cancelled():
            taken.sending.result()
        for position in watcher.unanswered():
            watcher.settled(position, Result(ResultKind.IN_DOUBT, "no reply before the end"))
        results = dict(zip(addresses, watcher.results, strict=True))
        parts.lost_history.remember(
            item, {each for each, result in results.items() if result and result.may_have_arrived}
        )
        return results

    async def _send_part(
        self,
        message: Message,
        page: Page,
        recipients: Sequence[Recipient],
        places: Mapping[Address, int],
    ) -> SendPart:
        """Return what sends to recipients of a page: each gets the mailing of their list."""
        mailings, transport = self._parts.mailings, self._parts.transport
        if not page.emails.has_lists:
            return partial(transport.send, await mailings.mailing(message))
        number_of = page.emails.list_number
        numbers = {each.address: number_of(places[each.address]) for each in recipients}
        by_list = {each: await mailings.mailing(message, each) for each in set(numbers.values())}
        return partial(_send_by_list, transport, by_list, numbers)

    def _judge(self) -> Judge:
        return Judge(clock.now(), self._parts.settings.retry, self._parts.settings.in_doubt)


async def _send_by_list(
    transport: Transport,
    mailings: Mapping[int, Mailing],
    numbers: Mapping[Address, int],
    recipients: Sequence[Recipient],
    watcher: Watcher,
    quota: ConnectionQuota | None = None,
) -> list[Result]:
    """Send a page with subscribers of several lists: to each recipient the mailing of their list,
    whose name and links are in every email, and whose number `numbers` has. Return the results in
    order. Recipients of one list should be neighbours."""
    sending = []
    start = 0
    for number, group in groupby(recipients, key=lambda each: numbers[each.address]):
        members = list(group)
        sending.append(
            transport.send(mailings[number], members, PartWatcher(watcher, start), quota)
        )
        start += len(members)
    return [each for results in await asyncio.gather(*sending) for each in results]
