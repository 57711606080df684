"""What is due by time for the processes of an application. Pure: nothing is started or stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from postroom.domain.queues.apps import App
from postroom.host.processes.process_states import Process, State

START_SECONDS = 60.0
"""How long a handler's import may take."""


def idle_to_stop(
    alive: Sequence[Process], replacing: Collection[Process], app: App, now: float
) -> Iterator[Process]:
    """Yield idle processes to stop, the longest idle first: idle for too long, or too many.

    `replacing` are those that replace another one.
    """
    running = len(alive) - len(replacing)
    spare, above = running - app.min_processes, running - app.max_processes
    limit = app.idle_timeout.total_seconds()
    for process in sorted(alive, key=lambda each: each.idle_since):
        if process in replacing or not process.is_idle:
            continue
        if (spare > 0 and process.idle_for(now) >= limit) or above > 0:
            yield process
            spare -= 1
            above -= 1


def next_due(
    processes: Sequence[Process], alive: Sequence[Process], app: App, now: float
) -> float | None:
    """Return the seconds until a limit of a process passes; None if there is no limit."""
    times = [p.kill_at - now for p in processes if p.kill_at is not None]
    over_time = (process.over_time_in(now) for process in processes)
    times += [seconds for seconds in over_time if seconds is not None]
    times += [p.started_at + START_SECONDS - now for p in processes if p.state is State.STARTING]
    if len(alive) > app.min_processes:
        idle = app.idle_timeout.total_seconds()
        times += [p.idle_since + idle - now for p in processes if p.is_idle]
    if app.recycle_after is not None and processes:
        age = app.recycle_after.total_seconds()
        times += [p.started_at + age - now for p in alive]
    return max(0.0, min(times)) if times else None
