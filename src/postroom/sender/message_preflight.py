"""Preflight: everything that can be known about a message before it is sent.

What needs the network (links, DNS) runs in the background: a preflight says what is known so far,
and how much is still being checked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol
from urllib.parse import SplitResult, urlsplit

import msgspec

from postroom.composing.content_findings import ContentFinding, Level
from postroom.domain.audience.addresses import Address, domain_of
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid
from postroom.domain.messages import audiences as messages
from postroom.domain.messages.pictures import PATH, parse_file_name
from postroom.mail.bodies.html import HtmlTag, tokens
from postroom.mail.mail_reader import ReadMail
from postroom.sender.message_rendering import Examined, Renderer
from postroom.services.audience.fields.field_gaps import FieldGap, FieldGaps
from postroom.services.audience.targeting.audiences import (
    COUNTED_AT_ONCE,
    AudienceService,
    excluded_examples,
)
from postroom.services.messages.checks.background_checks import BackgroundChecks
from postroom.services.messages.checks.link_checks import MOST_LINKS, LinkTrial, web_links
from postroom.services.messages.checks.preflight import (
    AudienceSummary,
    Preflight,
    inspect_audience,
    inspect_features,
    inspect_gaps,
    inspect_links,
    inspect_picture_sizes,
    inspect_records,
    inspect_size,
    links_in,
)
from postroom.services.messages.domains.dns_lookups import is_reserved
from postroom.services.messages.domains.domain_checks import DomainChecks
from postroom.storage import BlobInfo

_MOST_PICTURES: Final = 50
_PAUSES_REMEMBERED: Final = 10.0  # seconds
_SECONDS_FOR_PAUSES: Final = 0.5
"""For lists that are counted immediately, so that the number is right from the beginning."""


class StoredPictures(Protocol):
    async def blob(self, name: str) -> BlobInfo | None: ...


class PreflightService:
    def __init__(
        self,
        renderer: Renderer,
        pictures: StoredPictures,
        links: LinkTrial | None,
        records: DomainChecks | None,
        gaps: FieldGaps,
        audiences: AudienceService,
        own_host: str,
        general: Sequence[ContentFinding] = (),
    ) -> None:
        """Without `links` and `records`, these are not looked at. `general` is found in every
        message."""
        self._general = general
        self._renderer = renderer
        self._pictures = pictures
        self._trial = links
        self._links = BackgroundChecks(links.fault) if links else None
        self._records = BackgroundChecks(records.faults) if records else None
        self._gaps = BackgroundChecks(partial(_count_gaps, gaps))
        self._examples = BackgroundChecks(partial(_find_examples, audiences))
        self._pauses = BackgroundChecks(
            lambda name: audiences.count_paused(ListName(name)), _PAUSES_REMEMBERED
        )
        self._own_host = own_host

    async def check(self, ref: str, *, seconds: float = 0.0) -> Preflight:
        """Return what is wrong with a message, and who will receive it. Wait at most this long for
        each thing that is checked in the background. `NoSuch`."""
        examined, checking = await self._without_paused(await self._renderer.examine(ref), seconds)
        findings = [*examined.findings, *self._general]
        if examined.mail is not None:
            checking += await self._try_links(examined.mail, seconds, findings)
            html = examined.mail.html or ""
            findings += await asyncio.to_thread(lambda: list(inspect_features(html)))
            findings += await self._picture_sizes(html)
        checking += await self._look_up(examined, seconds, findings)
        gaps, counting = await self._find_gaps(examined, seconds)
        checking += counting
        findings += inspect_gaps({name: gap.empty for name, gap in gaps.items()})
        findings[:0] = await asyncio.to_thread(_inspect_size, examined, gaps)
        examples, unfinished = await self._left_out(examined, seconds)
        order = list(Level)
        findings.sort(key=lambda each: order.index(each.level))
        return Preflight(tuple(findings), examined.audience, checking + unfinished, examples)

    async def close(self) -> None:
        """Abandon what is running in the background."""
        await self._gaps.close()
        await self._examples.close()
        await self._pauses.close()
        if self._links:
            await self._links.close()
        if self._trial:
            self._trial.close()
        if self._records:
            await self._records.close()

    async def _without_paused(self, examined: Examined, seconds: float) -> tuple[Examined, int]:
        """Leave paused subscribers out of the count of a whole list; the counts of other audiences
        already do. Return also whether they are still being counted."""
        audience = examined.audience
        if not examined.selected.is_everybody or not audience.will_receive:
            return examined, 0
        names = [str(each) for each in examined.lists]
        self._pauses.start(names)
        is_soon = audience.will_receive <= COUNTED_AT_ONCE
        await self._pauses.wait(names, max(seconds, _SECONDS_FOR_PAUSES if is_soon else 0))
        paused = min(sum(self._pauses.results(names).values()), audience.will_receive)
        if paused:
            excluded = {**audience.excluded, messages.Exclusion.PAUSED.value: paused}
            audience = AudienceSummary(audience.will_receive - paused, excluded)
            findings = [*examined.findings, *inspect_audience(audience)]
            examined = msgspec.structs.replace(examined, audience=audience, findings=findings)
        return examined, self._pauses.waiting(names)

    async def _try_links(
        self, mail: ReadMail, seconds: float, findings: list[ContentFinding]
    ) -> int:
        if self._links is None:
            return 0
        every_link = web_links(links_in(mail), self._own_host)
        links = every_link[:MOST_LINKS]
        self._links.start(links)
        await self._links.wait(links, seconds)
        findings += inspect_links(self._links.results(links), len(every_link) - len(links))
        return self._links.waiting(links)

    async def _look_up(
        self, examined: Examined, seconds: float, findings: list[ContentFinding]
    ) -> int:
        domain = domain_of(examined.from_address) if examined.from_address else ""
        if self._records is None or not domain or is_reserved(domain):
            return 0
        self._records.start([domain])
        await self._records.wait([domain], seconds)
        for faults in self._records.results([domain]).values():
            findings += inspect_records(domain, faults)
        return self._records.waiting([domain])

    async def _find_gaps(
        self, examined: Examined, seconds: float
    ) -> tuple[Mapping[str, FieldGap], int]:
        """Return what is known about the values of the merge fields, and how much is not yet."""
        if not examined.fields or not examined.audience.will_receive:
            return {}, 0
        key = _key(examined, examined.fields)
        self._gaps.start([key])
        await self._gaps.wait([key], seconds)
        return self._gaps.results([key]).get(key, {}), self._gaps.waiting([key])

    async def _left_out(
        self, examined: Examined, seconds: float
    ) -> tuple[dict[str, list[Address]], int]:
        """Return some subscribers that will not receive a message, and how many searches for them
        are still running."""
        if not examined.audience.excluded:
            return {}, 0
        key = _key(examined, examined.audience.excluded)
        self._examples.start([key])
        await self._examples.wait([key], seconds)
        found = self._examples.results([key]).get(key, {})
        return found, self._examples.waiting([key])

    async def _picture_sizes(self, html: str) -> list[ContentFinding]:
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


def _inspect_size(examined: Examined, gaps: Mapping[str, FieldGap]) -> list[ContentFinding]:
    if examined.longest is None:
        return []
    size = examined.longest.html_size({name: gap.longest for name, gap in gaps.items()})
    return list(inspect_size(size, varies=examined.longest.varies))


class _AudienceKey(msgspec.Struct, frozen=True):
    """What is asked about an audience, as the name of a background check."""

    list_name: ListName
    selected: messages.Audience
    names: tuple[str, ...]


def _key(examined: Examined, names: Iterable[str]) -> str:
    key = _AudienceKey(examined.lists[0], examined.selected, tuple(names))
    return msgspec.json.encode(key).decode()


async def _count_gaps(gaps: FieldGaps, key: str) -> dict[str, FieldGap]:
    asked = msgspec.json.decode(key, type=_AudienceKey)
    return await gaps.count(asked.list_name, asked.names, asked.selected)


async def _find_examples(audiences: AudienceService, key: str) -> dict[str, list[Address]]:
    asked = msgspec.json.decode(key, type=_AudienceKey)
    return await excluded_examples(audiences, asked.list_name, asked.selected, asked.names)


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url.strip())
    except ValueError:
        return None
