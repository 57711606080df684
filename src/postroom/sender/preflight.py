"""Preflight: everything that can be known about a message before it is sent.

What needs the network (links, DNS) runs in the background: a preflight says what is known so far,
and how much is still being checked.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final, Protocol
from urllib.parse import SplitResult, urlsplit

from postroom.composing.findings import Finding, Level
from postroom.domain.audience.addresses import domain_of
from postroom.domain.audience.lists import ListName
from postroom.domain.errors import Invalid
from postroom.domain.messages.pictures import PATH, parse_file_name
from postroom.mail.html import HtmlTag, tokens
from postroom.sender.rendered_mail import Examined, Renderer
from postroom.services.audience.field_gaps import FieldGaps
from postroom.services.messages.background_checks import BackgroundChecks
from postroom.services.messages.link_checks import LinkTrial, web_links
from postroom.services.messages.preflight import (
    Preflight,
    inspect_features,
    inspect_gaps,
    inspect_links,
    inspect_picture_sizes,
    inspect_records,
)
from postroom.services.messages.sending_domains import DomainRecords, is_reserved
from postroom.storage import BlobInfo

_MOST_PICTURES: Final = 50


class StoredPictures(Protocol):
    async def blob(self, name: str) -> BlobInfo | None: ...


class PreflightService:
    def __init__(
        self,
        renderer: Renderer,
        pictures: StoredPictures,
        links: LinkTrial | None,
        records: DomainRecords | None,
        gaps: FieldGaps,
        own_host: str,
    ) -> None:
        """Without `links` and `records`, these are not looked at."""
        self._renderer = renderer
        self._pictures = pictures
        self._trial = links
        self._links = BackgroundChecks(links.fault) if links else None
        self._records = BackgroundChecks(records.faults) if records else None
        self._gaps = BackgroundChecks(partial(_count_gaps, gaps))
        self._own_host = own_host

    async def check(self, ref: str, *, seconds: float = 0.0) -> Preflight:
        """Return what is wrong with a message, and who will receive it. Wait at most this long for
        what needs the network. `NoSuch`."""
        examined = await self._renderer.examine(ref)
        findings = list(examined.findings)
        checking = 0
        if examined.mail is not None and examined.mail.html is not None:
            html = examined.mail.html
            findings += await asyncio.to_thread(lambda: list(inspect_features(html)))
            findings += await self._picture_sizes(html)
            checking += await self._try_links(html, seconds, findings)
        checking += await self._look_up(examined, seconds, findings)
        checking += await self._find_gaps(examined, seconds, findings)
        order = list(Level)
        findings.sort(key=lambda each: order.index(each.level))
        return Preflight(tuple(findings), examined.audience, checking)

    async def close(self) -> None:
        """Abandon what is running in the background."""
        await self._gaps.close()
        if self._links:
            await self._links.close()
        if self._trial:
            self._trial.close()
        if self._records:
            await self._records.close()

    async def _try_links(self, html: str, seconds: float, findings: list[Finding]) -> int:
        if self._links is None:
            return 0
        tags = [each for each in tokens(html, "a") if isinstance(each, HtmlTag)]
        hrefs = (tag.attributes.get("href", "") for tag in tags if not tag.closes)
        links = web_links(hrefs, self._own_host)
        self._links.start(links)
        await self._links.wait(links, seconds)
        findings += inspect_links(self._links.results(links))
        return self._links.waiting(links)

    async def _look_up(self, examined: Examined, seconds: float, findings: list[Finding]) -> int:
        domain = domain_of(examined.from_address) if examined.from_address else ""
        if self._records is None or not domain or is_reserved(domain):
            return 0
        self._records.start([domain])
        await self._records.wait([domain], seconds)
        for faults in self._records.results([domain]).values():
            findings += inspect_records(domain, faults)
        return self._records.waiting([domain])

    async def _find_gaps(self, examined: Examined, seconds: float, findings: list[Finding]) -> int:
        if not examined.fields or not examined.audience.will_receive:
            return 0
        key = " ".join((examined.list_name, *examined.fields))
        self._gaps.start([key])
        await self._gaps.wait([key], seconds)
        for gaps in self._gaps.results([key]).values():
            findings += inspect_gaps(gaps)
        return self._gaps.waiting([key])

    async def _picture_sizes(self, html: str) -> list[Finding]:
        """Look at the sizes of our own pictures; those of other sites are not loaded."""
        tags = [each for each in tokens(html, "img") if isinstance(each, HtmlTag)]
        sources = (_split(tag.attributes.get("src", "")) for tag in tags)
        names = dict.fromkeys(
            each.path.removeprefix(PATH)
            for each in sources
            if each and each.hostname in (None, self._own_host) and each.path.startswith(PATH)
        )
        sizes = {}
        for name in list(names)[:_MOST_PICTURES]:
            with contextlib.suppress(Invalid):
                parse_file_name(name)
                if (found := await self._pictures.blob(name)) is not None:
                    sizes[name] = found.size
        return list(inspect_picture_sizes(sizes))


async def _count_gaps(gaps: FieldGaps, key: str) -> dict[str, int]:
    list_name, *names = key.split()
    return await gaps.count(ListName(list_name), names)


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url.strip())
    except ValueError:
        return None
