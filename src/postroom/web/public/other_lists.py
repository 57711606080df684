"""The organisation's other public lists on the preferences page: to leave, and to join."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName, MailingList, Subscriber
from postroom.web.public.subscribe import simple_lists
from postroom.web.public.visitor import Visitor

_AT_ONCE: Final = 100
_MOST_TO_JOIN: Final = 50
"""The most lists of each kind that are offered. All those that somebody is on are shown."""


class OtherLists(msgspec.Struct, frozen=True):
    """Public lists by their names: those that an address is a confirmed subscriber of, those that
    need no more than the address, and those that have a form of their own."""

    joined: dict[ListName, Subscriber]
    ticked: list[MailingList]
    """The lists with a box: those that can be left, and those that can be joined with it."""
    with_form: list[MailingList]


async def other_lists(visitor: Visitor, address: Address, but: ListName) -> OtherLists:
    """Return the public lists for an address, except for one."""
    public: list[MailingList] = []
    joined: dict[ListName, Subscriber] = {}
    after: str | None = None
    while True:
        page = await visitor.services.lists.page(limit=_AT_ONCE, after=after)
        found = [each for each in page.lists if each.public and each.name != but]
        subscribers = await asyncio.gather(
            *(visitor.services.subscriptions.find(each.name, address) for each in found)
        )
        joined |= {each.list_name: each for each in subscribers if each and each.verified}
        public += found
        if (after := page.next) is None:
            break
    others = [each for each in public if each.name not in joined]
    simple = (await simple_lists(visitor, others))[:_MOST_TO_JOIN]
    names = joined.keys() | {each.name for each in simple}
    return OtherLists(
        joined,
        [each for each in public if each.name in names],
        [each for each in others if _has_form(each, simple)][:_MOST_TO_JOIN],
    )


def _has_form(mailing_list: MailingList, simple: list[MailingList]) -> bool:
    return mailing_list.name not in {each.name for each in simple}
