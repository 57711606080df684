"""The domain in the store: tables, keys, and entities to and from domain objects.

| table            | partition     | row             | holds                                |
|------------------|---------------|-----------------|--------------------------------------|
| `mailinglist`    | list          | `mailinglist`   | the list                             |
| `mailinglist`    | list          | `email:KEY`     | a subscriber; see below              |
| `mailinglist`    | list          | `guid:GUID`     | its look-up row                      |
| `mailinglist`    | list          | `formerly:…`    | see `audience/former_rows.py`        |
| `mailinglist`    | list          | `fields`        | the fields that the list declares    |
| `mailinglist`    | list          | `segment:NAME`  | a segment: its rule                  |
| `mailinglist`    | list          | `ledger…`       | see `audience/consent/ledger_rows.py`|
| `listindex`      | `list`        | list            | which lists there are                |
| `message`        | day, `draft`  | `message` + ref | a message that is not done           |
| `messagearchive` | the same keys |                 | a message that is done               |
| `messagepage`    | day,ref       | page            | see `sending/page_rows.py`           |
| `messageindex`   | `ref`         | ref             | the day of a message                 |
| `messageindex`   | `open`/`done` | time,ref        | messages by when they are due;       |
|                  |               |                 | of `done` ones, when they ended      |
| `messageindex`   | `draft`       | ref             | drafts, which have no time           |
| `messageindex`   | `retry`       | ref             | the message that retries its refused |
| `messageindex`   | `web,` + list | time,ref        | see `messages/published_messages.py` |
| `messageversion` | ref           | time            | see `drafts/message_versions.py`     |
| `abtest`         | `test`        | a kind and ref  | see `messages/ab_test_rows.py`       |
| `template`       | `template`    | name            | see `drafts/templates.py`            |
| `suppression`    | digits        | a digest, list  | see `audience/suppression/`          |
| `departed`       | list          | a digest        | see `signup/unsubscribes.py`           |
| `foreignid`      | digits        | an id, list     | see `audience/signup/foreign_ids.py` |
| `throttle`       | limit         | domain          | see `sender/limits/`, `sending/provider_*`|
| `holds`          | `hold`        | what is held    | see `sending/hold_rows.py`           |
| `signuplimit`    | end of time   | who or what     | see `signup/signup_limits.py`        |
| `media`          | `picture`     | time or hash    | see `media/pictures.py`              |
| `media`          | `use`         | hash, message   | see `media/picture_uses.py`          |
| `storeinfo`      | `store`       | `data`          | see `store_conversions.py`           |
| `settings`       | `setting`     | `stored`        | see `operations/stored_settings.py`  |

KEY is the address without differences of case (`address_key` in `domain/audience/addresses.py`).
Where the address is spelled otherwise, the row's `EmailAddress` has the spelling; a look-up row
always has it.

Blobs: the bodies in `mailbodies`, the pictures of the public pages in `logos`, those of messages in
`media`, the sources of templates in `template`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists.list_property import ListProperty
from postroom.domain.audience.lists.lists import (
    PROPERTIES,
    ListName,
    MailingList,
    Subscriber,
    SubscriberGuid,
)
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.refs import MessageRef
from postroom.storage import BulkInsert, Delete, Entity, StoreDamaged, Value, eq

LISTS = "mailinglist"
LIST_INDEX = "listindex"
DEPARTED = "departed"
MESSAGES = "message"
ARCHIVE = "messagearchive"
PAGES = "messagepage"
INDEX = "messageindex"
VERSIONS = "messageversion"
BODIES = "mailbodies"
LOGOS = "logos"
TEMPLATES = "template"
MEDIA = "media"
"""A table and a container."""

LIST_ROW = "mailinglist"
EMAIL_PREFIX = "email:"
GUID_PREFIX = "guid:"
MESSAGE_PREFIX = "message"
FORMER = "FormerAddresses"
"""The former addresses of a subscriber, one per line."""
LAST_OPENED: Final = "LastOpenedAt"
LAST_CLICKED: Final = "LastClickedAt"
LEDGER = "Ledger"
"""The property of a look-up row that names the last entry of the consent ledger."""

BY_NAME = "list"
RENAMING = "renaming"
"""The partition of lists with fields whose values are being renamed."""
CONSENT_CHANGED = "tracking consent"
"""The partition of subscribers whose consent to tracking has changed."""
BY_REF, DRAFT, OPEN, DONE, RETRY = "ref", "draft", "open", "done", "retry"
ENDED_AT = "EndedAt"

_BLOCKED_BY, _SUPPRESSION = "BlockedBy", "suppression"
SUPPRESSED_ROWS: Final = eq(_BLOCKED_BY, _SUPPRESSION)
"""Rows of subscribers that a suppression blocks; those of one blocked by hand have no such mark."""

V = TypeVar("V", bound=Value)


def email_row(address: Address) -> str:
    """Return the row of a subscriber, however the address is spelled."""
    return EMAIL_PREFIX + address_key(address)


def email_rows(addresses: Collection[Address]) -> list[str]:
    """Return the rows of many subscribers, in the same order."""
    text = "".join(addresses)
    if text.isascii() and text.islower():  # most addresses are their own keys
        return [EMAIL_PREFIX + each for each in addresses]
    return [email_row(each) for each in addresses]


def key_after(row: str) -> str:
    """Return the first key that can follow a row: no key contains a control character."""
    return row + "\x01"


def guid_row(guid: SubscriberGuid) -> str:
    return GUID_PREFIX + guid


def message_row(ref: MessageRef) -> str:
    return MESSAGE_PREFIX + ref


def pages_partition(day: str, ref: MessageRef) -> str:
    return f"{day},{ref}"


def due_row(scheduled_at: datetime, ref: MessageRef) -> str:
    """Return a row that sorts by the time at which a message is due."""
    return f"{scheduled_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ},{ref}"


def body_name(ref: MessageRef, version: str, kind: str) -> str:
    """Return the name of a body's blob: `REF.htm` or `REF.txt`; later versions are marked."""
    return f"{ref}{'-' + version if version else ''}.{kind}"


def logo_prefix(name: ListName) -> str:
    """Return the prefix of the names of a list's pictures: a list's name has no comma."""
    return f"{name},"


# -- lists and subscribers ------------------------------------------------------------------------


def list_entity(mailing_list: MailingList) -> Entity:
    properties: dict[str, Value] = {"CreatedAt": mailing_list.created_at}
    for each in PROPERTIES.values():
        value = getattr(mailing_list, each.name)
        if value != "":
            properties[each.stored_as] = value
    return Entity(mailing_list.name, LIST_ROW, properties)


def list_from(entity: Entity) -> MailingList:
    return MailingList(
        name=ListName(entity.partition),
        created_at=read(entity, "CreatedAt", datetime),
        etag=entity.etag,
        **{name: _stored_property(entity, each) for name, each in PROPERTIES.items()},
    )


def _stored_property(entity: Entity, wanted: ListProperty) -> Any:
    if wanted.is_required:
        return read(entity, wanted.stored_as, wanted.type)
    value = read_optional(entity, wanted.stored_as, wanted.type)
    return wanted.default if value is None else wanted.restore(value)


def subscriber_entity(subscriber: Subscriber) -> Entity:
    properties: dict[str, Value] = {
        "SubscriberGUID": subscriber.guid,
        "Verified": subscriber.verified,
        "CreatedAt": subscriber.created_at,
    }
    if subscriber.verified_at is not None:
        properties["VerifiedAt"] = subscriber.verified_at
    if subscriber.blocked:
        properties["Blocked"] = subscriber.blocked
    if subscriber.is_suppressed:
        properties[_BLOCKED_BY] = _SUPPRESSION
    if subscriber.address != subscriber.key:
        properties["EmailAddress"] = subscriber.address
    if subscriber.merged_guids:
        properties["MergedGUIDs"] = ",".join(subscriber.merged_guids)
    if subscriber.attributes:
        properties["Attributes"] = msgspec.json.encode(subscriber.attributes).decode()
    if subscriber.paused_until is not None:
        properties["PausedUntil"] = subscriber.paused_until
    if subscriber.pending_attributes:
        pending = msgspec.json.encode(subscriber.pending_attributes).decode()
        properties["PendingAttributes"] = pending
    if subscriber.note:
        properties["Note"] = subscriber.note
    if subscriber.consent:
        properties["Consent"] = subscriber.consent
    if subscriber.tracking:
        properties["Tracking"] = True
    if subscriber.former_addresses:
        properties[FORMER] = "\n".join(subscriber.former_addresses)
    if subscriber.source:
        properties["Source"] = subscriber.source
    moments = {
        "TrackingSince": subscriber.tracking_since,
        LAST_OPENED: subscriber.opened_at,
        LAST_CLICKED: subscriber.clicked_at,
    }
    properties |= {name: moment for name, moment in moments.items() if moment is not None}
    return Entity(subscriber.list_name, EMAIL_PREFIX + subscriber.key, properties)


