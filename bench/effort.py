"""How much is measured: all of it, or just enough to see that a benchmark runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure. Candidates take `turns`, and the median of each is reported, so
    that a noisy moment of the machine does not matter. `share` scales the sizes."""

    turns: int = 3
    share: float = 1.0

    def size(self, whole: int, least: int = 100) -> int:
        """Return how many emails, rows or requests to use instead of `whole`."""
        return max(min(least, whole), round(whole * self.share))

    def medians(self, *measures: Callable[[], float]) -> list[float]:
        """Run the measures in turns, and return the median of each."""
        found = [[measure() for measure in measures] for _ in range(self.turns)]
        return [statistics.median(values) for values in zip(*found, strict=True)]


FULL = Effort()
QUICK = Effort(turns=1, share=0.02)
