"""Run the simulation: `make simulate ARGS='--seed 123'` replays one seed with its trace."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Event

from tests.simulation.bugs import BUGS
from tests.simulation.judge import Violation
from tests.simulation.scenario import Simulation
from tests.simulation.template import template
from tests.simulation.times import make_smaller

_AT_ONCE = 50  # seeds that a process is given at a time

_is_found: Event | None = None
"""Set once a seed has failed after which no other is needed; what the pool has already handed out
cannot be taken back."""


def main() -> int:
    options = _options()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of a set of strings must be the same in every process.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606
    _prepare()
    if options.seed is not None:
        return _replay(options.seed, options.bug)
    if options.each_bug:
        return _find_each_bug(options.count, options.jobs)
    return _run(options.first, options.count, options.jobs, options.bug)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay one seed, and print its trace")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10_000, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a bug, and look for it")
    parser.add_argument("--each-bug", action="store_true", help="plant one bug after the other")
    return parser.parse_args()


def _prepare() -> None:
    """Load whatever is loaded once in a process: no run may differ from the same one later."""
    make_smaller()
    for recipients in range(1, 8):
        template(recipients)
    for seed in range(10):
        Simulation(seed).run()
    gc.collect()
    gc.freeze()
    gc.disable()


def _replay(seed: int, bug: str | None) -> int:
    if bug is not None:
        BUGS[bug]()
    simulation = Simulation(seed, print)
    try:
        simulation.run()
    except Violation as exc:
        print(exc)
        return 1
    print(f"seed {seed}: nothing is wrong (schedule {simulation.loop.schedule:016x})")
    return 0


def _find_each_bug(count: int, jobs: int) -> int:
    """Plant one bug after the other. The status is 0 if each of them is found."""
    return max([int(_run(0, count, jobs, bug) == 0) for bug in sorted(BUGS)])


def _run(first: int, count: int, jobs: int, bug: str | None) -> int:
    """Run these seeds; with a bug, which is planted in the processes that run them, up to the first
    failure."""
    global _is_found
    if bug is not None:
        print(f"{bug}:")
    began = time.monotonic()
    starts = range(first, first + count, _AT_ONCE)
    counts = [min(_AT_ONCE, first + count - start) for start in starts]
    schedules: set[int] = set()
    failures: list[str] = []
    ran = 0
    forking = get_context("fork")
    _is_found = forking.Event() if bug is not None else None
    plant = BUGS[bug] if bug is not None else None
    with ProcessPoolExecutor(jobs, forking, plant) as pool:
        for some, wrong in pool.map(_run_some, starts, counts):
            schedules |= some
            failures += wrong
            ran += len(some) + len(wrong)
            if failures and bug is not None:
                pool.shutdown(cancel_futures=True)
                break
    for failure in failures[:20]:
        print(failure)
    seconds = time.monotonic() - began
    print(
        f"{ran:,} seeds, {len(schedules):,} distinct schedules, {len(failures)} failures"
        f" in {seconds:.0f} s"
    )
    if failures:
        print(f"Replay one with: make simulate ARGS='--seed {failures[0].split()[1].strip(':')}'")
    return 1 if failures else 0


def _run_some(first: int, count: int) -> tuple[set[int], list[str]]:
    schedules: set[int] = set()
    failures: list[str] = []
    for seed in range(first, first + count):
        if _is_found is not None and _is_found.is_set():
            break
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Violation as exc:
            failures.append(str(exc))
            if _is_found is not None:
                _is_found.set()
        else:
            schedules.add(simulation.loop.schedule)
        # At once, so that the next one uses the same memory: the processor's caches hold it.
        del simulation
        gc.collect()
    return schedules, failures


if __name__ == "__main__":
    sys.exit(main())
