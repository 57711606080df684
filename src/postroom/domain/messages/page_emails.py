"""The emails of a page as one value: a hundred of them take a few kilobytes and one write.

They are kept by column, because most emails of a page are alike: one byte for each email says its
outcome, another one which of the page's replies it got. A column that is all zeros is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.emails import Counts, EmailOutcome

T = TypeVar("T", str, int)

LONGEST_REPLY: Final = 1000
"""Characters: longer replies are cut."""

_OUTCOMES: Final = (
    EmailOutcome.PENDING,
    EmailOutcome.ACCEPTED,
    EmailOutcome.REFUSED,
    EmailOutcome.SUPPRESSED,
    EmailOutcome.IN_DOUBT,
)
"""By their code. Codes are stored: append only."""
_CODES: Final = {outcome: code for code, outcome in enumerate(_OUTCOMES)}
_PENDING, _ACCEPTED, _REFUSED, _SUPPRESSED, _IN_DOUBT = range(5)
_MOST: Final = 255
_GUID_BYTES: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class EmailState(msgspec.Struct, frozen=True, gc=False):
    """The state of an email after its last attempt.

    `at` is when that was, `next_try_at` when a pending email is due again. `unanswered` counts the
    attempts that were handed over without a reply: each may have delivered a copy.
    """

    outcome: EmailOutcome = EmailOutcome.PENDING
    reply: str = ""
    tries: int = 0
    unanswered: int = 0
    at: datetime | None = None
    next_try_at: datetime | None = None
    first_tried_at: datetime | None = None

    @property
    def was_in_doubt(self) -> bool:
        return self.unanswered > 0


UNTRIED: Final = EmailState()

ERASED: Final = Address("erased@erased.invalid")
"""Stands for every address that was erased on request."""


class _Packed(msgspec.Struct, array_like=True, gc=False):
    """The stored form. Fields are only ever appended, each with a default."""

    addresses: str
    guids: bytes
    outcomes: bytes = b""
    tries: bytes = b""
    unanswered: bytes = b""
    replies: list[str] = []
    reply_of: bytes = b""
    moments: list[int] = []
    at_of: bytes = b""
    next_tries: dict[int, int] = {}
    first_tries: dict[int, int] = {}

    @property
    def is_new(self) -> bool:
        """Whether nothing was settled yet."""
        return not (
            self.outcomes
            or self.tries
            or self.unanswered
            or self.reply_of
            or self.at_of
            or self.next_tries
            or self.first_tries
        )


class _PackedWithValues(_Packed, array_like=True, gc=False):
    """The stored form of a page whose message uses fields of its list.

    It is separate, so that other pages take no more space.
    """

    columns: list[list[str]] = []
    """For each of the message's fields, the value of each email."""


