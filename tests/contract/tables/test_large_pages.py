"""A page of the mail service fits into one row on every engine, however long its texts are."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import EmailState, PageEmails
from postroom.domain.messages.refs import MessageRef
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.settling import settled
from postroom.services.messages.sending.holds import Holds
from postroom.services.messages.sending.page_rows import FREE, Page, PageRows, page_entity
from postroom.storage import Store, limits
from postroom.storage.values import entity_size


async def test_the_largest_possible_page_is_claimed_settled_and_read(
    store: Store,
) -> None:
    """Also on Azure, where a property holds 64 KB and an entity 1 MB."""
    domain = ".".join(("b" * 60, "c" * 63, "d" * 63, "e" * 63, "ed"))
    addresses = [Address(f"{number:03}{'a' * 61}@{domain}") for number in range(100)]
    assert {len(each) for each in addresses} == {320}, "the longest that the product accepts"
    ref = MessageRef("639303934531336520")
    guids = {each: SubscriberGuid(str(uuid.UUID(int=1))) for each in addresses}
    page = Page("2026-11-15", ref, 0, PageEmails.planned(guids))
    await PageRows(store).table.insert(page_entity(page))
    item = page.item()
    taken = (await Claims(PageRows(store), "me", 60.0).take([item]))[item]
    assert isinstance(taken, Page)
    replies = [f"550 {number:03} ".ljust(1000, "한") for number in range(100)]
    states = {
        place: EmailState(EmailOutcome.REFUSED, replies[place], tries=1) for place in range(100)
    }
    after = settled(taken, states, Holds(), datetime.now(UTC))
    assert entity_size(page_entity(after).properties) < limits.ENTITY_BYTES // 2
    await Settler(store).settle(after, taken.etag)
    stored = await PageRows(store).get(page.day, ref, 0)
    assert stored is not None
    assert stored.claim == FREE
    assert [address for address, _ in stored.emails] == addresses
    assert [each.reply for _, each in stored.emails] == replies
    assert stored.counts.refused == 100
