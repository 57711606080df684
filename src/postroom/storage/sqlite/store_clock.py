"""The clock of a store: microseconds since 1970, by a clock that nobody sets.

The system's clock can be set forward or back. Leases and delays would then last an hour longer, or
all end at once. So the processes that use a store share another clock: it starts at the system's
time and advances with the time since the machine was booted (CLOCK_BOOTTIME). It is kept in a file
next to the database, mapped into memory.

After a reboot it continues at the system's time, or at the last moment that it returned if that is
later. So it may differ from the system's clock, which does not matter for durations. Times that are
shown are corrected (`as_datetime`).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZE = 4096
_BOOT = struct.Struct("=16s")
_NUMBER = struct.Struct("=q")
_OFFSET_AT = 16  # the store's time minus the time since boot
_LATEST_AT = 24
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class StoreClock:
    """The clock of one store."""

    def __init__(self, database: Path, at_least: int = 0) -> None:
        """Open or create it. `at_least` is a moment that it has certainly reached. `OSError`."""
        path = database.with_name(database.name + "-clock")
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            # Reserved now: on a full disk, writing to the memory would end the process.
            os.posix_fallocate(file, 0, _SIZE)
            self._memory = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        boot = _boot()
        if self._memory[: _BOOT.size] != boot:
            since_boot = _since_boot()
            [latest] = _NUMBER.unpack_from(self._memory, _LATEST_AT)
            reached = max(system_time(), latest, at_least)
            _NUMBER.pack_into(self._memory, _OFFSET_AT, reached - since_boot)
            self._memory[: _BOOT.size] = boot
        [self._offset] = _NUMBER.unpack_from(self._memory, _OFFSET_AT)

    def now(self) -> int:
        now: int = self._offset + _since_boot()
        _NUMBER.pack_into(self._memory, _LATEST_AT, now)
        return now

    def after(self, seconds: float) -> int:
        return self.now() + round(seconds * 1_000_000)

    def as_datetime(self, microseconds: int) -> datetime:
        """Return a moment of the store's clock as the system's clock shows it."""
        skew = system_time() - self._offset - _since_boot()
        # To the second, so that the same moment is shown the same way each time.
        return as_datetime(microseconds + round(skew, -6))

    def close(self) -> None:
        self._memory.close()


def as_datetime(microseconds: int) -> datetime:
    """Return a moment of the system's clock."""
    return _EPOCH + timedelta(microseconds=microseconds)


def system_time() -> int:
    """Return the time by the system's clock, for what is only shown."""
    return time.time_ns() // 1000


def _since_boot() -> int:
    return time.clock_gettime_ns(_SINCE_BOOT) // 1000


def _boot() -> bytes:
    """Return an identifier of this boot of the machine."""
    try:
        text = _BOOT_ID.read_bytes()
    except OSError:  # not Linux
        text = b"unknown"
    return hashlib.blake2b(text.strip(), digest_size=_BOOT.size).digest()
