"""What is found about the DNS records of a sending domain."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RecordState(StrEnum):
    FINE = "fine"
    INFO = "info"
    """Worth knowing; nothing has to be done."""
    WEAK = "weak"
    WRONG = "wrong"


class DnsRecord(msgspec.Struct, frozen=True):
    """A record to publish."""

    name: str
    type: str
    value: str


class RecordFinding(msgspec.Struct, frozen=True):
    """What was found about one kind of record, and what to do about it."""

    kind: str
    state: RecordState
    text: str
    advice: str = ""
    record: DnsRecord | None = None
    """The record to publish, if one is missing."""
