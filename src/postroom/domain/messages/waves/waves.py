"""Waves: the recipients of a message in parts, of which one is prepared after the other.

The pages of one wave are in the order of addresses; those of the next wave begin again. A message
of one wave, as nearly all are, has no `Waves`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.messages.waves.buckets import BucketRange


class PageRun(msgspec.Struct, frozen=True):
    """Pages in the order of addresses: from `first` up to, but not including, `end`; None: all that
    follow."""

    first: int = 0
    end: int | None = None


ALL_PAGES: Final = PageRun()


class Waves(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the recipients of a message are divided, and how far it has come.

    With `canary`, subscribers in these buckets are the first of two waves; the second one begins
    `wait` seconds after the first one was sent. With `times`, there is a wave for each of them: the
    first one for all whose time has passed when the message is queued. `expected` is how many there
    were in each at that moment.

    `starts` has the first page of each wave that has begun, except the first wave. `is_planned`:
    all pages of the current wave are queued. `next_at`: when the next wave is to begin, once that
    is known.
    """

    canary: BucketRange | None = None
    wait: float = 0.0
    times: tuple[datetime, ...] = ()
    expected: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    is_planned: bool = False
    next_at: datetime | None = None

    @property
    def count(self) -> int:
        return len(self.times) or 2

    @property
    def share(self) -> str:
        """The part of the recipients that is in the first wave."""
        return f"{100 * self.canary.share:.3g}%" if self.canary else ""

    @property
    def current(self) -> int:
        """The number of the wave that has begun last: 0 for the first."""
        return len(self.starts)

    @property
    def first_page(self) -> int:
        """The first page of the current wave."""
        return self.starts[-1] if self.starts else 0

    @property
    def is_last(self) -> bool:
        return self.current == self.count - 1

    @property
    def is_complete(self) -> bool:
        """Whether all pages of all waves are queued."""
        return self.is_planned and self.is_last

    @property
    def is_waiting(self) -> bool:
        """Whether the next wave has yet to begin, and the current one is planned."""
        return self.is_planned and not self.is_last

    def planned(self) -> Waves:
        """Return the waves once all pages of the current one are queued."""
        is_timed = bool(self.times) and not self.is_last
        following = self.times[self.current + 1] if is_timed else None
        return msgspec.structs.replace(self, is_planned=True, next_at=following)

    def following(self, pages: int) -> Waves:
        """Return the waves once the next one begins with this page."""
        starts = (*self.starts, pages)
        return msgspec.structs.replace(self, starts=starts, is_planned=False, next_at=None)


def runs_of(waves: Waves | None, pages: int) -> tuple[PageRun, ...]:
    """Return the pages of each wave. `pages` are certainly queued; only a wave that is not planned
    yet can have more."""
    if waves is None:
        return (ALL_PAGES,)
    starts = (0, *waves.starts)
    end = pages if waves.is_planned else None
    return tuple(PageRun(*run) for run in zip(starts, (*starts[1:], end), strict=True))
