"""Sends a page with subscribers of several lists: each list has its own mailing, because its name
and links are in every email."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby

from postroom.domain.audience.addresses import Address
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import PartWatcher, Result, Transport, Watcher


async def send_by_list(
    transport: Transport,
    mailings: Mapping[int, Mailing],
    numbers: Mapping[Address, int],
    recipients: Sequence[Recipient],
    watcher: Watcher,
) -> list[Result]:
    """Send to each recipient the mailing of their list, whose number `numbers` has; return the
    results in order. Recipients of one list should be neighbours."""
    sending = []
    start = 0
    for number, group in groupby(recipients, key=lambda each: numbers[each.address]):
        members = list(group)
        sending.append(transport.send(mailings[number], members, PartWatcher(watcher, start)))
        start += len(members)
    return [each for results in await asyncio.gather(*sending) for each in results]
