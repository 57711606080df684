"""The consent ledger: what subscribers agreed to, when and where, in entries chained by hashes.

Each subscriber has a separate chain, named by the random GUID. An entry contains the hash of the
one before it, so that none can be changed, inserted or removed unnoticed. The last hash is kept
with the subscriber (`LedgerHead`), and a chain without a subscriber ends with one of `ENDS`.

No entry contains an address. Everything else that is personal is in its details, of which the chain
has only a salted hash: erasing a person removes the details, and the chain stays valid.

All subscribers that one batch of an import adds share an entry, from which their chains continue.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from postroom.domain.audience.lists.form_properties import consent_version
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid

_DIGITS: Final = 32  # of a hash, in hexadecimal: enough to rule out a collision
_SALT_BYTES: Final = 8  # details are short, and could be guessed from a hash without a salt
_GUID_BYTES: Final = 16


class ConsentAction(StrEnum):
    """What happened, in the words that pages show."""

    SIGNED_UP = "signed up"
    ADDED = "added"
    ADDED_CONFIRMED = "added as confirmed"
    IMPORTED = "imported"
    MOVED_IN = "moved from another list"
    CONFIRMED = "confirmed"
    UNCONFIRMED = "marked as not confirmed"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    PAUSED = "paused"
    RESUMED = "resumed"
    TRACKING_ALLOWED = "agreed to tracking"
    TRACKING_WITHDRAWN = "withdrew consent to tracking"
    ADDRESS_CHANGED = "address changed"
    CHANGED = "details changed"
    UNSUBSCRIBED = "unsubscribed"
    REMOVED = "removed"
    MOVED_OUT = "moved to another list"
    ERASED = "erased"


ENDS: Final = frozenset(
    {
        ConsentAction.UNSUBSCRIBED,
        ConsentAction.REMOVED,
        ConsentAction.MOVED_OUT,
        ConsentAction.ERASED,
    }
)
"""What can end a chain."""


class ConsentSource(msgspec.Struct, frozen=True):
    """Where an act comes from: a page, a website or a program; the consent text that was shown; and
    a digest of the visitor's IP address."""

    origin: str
    text: str = ""
    ip_digest: str = ""


BY_TEAM: Final = ConsentSource("team")
BY_API: Final = ConsentSource("API")
BY_LINK: Final = ConsentSource("link in an email")
BY_COMMAND: Final = ConsentSource("command line")
BY_IMPORT: Final = ConsentSource("import")
BY_SUPPRESSION: Final = ConsentSource("suppression")


FORM_PREFIX: Final = "form on "
"""Of the origin of a sign-up by a form on a website."""
_ARRIVALS: Final = {
    "sign-up page": "form",
    "preferences page": "preferences",
    "API": "api",
    "team": "team",
    "command line": "team",
    "import": "import",
}


def arrival(source: ConsentSource) -> str:
    """Return how someone came to a list, as the field `source` has it; "" if that is not known."""
    if source.origin.startswith(FORM_PREFIX):
        return "form"
    return _ARRIVALS.get(source.origin, "")


class ConsentDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """The personal part of an entry. `changed` names fields, without their values."""

    origin: str = ""
    text_version: str = ""
    text: str = ""
    ip_digest: str = ""
    changed: tuple[str, ...] = ()
    salt: str = ""


class LedgerHead(msgspec.Struct, frozen=True):
    """The last entry of a chain. Number 0 is the entry of an import, or means that the
    chain is empty."""

    number: int = 0
    hash: str = ""

    def __str__(self) -> str:
        return f"{self.number},{self.hash}"


def parse_head(text: str) -> LedgerHead:
    number, _, digest = text.partition(",")
    return LedgerHead(int(number) if number.isdecimal() else 0, digest)


class ConsentEntry(msgspec.Struct, frozen=True):
    """One act. `details` is JSON, "" once they are erased; `previous` is the hash of the entry
    before it, "" for the first."""

    list_name: ListName
    guid: SubscriberGuid
    number: int
    at: datetime
    act: ConsentAction
    details_hash: str
    previous: str
    hash: str
    details: str = ""

    @property
    def head(self) -> LedgerHead:
        return LedgerHead(self.number, self.hash)


class ImportEntry(msgspec.Struct, frozen=True):
    """The entry of all subscribers that one batch of an import added; `members` are their GUIDs, 16
    bytes each."""

    list_name: ListName
    at: datetime
    origin: str
    members: bytes
    hash: str

    def has(self, guid: SubscriberGuid) -> bool:
        wanted = _packed([guid])
        place = self.members.find(wanted)
        while place % _GUID_BYTES:  # -1 is not one, either
            if place < 0:
                return False
            place = self.members.find(wanted, place + 1)
        return True

    @property
    def head(self) -> LedgerHead:
        return LedgerHead(0, self.hash)

    @property
    def is_intact(self) -> bool:
        return self.hash == _import_hash(self.list_name, self.at, self.origin, self.members)


