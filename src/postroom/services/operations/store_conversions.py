"""Conversions: change the data of an existing store to the format that this version writes.

| table       | partition | row    | holds                                         |
|-------------|-----------|--------|-----------------------------------------------|
| `storeinfo` | `store`   | `data` | Version, ConvertedAt: the format of all data  |

The version is the number of conversions that a store has been through. A process that opens a store
for work calls `bring_up_to_date` first, which is one point read if there is nothing to do.
Otherwise one process converts under a lease, and the others wait. A new store starts with the
newest version.

A conversion can be interrupted at any point and repeated, even by another process while the first
one is only suspended: it changes rows under their ETags and skips converted ones. Add new
conversions at the end of `CONVERSIONS`; never remove or change one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from postroom import clock
from postroom.services import entities
from postroom.services.operations import address_conversion, page_conversion
from postroom.storage import (
    Conflict,
    Entity,
    Lease,
    LeaseLost,
    SchemaTooNew,
    Store,
)

TABLE: Final = "storeinfo"
PARTITION, ROW = "store", "data"

_LEASE: Final = "conversion"
_LEASE_SECONDS: Final = 60.0
_RENEW_AFTER: Final = 15.0
_LOOK_AGAIN: Final = 0.5  # seconds, while another process converts

_log = logging.getLogger(__name__)


class Conversion(msgspec.Struct, frozen=True):
    """One step from a version to the next. `convert` calls its second argument regularly: it renews
    the lease, and raises `LeaseLost` once another process has it."""

    what: str
    convert: Callable[[Store, Callable[[], Awaitable[None]]], Awaitable[None]]


async def _key_subscribers(store: Store, keep: Callable[[], Awaitable[None]]) -> None:
    # Pages first: rebuilding them compares them with the list as it was.
    await page_conversion.convert(store, keep)
    await address_conversion.convert(store, keep)


CONVERSIONS: Final = (
    Conversion("key subscribers by case-folded address", _key_subscribers),
    Conversion("store the emails of a page in its own row", page_conversion.convert),
)


async def bring_up_to_date(store: Store, conversions: Sequence[Conversion] = CONVERSIONS) -> None:
    """Convert the store if necessary. `SchemaTooNew` if a newer version wrote it."""
    newest = len(conversions)
    is_waiting = False
    while (found := await _read(store)) is None or _version(found) != newest:
        if found is None and await _is_new(store):
            await _write(store, None, newest)
            continue
        if _version(found) > newest:
            raise SchemaTooNew(
                f"the store's data has version {_version(found)}, but this Postroom supports only"
                f" up to version {newest}: use the newer Postroom that wrote it"
            )
        lease = await store.acquire_lease(_LEASE, seconds=_LEASE_SECONDS)
        if lease is None:
            if not is_waiting:
                _log.info("another process is converting the store: waiting until it is done")
            is_waiting = True
            await asyncio.sleep(_LOOK_AGAIN)
            continue
        try:
            await _convert(store, conversions, lease)
        except LeaseLost:
            _log.info("another process has taken over the conversion of the store")
        finally:
            with contextlib.suppress(LeaseLost):
                await store.release_lease(lease)


async def _convert(store: Store, conversions: Sequence[Conversion], lease: Lease) -> None:
    found = await _read(store)
    renewed = clock.monotonic()

    async def keep() -> None:
        nonlocal renewed
        if clock.monotonic() - renewed > _RENEW_AFTER:
            await store.renew_lease(lease)
            renewed = clock.monotonic()

    for version, conversion in enumerate(conversions[_version(found) :], _version(found) + 1):
        began = clock.monotonic()
        _log.info("converting the store to data version %d: %s", version, conversion.what)
        await conversion.convert(store, keep)
        await _write(store, found, version)
        found = await _read(store)
        _log.info("converted to data version %d in %.1f s", version, clock.monotonic() - began)


async def _is_new(store: Store) -> bool:
    """Return whether nothing has been written yet, except perhaps by another process just now."""
    return set(await store.tables()) <= {TABLE} and await _read(store) is None


async def _read(store: Store) -> Entity | None:
    return await store.table(TABLE).get(PARTITION, ROW)


def _version(found: Entity | None) -> int:
    return 0 if found is None else entities.read(found, "Version", int)


async def _write(store: Store, before: Entity | None, version: int) -> None:
    """Record a version, unless another process has recorded one in the meantime."""
    entity = Entity(PARTITION, ROW, {"Version": version, "ConvertedAt": clock.now()})
    with contextlib.suppress(Conflict):
        if before is None:
            await store.table(TABLE).insert(entity)
        else:
            await store.table(TABLE).replace(entity, before.etag)
