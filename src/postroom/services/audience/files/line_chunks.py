"""What some lines of a file of subscribers say, address by address."""

from __future__ import annotations

import csv
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.services.audience.files.cells import shown, unprotected
from postroom.services.audience.files.columns.meanings import Blocking, Meaning, Standing
from postroom.services.audience.files.columns.status_words import TRUTH, blocking_of
from postroom.services.audience.files.import_report import RejectedLine
from postroom.services.audience.files.record_lines import RecordTooLong

_LONGEST_REASON: Final = 1000
_NO_REASON: Final = "blocked in the imported file"


class Chunk(msgspec.Struct):
    """Some lines of a file. `wanted` has each address with whether it is verified, or None.

    `spellings` has the addresses that differ from their keys, `blocked` the reasons of lines that
    block, `blockings` how lines of other tools say that addresses are blocked, `watched` the line
    numbers of addresses that the caller watches, and `unsubscribed` those that unsubscribed
    according to their line and are not wanted, `left_at` when, if a line says it.

    `attributes` has the values of fields as JSON, `incomplete` the required field that a line
    lacks, and `numbers` the numbers of both kinds of lines. `details` has what lines say about
    sign-ups. `lines` counts lines that are not `empty`; `repeated` ones are about an address of an
    earlier line of the chunk.
    """

    wanted: dict[AddressKey, bool | None]
    rejected: list[RejectedLine]
    spellings: dict[AddressKey, Address] = {}
    blocked: dict[AddressKey, str] = {}
    blockings: dict[AddressKey, Blocking] = {}
    watched: dict[AddressKey, int] = {}
    unsubscribed: dict[AddressKey, Address] = {}
    left_at: dict[AddressKey, str] = {}
    attributes: dict[AddressKey, str] = {}
    incomplete: dict[AddressKey, str] = {}
    numbers: dict[AddressKey, int] = {}
    details: dict[AddressKey, dict[Meaning, str]] = {}
    lines: int = 0
    empty: int = 0
    repeated: int = 0
    bytes_read: int = 0

    def blocks(self, address: AddressKey) -> bool:
        """Return whether a line says that an address is blocked."""
        return address in self.blocked or address in self.blockings

    def reject_unreadable(self, first: int, last: int, exc: csv.Error) -> None:
        if isinstance(exc, RecordTooLong) and first == last:
            self.lines += 1
            self.rejected.append(RejectedLine(first, "", f"the line is {exc}"))
        else:
            self.reject_swallowed(first, last, str(exc))

    def reject_swallowed(self, first: int, last: int, why: str) -> None:
        """Reject a record whose quote is not closed, with the lines after it, which are in its
        cell."""
        self.lines += 1
        reason = f"{why}: is a quote missing? Lines {first} to {last} were not used"
        self.rejected.append(RejectedLine(first, "", reason))

    def want(
        self, address: Address, said: bool | None, standing: tuple[Standing | None, str]
    ) -> AddressKey:
        """Add what a line says; return the key of its address.

        The first line about an address decides its spelling, the last one its state. If any line
        says that it has unsubscribed, that counts. If any says that it is blocked, it will be
        suppressed.
        """
        wanted, key = self.wanted, address_key(address)
        stands, word = standing
        if stands is Standing.BLOCKED:
            known = self.blockings.get(key)
            if known is None or not known.everywhere:
                self.blockings[key] = blocking_of(word)
        if key in self.unsubscribed:
            self.repeated += 1
            return key
        if key in wanted:
            self.repeated += 1
        elif key != address:
            self.spellings[key] = address
        if stands is Standing.UNSUBSCRIBED:
            wanted.pop(key, None)
            self.watched.pop(key, None)
            self.blocked.pop(key, None)
            self.unsubscribed[key] = address
            return key
        if stands in (Standing.PENDING, Standing.BLOCKED):
            said = False
        elif stands is Standing.CONFIRMED and said is None:
            said = True
        if said is None:
            wanted.setdefault(key, None)
        else:
            wanted[key] = said
        return key

    def block(self, address: AddressKey, cell: str) -> None:
        """Block an address if its cell has a reason, or just a yes."""
        meaning = TRUTH.get(cell.strip().lower(), True)
        if meaning:
            is_reason = cell.strip().lower() not in TRUTH
            reason = " ".join(unprotected(cell).split()) if is_reason else _NO_REASON
            self.blocked[address] = shown(reason, longest=_LONGEST_REASON)