def lookup_entity(
    subscriber: Subscriber, guid: SubscriberGuid | None = None, *, ledger: str = ""
) -> Entity:
    """Return the row that leads from a GUID to a subscriber: its own, or one merged into it."""
    row = guid_row(guid or subscriber.guid)
    properties: dict[str, Value] = {"EmailAddress": subscriber.address}
    if ledger:
        properties[LEDGER] = ledger
    return Entity(subscriber.list_name, row, properties)


def lookup_entities(subscriber: Subscriber, ledger: str = "") -> list[Entity]:
    """Return the look-up row of each GUID that leads to a subscriber, its own first; only that one
    names the last entry of the ledger."""
    return [
        lookup_entity(subscriber, ledger=ledger),
        *(lookup_entity(subscriber, guid) for guid in subscriber.merged_guids),
    ]


def subscriber_removal(subscriber: Subscriber, etag: str | None = None) -> list[Delete]:
    """Return the operations that remove all rows of a subscriber, in one batch."""
    return [
        Delete(subscriber.list_name, email_row(subscriber.address), etag),
        *(Delete(each.partition, each.row) for each in lookup_entities(subscriber)),
    ]


def new_subscribers(
    list_name: ListName,
    guids: Mapping[AddressKey, SubscriberGuid],
    created_at: datetime,
    verified_at: datetime | None,
    blocked: Mapping[AddressKey, str] = {},
    spellings: Mapping[AddressKey, Address] = {},
    attributes: Mapping[AddressKey, str] = {},
    ledger: str = "",
    source: str = "",
) -> list[BulkInsert]:
    """Return both rows of each new subscriber, all at once: an import adds millions.

    `spellings` has the addresses that differ from their keys, `attributes` are JSON, `ledger` names
    the entry of the import, `source` how they all came to the list. The rows are the same as those
    of `subscriber_entity` and `lookup_entity`, which a test checks.
    """
    shared: dict[str, Value] = {"Verified": verified_at is not None, "CreatedAt": created_at}
    if verified_at is not None:
        shared["VerifiedAt"] = verified_at
    if source:
        shared["Source"] = source
    rows: dict[str, dict[str, str]] = {
        EMAIL_PREFIX + each: {"SubscriberGUID": guid} for each, guid in guids.items()
    }
    for each in blocked.keys() & guids.keys():
        rows[EMAIL_PREFIX + each]["Blocked"] = blocked[each]
    for each in attributes.keys() & guids.keys():
        rows[EMAIL_PREFIX + each]["Attributes"] = attributes[each]
    lookups = {GUID_PREFIX + guid: {"EmailAddress": str(each)} for each, guid in guids.items()}
    for each in spellings.keys() & guids.keys():
        rows[EMAIL_PREFIX + each]["EmailAddress"] = spellings[each]
        lookups[GUID_PREFIX + guids[each]]["EmailAddress"] = spellings[each]
    head: dict[str, Value] = {LEDGER: ledger} if ledger else {}
    return [BulkInsert(list_name, rows, shared), BulkInsert(list_name, lookups, head)]


