"""Several mail servers: shared by weight, reserved for lists, or in reserve.

    smtp://a.example?weight=3,smtp://b.example?weight=1,smtp://c.example
        a gets three of four emails, b one; c is used while neither can be
    smtp://a.example,smtp://shop.example?lists=shop+offers
        the emails of the lists `shop` and `offers` go to the second server, all others to the first

Each server with a weight has a separate transport, which falls back to the other servers. So a
server that cannot be used costs nothing but its share, and a single server is served as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import ConnectionQuota, PartWatcher, Result, Transport, Watcher
from postroom.transport.smtp.servers import SmtpServer, Timeouts
from postroom.transport.smtp.smtp_transport import SmtpTransport


def open_servers(
    servers: Sequence[SmtpServer], *, connections: int, timeouts: Timeouts | None = None
) -> Transport:
    """Return the transport for these servers, at least one of which is for all lists."""
    general = [each for each in servers if not each.lists]
    names = dict.fromkeys(name for each in servers for name in each.lists)
    groups: dict[tuple[SmtpServer, ...], Transport] = {}
    by_list: dict[str, Transport] = {}
    for name in names:
        own = tuple(each for each in servers if name in each.lists)
        if own not in groups:
            groups[own] = _shared(own, connections, timeouts)
        by_list[name] = groups[own]
    default = _shared(general, connections, timeouts)
    return ListServers(default, by_list) if by_list else default


def _shared(
    servers: Sequence[SmtpServer], connections: int, timeouts: Timeouts | None
) -> Transport:
    weighted = [each for each in servers if each.weight]
    ordered = [*weighted, *(each for each in servers if not each.weight)]
    if len(weighted) < 2:
        return SmtpTransport(ordered, connections=connections, timeouts=timeouts)
    shares: dict[Transport, int] = {}
    for each in weighted:
        preferred = [each, *(other for other in ordered if other is not each)]
        shares[SmtpTransport(preferred, connections=connections, timeouts=timeouts)] = each.weight
    return WeightedServers(shares)


class WeightedServers(Transport):
    """Divides each batch among servers by their weights."""

    def __init__(self, shares: Mapping[Transport, int]) -> None:
        self._transports = tuple(shares)
        self._total = sum(shares.values())
        self._shares = tuple(weight / self._total for weight in shares.values())
        self._owed = [0.0] * len(self._shares)
        """Fractions of an email that each server has got too few so far."""

    @property
    def concurrency(self) -> int:
        return sum(each.concurrency for each in self._transports)

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        sending, start = [], 0
        for transport, count in zip(self._transports, self._divided(len(recipients)), strict=True):
            if count:
                some = recipients[start : start + count]
                sending.append(transport.send(mailing, some, PartWatcher(watcher, start), quota))
                start += count
        return [each for results in await asyncio.gather(*sending) for each in results]

    def _divided(self, count: int) -> list[int]:
        """Return how many of the next emails each server gets. Rounding evens out over time."""
        wanted = [
            share * count + owed for share, owed in zip(self._shares, self._owed, strict=True)
        ]
        counts = [max(0, int(each)) for each in wanted]
        while sum(counts) < count:
            counts[max(range(len(counts)), key=lambda i: wanted[i] - counts[i])] += 1
        while sum(counts) > count:  # only servers that get some can get fewer
            some = [i for i, each in enumerate(counts) if each]
            counts[min(some, key=lambda i: wanted[i] - counts[i])] -= 1
        self._owed = [want - got for want, got in zip(wanted, counts, strict=True)]
        return counts

    def limit_connections(self, most: int) -> None:
        """Share the connections by weight; each server keeps at least one."""
        for transport, share in zip(self._transports, self._shares, strict=True):
            transport.limit_connections(max(1, int(most * share)))

    async def check(self) -> str:
        """Check all servers: the first transport knows each of them."""
        return await self._transports[0].check()

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._transports))


class ListServers(Transport):
    """Sends the emails of some lists through separate servers."""

    def __init__(self, default: Transport, by_list: Mapping[str, Transport]) -> None:
        self._default = default
        self._by_list = by_list
        self._all = tuple(dict.fromkeys((default, *by_list.values())))

    @property
    def concurrency(self) -> int:
        return sum(each.concurrency for each in self._all)

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        transport = self._by_list.get(mailing.list_name, self._default)
        return await transport.send(mailing, recipients, watcher, quota)

    def limit_connections(self, most: int) -> None:
        for each in self._all:
            each.limit_connections(max(1, most // len(self._all)))

    async def check(self) -> str:
        return "; ".join([await each.check() for each in self._all])

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._all))
