"""Shares of an audience: every subscriber has a bucket, and a share is a range of buckets.

The bucket of a subscriber follows from a hash, so it is the same whenever it is asked, needs no
record, and says nothing about the address. Another key, such as the ref of another message,
shuffles everyone again.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from postroom.domain.messages.refs import MessageRef

BUCKETS: Final = 10_000
"""So a share is precise to a hundredth of a percent."""


class BucketRange(msgspec.Struct, frozen=True, array_like=True):
    """The buckets from `first` up to, but not including, `end`."""

    first: int = 0
    end: int = BUCKETS

    def __contains__(self, bucket: int) -> bool:
        return self.first <= bucket < self.end

    @property
    def share(self) -> float:
        """Return its part of everyone, between 0 and 1."""
        return (self.end - self.first) / BUCKETS


ALL_BUCKETS: Final = BucketRange()


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of its audience that a message goes to: some buckets, among those that `key`
    shuffles, except for the recipients of the messages `without`."""

    key: str
    buckets: BucketRange = ALL_BUCKETS
    without: tuple[MessageRef, ...] = ()


def bucket_of(key: str, who: str) -> int:
    """Return the bucket of a subscriber, given by GUID or address, among those that `key`
    shuffles."""
    digest = hashlib.blake2b(who.encode(), key=key.encode()[:64], digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS
