"""The recipients of a message that tries only the failed of another one."""

from __future__ import annotations

import asyncio

from postroom.domain.addresses import Address
from postroom.domain.emails import EmailOutcome
from postroom.domain.lists import Subscriber, SubscriberGuid
from postroom.domain.messages import Message
from postroom.domain.refs import MessageRef
from postroom.services import records
from postroom.services.message_rows import MessageRows
from postroom.services.outcomes import OutcomeService
from postroom.storage import Store


class RefusedRecipients:
    def __init__(self, store: Store, messages: MessageRows) -> None:
        self._lists = store.table(records.LISTS)
        self._messages = messages
        self._outcomes = OutcomeService(store)

    async def after(
        self, message: Message, original: MessageRef, address: Address | None
    ) -> dict[Address, SubscriberGuid]:
        """Some subscribers behind an address whom the original did not reach and who still want it.

        In the order of their addresses, with their GUIDs; none at the end.
        """
        tried = await self._messages.get(original)
        place = None if address is None else await self._outcomes.place_after(tried, address)
        while True:
            page = await self._outcomes.page(tried, outcome=EmailOutcome.REFUSED, after=place)
            addresses = [email.address for email in page.emails]
            found = await asyncio.gather(*(self._find(message, each) for each in addresses))
            wanted = {each.address: each.guid for each in found if each is not None}
            place = page.next
            if wanted or place is None:
                return wanted

    async def _find(self, message: Message, address: Address) -> Subscriber | None:
        """The subscriber, if it is on the list, verified and not blocked."""
        entity = await self._lists.get(message.list_name, records.email_row(address))
        if entity is None:
            return None
        subscriber = records.subscriber_from(entity)
        return subscriber if subscriber.may_receive else None