def next_entry(
    head: LedgerHead,
    list_name: ListName,
    guid: SubscriberGuid,
    act: ConsentAction,
    source: ConsentSource | None,
    at: datetime,
    changed: Sequence[str] = (),
) -> ConsentEntry:
    """Return the entry that follows `head`. Without a source, it has no details."""
    details = "" if source is None else _details(source, changed)
    details_hash = _hash(details.encode()) if details else ""
    number = head.number + 1
    said = _said(list_name, guid, number, at, act, details_hash, head.hash)
    return ConsentEntry(
        list_name, guid, number, at, act, details_hash, head.hash, _hash(said), details
    )


def import_entry(
    list_name: ListName, guids: Sequence[SubscriberGuid], origin: str, at: datetime
) -> ImportEntry:
    """Return the entry of subscribers that were imported together."""
    members = _packed(guids)
    return ImportEntry(list_name, at, origin, members, _import_hash(list_name, at, origin, members))


def details_of(entry: ConsentEntry) -> ConsentDetails:
    return msgspec.json.decode(entry.details, type=ConsentDetails) if entry.details else _NONE


def first_fault(entries: Sequence[ConsentEntry], root: LedgerHead, head: LedgerHead | None) -> str:
    """Return the first problem of a chain; "" if there is none.

    `entries` are all of one subscriber. `root` is the import that the chain continues from, `head`
    what the subscriber's row names as the last entry; None without a subscriber.
    """
    last = root
    for each in entries:
        if each.number != last.number + 1 or each.previous != last.hash:
            return f"entry {last.number + 1} is missing"
        if each.hash != _entry_hash(each):
            return f"entry {each.number} was changed"
        if each.details and _hash(each.details.encode()) != each.details_hash:
            return f"the details of entry {each.number} were changed"
        last = each.head
    is_over = bool(entries) and entries[-1].act in ENDS
    if head is None and not is_over:
        return "entries are missing at its end"
    if head is not None and head != last:
        is_short = head.number > last.number
        return f"entry {last.number + 1} is missing" if is_short else _OTHER_END
    is_erased = bool(entries) and entries[-1].act is ConsentAction.ERASED
    gone = next((each for each in entries if each.details_hash and not each.details), None)
    if gone is not None and not is_erased:
        return f"the details of entry {gone.number} are missing"
    return ""


def act_between(old: Subscriber, new: Subscriber) -> tuple[ConsentAction, list[str]] | None:
    """Return the name of a change and the fields that it concerns; None if nothing was changed but
    the team's note."""
    acts = [
        act
        for is_so, act in (
            (new.verified and not old.verified, ConsentAction.CONFIRMED),
            (old.verified and not new.verified, ConsentAction.UNCONFIRMED),
            (bool(new.blocked) and not old.blocked, ConsentAction.BLOCKED),
            (bool(old.blocked) and not new.blocked, ConsentAction.UNBLOCKED),
            (new.paused_until is not None and new.paused_until != old.paused_until, _PAUSED),
            (old.paused_until is not None and new.paused_until is None, ConsentAction.RESUMED),
            (new.tracking and not old.tracking, ConsentAction.TRACKING_ALLOWED),
            (old.tracking and not new.tracking, ConsentAction.TRACKING_WITHDRAWN),
            (new.address != old.address, ConsentAction.ADDRESS_CHANGED),
        )
        if is_so
    ]
    fields = sorted(
        name
        for name in old.attributes.keys() | new.attributes.keys()
        if _value(old.attributes, name) != _value(new.attributes, name)
    )
    changed = [*(act.value for act in acts[1:]), *fields]
    if acts:
        return acts[0], changed
    is_other = new.consent != old.consent or new.pending_attributes != old.pending_attributes
    return (ConsentAction.CHANGED, changed) if fields or is_other else None


_OTHER_END: Final = "its last entry is not the one that the subscriber's row names"
_PAUSED: Final = ConsentAction.PAUSED
_NONE: Final = ConsentDetails()


def _value(attributes: Mapping[str, Any], name: str) -> object:
    return attributes.get(name)


def _details(source: ConsentSource, changed: Sequence[str]) -> str:
    details = ConsentDetails(
        origin=source.origin,
        text_version=consent_version(source.text),
        text=source.text,
        ip_digest=source.ip_digest,
        changed=tuple(changed),
        salt=secrets.token_hex(_SALT_BYTES),
    )
    return msgspec.json.encode(details).decode()


def _entry_hash(entry: ConsentEntry) -> str:
    """Return the hash of all that an entry says, and with that of those before it."""
    return _hash(
        _said(
            entry.list_name,
            entry.guid,
            entry.number,
            entry.at,
            entry.act,
            entry.details_hash,
            entry.previous,
        )
    )


def _said(*parts: str | int | datetime) -> bytes:
    """Join the parts, one per line; none of them contains a line break."""
    return "\n".join(_time(p) if isinstance(p, datetime) else str(p) for p in parts).encode()


def _import_hash(list_name: ListName, at: datetime, origin: str, members: bytes) -> str:
    return _hash(_said(list_name, at, origin) + b"\n" + members)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def _packed(guids: Sequence[SubscriberGuid]) -> bytes:
    return bytes.fromhex("".join(guids).replace("-", ""))
