"""Divides recipients into pages of 100 emails, or fewer if the values of their fields are long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.page_emails import PageEmails
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.scheduler.members import Members

_LONG_VALUES: Final = 100_000  # bytes of a page: a batch of the store holds 2,000,000
_MANY_VALUES: Final = _LONG_VALUES // 4  # characters, of four bytes at most
_LARGE_PAGES: Final = 10


def packed(found: Members) -> Iterator[list[PageEmails]]:
    """Yield the emails of pages that are written at once: of all pages, unless they are large."""
    batch: list[PageEmails] = []
    for page in _pages(found):
        batch.append(page)
        if page.has_values and len(batch) == _LARGE_PAGES:
            yield batch
            batch = []
    if batch:
        yield batch


def _pages(found: Members) -> Iterator[PageEmails]:
    """Yield the emails of each page: fewer than usual if the values of their fields are long."""
    members = iter(found.guids.items())
    while part := dict(islice(members, PAGE_SIZE)):
        if not found.values:
            yield PageEmails.planned(part, (), _lists_of(part, found))
        elif sum(map(len, chain.from_iterable(found.values[each] for each in part))) > _MANY_VALUES:
            yield from _small_pages(part, found)
        else:
            yield _with_values(part, found)


def _small_pages(members: Mapping[Address, SubscriberGuid], found: Members) -> Iterator[PageEmails]:
    part, size = {}, 0
    for address, guid in members.items():
        part[address] = guid
        size += sum(len(value.encode()) for value in found.values[address])
        if size > _LONG_VALUES:
            yield _with_values(part, found)
            part, size = {}, 0
    if part:
        yield _with_values(part, found)


def _with_values(part: Mapping[Address, SubscriberGuid], found: Members) -> PageEmails:
    values = [found.values[each] for each in part]
    return PageEmails.planned(part, values, _lists_of(part, found))


def _lists_of(part: Iterable[Address], found: Members) -> bytes:
    """Return the numbers of the lists of some members; empty if all are on the first."""
    return bytes(found.numbers.get(each, 0) for each in part) if found.numbers else b""