class _PackedWithLists(_PackedWithValues, array_like=True, gc=False):
    """The stored form of a page with subscribers of the message's additional lists."""

    list_of: bytes = b""
    """For each email, the number of its list among the message's lists."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_PackedWithLists).decode


class PageEmails:
    """The emails of a page, in the order of their addresses' keys. Immutable."""

    __slots__ = ("_packed", "addresses", "is_new")

    def __init__(self, packed: _Packed, addresses: Sequence[Address] = ()) -> None:
        """`addresses` are those of the packed emails, if they are known already."""
        self._packed = packed
        self.addresses: Sequence[Address] = addresses or packed.addresses.split("\n")  # type: ignore[assignment]
        self.is_new = packed.is_new
        """Whether nothing was settled yet."""

    @classmethod
    def planned(
        cls,
        guids: Mapping[Address, SubscriberGuid],
        values: Sequence[Sequence[str]] = (),
        list_of: bytes = b"",
    ) -> PageEmails:
        """Return a new page for these addresses, in this order. `values` has for each address the
        values of the fields that the message uses; `list_of` has the number of its list, unless
        all are on the first one."""
        packed = bytes.fromhex("".join(guids.values()).replace("-", ""))
        addresses = "\n".join(guids)
        if not values and not any(list_of):
            return cls(_Packed(addresses, packed))
        columns = [list(column) for column in zip(*values, strict=True)]
        return cls(_with_columns(_Packed(addresses, packed), columns, list_of))

    @classmethod
    def unpacked(cls, stored: bytes) -> PageEmails:
        """Return what `packed` has packed. `msgspec.DecodeError`."""
        return cls(_decode(stored))

    def packed(self) -> bytes:
        return _encode(self._packed)

    def __len__(self) -> int:
        return len(self.addresses)

    def __iter__(self) -> Iterator[tuple[Address, EmailState]]:
        return ((address, self.state(place)) for place, address in enumerate(self.addresses))

    def guid(self, place: int) -> SubscriberGuid:
        """Return the GUID that the subscriber had when the page was planned."""
        start = place * _GUID_BYTES
        digits = self._packed.guids[start : start + _GUID_BYTES].hex()
        # Once for each email: formatting takes a third of the time that `uuid.UUID` takes.
        return SubscriberGuid(
            f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        )

    @property
    def has_values(self) -> bool:
        return isinstance(self._packed, _PackedWithValues) and bool(self._packed.columns)

    def values(self) -> Sequence[tuple[str, ...]]:
        """Return, for each email, the values that the subscriber's fields had when the page was
        planned. Nothing if the message uses no fields."""
        packed = self._packed
        if not isinstance(packed, _PackedWithValues):
            return ()
        return list(zip(*packed.columns, strict=True))

    @property
    def has_lists(self) -> bool:
        """Whether some of its subscribers are on additional lists of the message."""
        return isinstance(self._packed, _PackedWithLists) and bool(self._packed.list_of)

    def list_number(self, place: int) -> int:
        """Return the number of the list, among the message's lists, that the subscriber is on."""
        packed = self._packed
        return _at(packed.list_of, place) if isinstance(packed, _PackedWithLists) else 0

    def places_of(
        self, key: AddressKey, guids: Collection[SubscriberGuid] | None = None
    ) -> list[int]:
        """Return the places of emails to an address, however it is spelled, or only of those with
        one of these GUIDs. There is at most one, except in messages from when each spelling was a
        separate subscriber.
        """
        found = [place for place, each in enumerate(self.addresses) if address_key(each) == key]
        return found if guids is None else [each for each in found if self.guid(each) in guids]

    def place_of(self, guid: SubscriberGuid) -> int | None:
        """Return the place of the email to the subscriber with this GUID."""
        wanted, start = bytes.fromhex(guid.replace("-", "")), -1
        while (start := self._packed.guids.find(wanted, start + 1)) >= 0:
            if start % _GUID_BYTES == 0:
                return start // _GUID_BYTES
        return None

    def outcome(self, place: int) -> EmailOutcome:
        outcomes = self._packed.outcomes
        return _OUTCOMES[outcomes[place]] if outcomes else EmailOutcome.PENDING

    def state(self, place: int) -> EmailState:
        if self.is_new:
            return UNTRIED  # the common case for a sender
        packed = self._packed
        reply, at = _at(packed.reply_of, place), _at(packed.at_of, place)
        return EmailState(
            outcome=_OUTCOMES[_at(packed.outcomes, place)],
            reply=packed.replies[reply - 1] if reply else "",
            tries=_at(packed.tries, place),
            unanswered=_at(packed.unanswered, place),
            at=_moment(packed.moments[at - 1]) if at else None,
            next_try_at=_moment(packed.next_tries.get(place)),
            first_tried_at=_moment(packed.first_tries.get(place)),
        )

    def pending(self) -> Sequence[int]:
        """Return the positions of unfinished emails."""
        outcomes = self._packed.outcomes
        if not outcomes:
            return range(len(self))
        return [place for place, code in enumerate(outcomes) if code == _PENDING]

    def counts(self, deferred: int = 0) -> Counts:
        """Return this page's part of the sum."""
        outcomes, unanswered = self._packed.outcomes, self._packed.unanswered
        count = outcomes.count
        # Either may be left out: then no email that is done was ever in doubt.
        both = zip(outcomes, unanswered, strict=False)
        return Counts(
            planned=len(self),
            accepted=count(_ACCEPTED),
            refused=count(_REFUSED),
            suppressed=count(_SUPPRESSED),
            in_doubt=count(_IN_DOUBT),
            possible_duplicates=sum(1 for code, number in both if code and number),
            deferred=deferred,
        )

    def settled(self, states: Mapping[int, EmailState]) -> PageEmails:
        """Return the page with these emails in their new states, and the others as they are."""
        if not states:
            return self
        columns = _Columns(self._packed, len(self))
        columns.put(states)
        return PageEmails(columns.packed(), self.addresses)

    def erased(self, place: int) -> PageEmails:
        """Return the page without the address, the GUID and the values of one email, which still
        counts."""
        addresses = [*self.addresses]
        addresses[place] = ERASED
        start, end = place * _GUID_BYTES, (place + 1) * _GUID_BYTES
        guids = self._packed.guids
        packed = msgspec.structs.replace(
            self._packed,
            addresses="\n".join(addresses),
            guids=guids[:start] + bytes(_GUID_BYTES) + guids[end:],
        )
        if isinstance(packed, _PackedWithValues):
            columns = [[*each[:place], "", *each[place + 1 :]] for each in packed.columns]
            packed = msgspec.structs.replace(packed, columns=columns)
        return PageEmails(packed)


