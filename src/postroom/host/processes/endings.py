"""How a process ended, in words."""

from __future__ import annotations

import signal


def in_words(status: int) -> str:
    """Describe an exit status; one below 0 is the number of a signal."""
    if status >= 0:
        return f"exit status {status}"
    if -status == signal.SIGXCPU:
        return "killed by SIGXCPU: it used more CPU time than cpu_limit allows"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
