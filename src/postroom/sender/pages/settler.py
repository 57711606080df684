"""Writes settled pages in groups: while one group is being written, the next one gathers.

A page's row is replaced under its ETag, then its work item is deleted: a crash between the two
leaves an item that finds nothing to do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from postroom.sender.pages.claims import PageLost
from postroom.services import entities
from postroom.services.messages.sending.page_rows import Page, page_entity
from postroom.storage import (
    Batch,
    Conflict,
    Entity,
    Finish,
    LeaseLost,
    QueueMessage,
    Replace,
    Step,
    Store,
)

_MOST_PAGES: Final = 50
_MOST_BYTES: Final = 1_500_000  # of what a batch of the store can hold


class _Write(msgspec.Struct):
    """A page that waits to be written, with the work item that ends with it."""

    entity: Entity
    etag: str
    item: QueueMessage | None
    done: asyncio.Future[None]

    def end(self, error: Exception | None = None) -> None:
        """Report that it was written, or why not; the caller may have been cancelled."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)

    @property
    def size(self) -> int:
        return sum(len(each) for each in self.entity.properties.values() if isinstance(each, bytes))


class Settler:
    def __init__(self, store: Store, patience: float = 0.0) -> None:
        """`patience`: how many seconds a page may wait for others to be written with it."""
        self._store = store
        self._patience = patience
        self._waiting: deque[_Write] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def settle(self, page: Page, etag: str, item: QueueMessage | None = None) -> None:
        """Write a page that has this ETag, and delete its work item. `PageLost`, `StoreOutage`:
        after that it is not known whether it was written."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(page_entity(page), etag, item, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(self._patience)
                await self._write(self._next_group())
        finally:
            self._writing = None

    def _next_group(self) -> list[_Write]:
        """Take waiting pages of one message, as many as fit into a batch."""
        first = self._waiting.popleft()
        group, size = [first], first.size
        others: list[_Write] = []
        while self._waiting and len(group) < _MOST_PAGES and size < _MOST_BYTES:
            each = self._waiting.popleft()
            if each.entity.partition == first.entity.partition and size + each.size < _MOST_BYTES:
                group.append(each)
                size += each.size
            else:
                others.append(each)
        self._waiting.extendleft(reversed(others))
        return group

    async def _write(self, group: list[_Write]) -> None:
        while group:
            try:
                await self._store.write_in_order(_steps(group))
            except Conflict as exc:
                group.pop(exc.operation).end(PageLost())
            except LeaseLost:
                # Only of a work item, and those come last.
                await self._finish_each(group)
                return
            except Exception as exc:
                for each in group:
                    each.end(exc)
                return
            else:
                for each in group:
                    each.end()
                return

    async def _finish_each(self, group: Sequence[_Write]) -> None:
        """Delete the work items that are still ours. The receiver of another one finds the page
        done."""
        for each in group:
            if each.item is not None:
                try:
                    await self._store.queue(each.item.queue).delete(each.item)
                except LeaseLost:
                    pass
                except Exception as exc:
                    each.end(exc)
                    continue
            each.end()


def _steps(group: Sequence[_Write]) -> list[Step]:
    pages = Batch(entities.PAGES, [Replace(each.entity, each.etag) for each in group])
    items = [each.item for each in group if each.item is not None]
    return [pages, Finish(items)] if items else [pages]
