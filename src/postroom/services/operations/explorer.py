"""The store as it is: tables, partitions, rows and blobs, to view and to correct.

Every view is a query on keys, however large a table is. Tables and containers are closed unless
`READABLE`, `CHANGEABLE` or `CHANGEABLE_CONTAINERS` opens them; of a closed table only the names of
properties are shown. Never open a table for changes if it decides what runs, who may do what, or
how we sign: a stolen cookie would be enough to run programs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.page_emails import EmailState
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import PREFIXES as LEDGER_PREFIXES
from postroom.services.messages.sending.page_rows import page_as_rows, page_from
from postroom.storage import (
    EVERY_KEY,
    BlobInfo,
    BlobListing,
    Entity,
    KeyRange,
    NotFound,
    QueryResult,
    StaleETag,
    Store,
    StoreDamaged,
    Value,
)

MASK = "●●●●●●"
_KEYS_SHOWN = frozenset({"users"})
_CLOSED_ROWS = 100
_BLOBS = 1000  # the most that the store lists at once


CHANGEABLE = frozenset(
    {
        entities.LISTS,
        entities.LIST_INDEX,
        entities.DEPARTED,
        entities.MESSAGES,
        entities.ARCHIVE,
        entities.PAGES,
        entities.INDEX,
        "growth",
    }
)
"""Tables of the mail itself: lists, subscribers, messages and their outcomes."""

READABLE = CHANGEABLE | {
    "abtest",  # is continued by the scheduler
    "audit",  # must not be rewritten
    "erasures",  # unfinished, and continued by the scheduler
    "bouncehistory",
    "deliveryfigures",
    "deliverylimits",
    "engagement",
    "events",
    "foreignid",  # anyone with such an id can unsubscribe its owner
    "hoststatus",
    "groups",  # who shares rights: use Team to change them
    "idempotency",
    "messagebounce",
    "messageunsubscribe",
    "listrights",  # who may do what with which list: use Team to change them
    entities.MEDIA,  # a row and its blob belong together: use Pictures to change them
    "proxies",
    "queueaccess",  # who may use which queue
    "queueexpiry",
    "queuehistory",
    "queuestate",
    "signuplimit",
    "storecopy",
    "suppression",  # is also written onto subscribers: use Suppression to change it
    "suppressionindex",
    "storeinfo",  # the version of the data
    entities.TEMPLATES,  # a row and its blob belong together: use Templates to change them
    "throttle",
    entities.VERSIONS,  # the editor compares and restores them
}
"""Tables whose rows are shown as they are."""

CLOSED_BECAUSE = {
    "dkimkeys": "It contains the private keys of sending domains. Use Sending domains instead.",
    "hostapps": "It contains the environments of applications. Use Applications instead.",
    "users": "It contains passwords and second factors. Use Team instead.",
    "settings": "It contains passwords of mail servers. Use All settings instead.",
    "sessions": "It contains the sessions of all users. Users see their own under Account.",
    "apikeys": "It contains the hashes of API keys. Use API keys instead.",
    "accesslinks": "It contains invitations and password links. Use Team instead.",
    "hooktoken": "It contains tokens of webhooks that must not be used again.",
}
"""The reasons why known tables are closed, and where to look instead."""

_CLOSED = "It is not on the list of tables that can be shown."

CHANGEABLE_CONTAINERS = frozenset({entities.BODIES, entities.LOGOS})
"""Containers whose blobs can be deleted. Any blob can be downloaded: none holds a secret."""


def reason_closed(table: str) -> str:
    """Return why a table's values are hidden; empty for a table that is shown."""
    return "" if table in READABLE else CLOSED_BECAUSE.get(table, _CLOSED)


def check_readable(table: str) -> None:
    """Raise `NotNow` for a table whose values are hidden."""
    if reason := reason_closed(table):
        raise NotNow(f"the table {table} is closed here. {reason}")


def check_changeable(table: str) -> None:
    """Raise `NotNow` for a table that must not be changed here."""
    check_readable(table)
    if table not in CHANGEABLE:
        raise NotNow(f"the table {table} can be read here, but not changed")


def check_row_changeable(table: str, row: str) -> None:
    """Raise `NotNow` for a row that must not be changed here."""
    check_changeable(table)
    if table == entities.LISTS and row.startswith(LEDGER_PREFIXES):
        raise NotNow("entries of the consent ledger can be read here, but not changed")


def check_container_changeable(container: str) -> None:
    """Raise `NotNow` for a container whose blobs must not be deleted here."""
    if container not in CHANGEABLE_CONTAINERS:
        raise NotNow(f"the container {container} can be read here, but not changed")


class TableName(msgspec.Struct, frozen=True):
    """`closed` says why a table's values are hidden; empty for one that is shown."""

    name: str
    closed: str
    can_change: bool


class Partitions(msgspec.Struct, frozen=True):
    """Some partition keys in order; `next` continues."""

    keys: list[str]
    next: str | None


