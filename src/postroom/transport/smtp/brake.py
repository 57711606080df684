"""Slows down when a server refuses recipients for no reason that we know.

One such refusal may be about the recipient. Several before an email is accepted may be about us,
and then every email that is handed over meanwhile touches one more recipient. So from the third on,
only one email at a time is in progress, until the server accepts one again. Mail without such
refusals is not slowed down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from postroom.transport.contract import Result, ResultKind

_SEVERAL = 3


class _Connection(Protocol):
    @property
    def is_busy(self) -> bool: ...


class Brake:
    """Shared by all connections of a pool. `on_release` is called when it ends."""

    def __init__(self) -> None:
        self.on_release: Callable[[], None] = _do_nothing
        self.refusals = 0
        """Unexplained refusals so far; an email remembers how many there were when it was taken."""
        self.is_watching = False
        """Whether an acceptance has to be reported: there were unexplained refusals."""
        self.is_on = False
        self._proven_after = 0
        self._since_accepted = 0
        self._connections = WeakSet[_Connection]()

    def add(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def stops(self, connection: _Connection | None = None) -> bool:
        """Return whether no further email may be begun: another connection is still busy."""
        return self.is_on and any(
            each.is_busy for each in self._connections if each is not connection
        )

    def refused(self) -> None:
        """Note an unexplained refusal."""
        self.refusals += 1
        self._since_accepted += 1
        self.is_on = self._since_accepted >= _SEVERAL
        if not self.is_watching:
            self.is_watching = True
            self._proven_after = self.refusals

    def settled(self, result: Result, refusals_before: int) -> None:
        """Note a result. An email that was taken before the first of these refusals proves
        nothing: the server may have changed its mind since."""
        if result.is_unknown_refusal:
            self.refused()
        elif result.kind is ResultKind.ACCEPTED and refusals_before >= self._proven_after:
            was_on, self.is_on = self.is_on, False
            self.is_watching = False
            self._since_accepted = 0
            if was_on:
                self.on_release()


def _do_nothing() -> None:
    return