class _Columns:
    """The columns of a page while they are changed."""

    def __init__(self, packed: _Packed, count: int) -> None:
        self._before = packed
        self._outcomes = bytearray(packed.outcomes or count)
        self._tries = bytearray(packed.tries or count)
        self._unanswered = bytearray(packed.unanswered or count)
        self._reply_of = bytearray(packed.reply_of or count)
        self._at_of = bytearray(packed.at_of or count)
        self._next_tries = dict(packed.next_tries)
        self._first_tries = dict(packed.first_tries)
        # At most one of each for an email before, and one for its new state: the number of any
        # fits into a byte.
        self._replies = {reply: number for number, reply in enumerate(packed.replies, 1)}
        self._moments = {moment: number for number, moment in enumerate(packed.moments, 1)}

    def put(self, states: Mapping[int, EmailState]) -> None:
        """Set the states of some emails: together for neighbours with the same one."""
        last: EmailState | None = None
        start = end = 0
        for place, state in states.items():
            if state is last and place == end:
                end += 1
                continue
            if last is not None:
                self._put_run(last, start, end)
            last, start, end = state, place, place + 1
        if last is not None:
            self._put_run(last, start, end)

    def _put_run(self, state: EmailState, start: int, end: int) -> None:
        """Set the state of the emails from `start` up to `end`."""
        for column, number in (
            (self._outcomes, _CODES[state.outcome]),
            (self._tries, min(state.tries, _MOST)),
            (self._unanswered, min(state.unanswered, _MOST)),
            (self._reply_of, _number(self._replies, state.reply[:LONGEST_REPLY])),
            (self._at_of, _number(self._moments, _microseconds(state.at))),
        ):
            column[start:end] = bytes((number,)) * (end - start)
        for moments, moment in (
            (self._next_tries, state.next_try_at),
            (self._first_tries, state.first_tried_at),
        ):
            if moments or moment is not None:
                for place in range(start, end):
                    _put(moments, place, moment)

    def packed(self) -> _Packed:
        replies, reply_of = list(self._replies), self._reply_of
        moments, at_of = list(self._moments), self._at_of
        if self._before.replies or self._before.moments:
            replies, reply_of = _without_unused(replies, reply_of)
            moments, at_of = _without_unused(moments, at_of)
        before = self._before
        columns = before.columns if isinstance(before, _PackedWithValues) else []
        list_of = before.list_of if isinstance(before, _PackedWithLists) else b""
        packed = _Packed(
            addresses=before.addresses,
            guids=before.guids,
            outcomes=_stored(self._outcomes),
            tries=_stored(self._tries),
            unanswered=_stored(self._unanswered),
            replies=replies,
            reply_of=_stored(reply_of),
            moments=moments,
            at_of=_stored(at_of),
            next_tries=self._next_tries,
            first_tries=self._first_tries,
        )
        return _with_columns(packed, columns, list_of)


def _with_columns(packed: _Packed, columns: list[list[str]], list_of: bytes) -> _Packed:
    """Return the smallest form that has the values and lists of the emails."""
    if any(list_of):
        fields = msgspec.structs.asdict(packed)
        return _PackedWithLists(**fields, columns=columns, list_of=list_of)
    if columns:
        return _PackedWithValues(**msgspec.structs.asdict(packed), columns=columns)
    return packed


def _number(known: dict[T, int], value: T | None) -> int:
    """Return the number of a value in its list, to which it is added if it is new; 0 for none."""
    if not value:
        return 0
    number = known.get(value)
    if number is None:
        number = known[value] = len(known) + 1
    return number


def _without_unused(values: list[T], numbers: bytearray) -> tuple[list[T], bytearray]:
    known: dict[T, int] = {}
    used = bytearray(_number(known, values[number - 1]) if number else 0 for number in numbers)
    return list(known), used


def _put(column: dict[int, int], place: int, moment: datetime | None) -> None:
    if moment is None:
        column.pop(place, None)
    else:
        column[place] = _microseconds(moment)


@lru_cache(maxsize=16)
def _microseconds(moment: datetime | None) -> int:
    """Return the microseconds since 1970. Emails of a page mostly share a moment."""
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + microseconds * _MICROSECOND


def _at(column: bytes, place: int) -> int:
    return column[place] if column else 0


def _stored(column: bytearray) -> bytes:
    return bytes(column) if column.count(0) < len(column) else b""
