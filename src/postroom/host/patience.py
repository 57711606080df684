"""How long to wait before something is tried again that the store did not let us do."""

from __future__ import annotations

_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)


def pause_after(failures: int) -> float:
    """Return the seconds to wait after this many failures in a row."""
    return _SECONDS[min(failures, len(_SECONDS)) - 1]