class ExplorerService:
    def __init__(self, store: Store) -> None:
        self._store = store

    # -- tables ------------------------------------------------------------------------------

    async def tables(self) -> list[TableName]:
        return [
            TableName(name, reason_closed(name), name in CHANGEABLE)
            for name in await self._store.tables()
        ]

    async def partitions(
        self, table: str, *, prefix: str = "", after: str = "", limit: int = 50
    ) -> Partitions:
        """Return the partitions of a table in key order, with one query for each."""
        check_readable(table)
        rows = self._store.table(table)
        stop = KeyRange.prefix(prefix).stop
        start = _behind(after) if after else prefix or None
        found: list[str] = []
        while len(found) <= limit:
            first = (await rows.query(KeyRange(start, stop), limit=1)).entities
            if not first:
                return Partitions(found, None)
            found.append(first[0].partition)
            start = _behind(first[0].partition)
        return Partitions(found[:limit], found[limit - 1])

    async def rows(
        self,
        table: str,
        partition: str | None,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> QueryResult:
        """Return rows of one partition, or of all (None), whose keys begin with `prefix`."""
        check_readable(table)
        partitions = EVERY_KEY if partition is None else KeyRange.only(partition)
        return await self._store.table(table).query(
            partitions, KeyRange.prefix(prefix), limit=limit, after=after
        )

    async def masked_rows(self, table: str) -> list[Entity]:
        """Return the first rows of a closed table, with their values masked."""
        found = await self._store.table(table).query(limit=_CLOSED_ROWS)
        return [_masked(table, entity) for entity in found.entities]

    async def entity(self, table: str, partition: str, row: str) -> Entity:
        """Return a row. `NoSuch`; `NotNow` for a closed table."""
        check_readable(table)
        found = await self._store.table(table).get(partition, row)
        if found is None:
            raise NoSuch("entity", f"{partition}, {row}")
        return found

    async def save(self, table: str, entity: Entity, etag: str) -> None:
        """Replace all properties. `NoSuch`, `Overtaken`, `NotNow`."""
        check_row_changeable(table, entity.row)
        name = f"{entity.partition}, {entity.row}"
        try:
            await self._store.table(table).replace(entity, etag)
        except NotFound as exc:
            raise NoSuch("entity", name) from exc
        except StaleETag as exc:
            raise Overtaken("entity", name) from exc

    async def delete(self, table: str, partition: str, row: str, etag: str) -> None:
        """Delete a row. `NoSuch`, `Overtaken`, `NotNow`."""
        check_row_changeable(table, row)
        try:
            await self._store.table(table).delete(partition, row, etag)
        except NotFound as exc:
            raise NoSuch("entity", f"{partition}, {row}") from exc
        except StaleETag as exc:
            raise Overtaken("entity", f"{partition}, {row}") from exc

    # -- blobs -------------------------------------------------------------------------------

    async def containers(self) -> list[str]:
        return await self._store.containers()

    async def blobs(
        self, container: str, *, prefix: str = "", after: str | None = None, limit: int = 50
    ) -> BlobListing:
        return await self._store.container(container).list(prefix, limit=limit, after=after)

    async def all_blobs(
        self, container: str, *, prefix: str = "", most: int
    ) -> list[BlobInfo] | None:
        """Return all blobs, sorted by name; None if there are more than `most`."""
        found: list[BlobInfo] = []
        after: str | None = None
        while len(found) <= most:
            listing = await self.blobs(container, prefix=prefix, after=after, limit=_BLOBS)
            found += listing.blobs
            if (after := listing.next) is None:
                return found if len(found) <= most else None
        return None

    async def blob(self, container: str, name: str) -> BlobInfo:
        """Return what is known about a blob. `NoSuch`."""
        found = await self._store.container(container).info(name)
        if found is None:
            raise NoSuch("blob", name)
        return found

    def content(self, container: str, name: str) -> AsyncIterator[bytes]:
        return self._store.container(container).stream(name)

    async def delete_blob(self, container: str, name: str, etag: str) -> None:
        """Delete a blob. `NoSuch`, `Overtaken`; `NotNow` for a closed container."""
        check_container_changeable(container)
        try:
            await self._store.container(container).delete(name, etag)
        except NotFound as exc:
            raise NoSuch("blob", name) from exc
        except StaleETag as exc:
            raise Overtaken("blob", name) from exc


def rows_to_show(table: str, entity: Entity) -> list[Entity]:
    """Return the rows that people see of an entity: a page is followed by its emails, whose packed
    value is left out."""
    if table != entities.PAGES:
        return [entity]
    try:
        return page_as_rows(entity)
    except (StoreDamaged, ValueError):
        return [entity]


class PageEmail(msgspec.Struct, frozen=True):
    """An email of a page, as people see it."""

    address: str
    state: EmailState


def emails_of_page(table: str, entity: Entity) -> list[PageEmail]:
    """Return the emails of a page; none for any other entity, or a damaged page."""
    if table != entities.PAGES:
        return []
    try:
        return [PageEmail(address, state) for address, state in page_from(entity).emails]
    except (StoreDamaged, ValueError):
        return []


def _behind(key: str) -> str:
    """Return the first key that can follow this one: keys have no characters below the space."""
    return f"{key} "


def _masked(table: str, entity: Entity) -> Entity:
    """Return an entity with the names of its properties and none of their values."""
    properties: dict[str, Value] = dict.fromkeys(entity.properties, MASK)
    if table in _KEYS_SHOWN:
        return Entity(entity.partition, entity.row, properties)
    return Entity(MASK, MASK, properties)