def subscriber_from(entity: Entity) -> Subscriber:
    spelling = read_optional(entity, "EmailAddress", str)
    merged = read_optional(entity, "MergedGUIDs", str)
    attributes = read_optional(entity, "Attributes", str)
    pending = read_optional(entity, "PendingAttributes", str)
    return Subscriber(
        list_name=ListName(entity.partition),
        address=Address(spelling or entity.row.removeprefix(EMAIL_PREFIX)),
        guid=SubscriberGuid(read(entity, "SubscriberGUID", str)),
        verified=read(entity, "Verified", bool),
        created_at=read(entity, "CreatedAt", datetime),
        verified_at=read_optional(entity, "VerifiedAt", datetime),
        blocked=read_optional(entity, "Blocked", str) or "",
        etag=entity.etag,
        merged_guids=tuple(map(SubscriberGuid, merged.split(","))) if merged else (),
        attributes=msgspec.json.decode(attributes) if attributes else {},
        paused_until=read_optional(entity, "PausedUntil", datetime),
        pending_attributes=msgspec.json.decode(pending) if pending else {},
        note=read_optional(entity, "Note", str) or "",
        consent=read_optional(entity, "Consent", str) or "",
        is_suppressed=read_optional(entity, _BLOCKED_BY, str) == _SUPPRESSION,
        tracking=read_optional(entity, "Tracking", bool) or False,
        source=read_optional(entity, "Source", str) or "",
        former_addresses=former_keys(read_optional(entity, FORMER, str) or ""),
        tracking_since=read_optional(entity, "TrackingSince", datetime),
        opened_at=read_optional(entity, LAST_OPENED, datetime),
        clicked_at=read_optional(entity, LAST_CLICKED, datetime),
    )


def former_keys(stored: str) -> tuple[AddressKey, ...]:
    """Return former addresses as a row has them."""
    return tuple(AddressKey(Address(each)) for each in stored.split("\n")) if stored else ()


# -- pages ----------------------------------------------------------------------------------------

_COUNTS = {
    "Accepted": "accepted",
    "Refused": "refused",
    "Suppressed": "suppressed",
    "InDoubt": "in_doubt",
    "PossibleDuplicates": "possible_duplicates",
}


def counts_from(entity: Entity) -> Counts:
    return Counts(
        planned=read(entity, "Planned", int),
        deferred=read_optional(entity, "Deferred", int) or 0,
        **{name: read_optional(entity, key, int) or 0 for key, name in _COUNTS.items()},
    )


def counts_properties(counts: Counts) -> dict[str, Value]:
    return {**sum_properties(counts), "Done": counts.pending == 0}


def sum_properties(counts: Counts | None) -> dict[str, Value]:
    """Return the properties of a sum; none before there is one."""
    if counts is None:
        return {}
    properties: dict[str, Value] = {key: getattr(counts, name) for key, name in _COUNTS.items()}
    return {"Planned": counts.planned, **properties}


# -- reading properties ---------------------------------------------------------------------------


def read(entity: Entity, name: str, kind: type[V]) -> V:
    """Return a property that must exist and have this type. `StoreDamaged`."""
    value = entity.properties.get(name)
    if type(value) is not kind:
        raise StoreDamaged(
            f"({entity.partition!r}, {entity.row!r}): {name} is {value!r}, not {kind.__name__}"
        )
    return value


def read_optional(entity: Entity, name: str, kind: type[V]) -> V | None:
    return None if name not in entity.properties else read(entity, name, kind)
