"""Thousands of runs of the whole delivery, each with its own faults; see `scenario.py`."""

import asyncio
import gc
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.loop import Process, SimulationLoop

ROOT = Path(__file__).parents[2]
SEEDS = 10_000
PARTS = 4  # which may run at the same time
SEEDS_FOR_A_BUG = 2_000


def simulate(*options: object) -> subprocess.CompletedProcess[str]:
    """Run the simulation in a process of its own: it changes the product's constants."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *map(str, options)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def fail_while_suspended(*, is_awaited: bool) -> list[str]:
    """Return what nobody has handled when an error comes in a process that never resumes."""
    loop = SimulationLoop(Random(0))  # type: ignore[abstract]
    suspended, other = Process("suspended", "one"), Process("other", "one")

    async def wait(future: asyncio.Future[None]) -> None:
        await (future if is_awaited else loop.delay(100))

    async def fail() -> None:
        future = loop.create_future()
        loop.start(suspended, wait(future))
        await loop.delay(1)
        loop.suspend(suspended, 100)
        future.set_exception(ValueError("nobody sees this"))

    loop.run(loop.start(other, fail()))
    loop.dispose()
    gc.collect()
    return loop.errors


def test_an_error_that_a_suspended_process_would_still_handle_is_not_reported() -> None:
    assert fail_while_suspended(is_awaited=True) == []
    [error] = fail_while_suspended(is_awaited=False)
    assert "nobody sees this" in error


@pytest.mark.timeout(200)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_promise(part: int) -> None:
    count = SEEDS // PARTS
    ran = simulate("--first", part * count, "--count", count, "--jobs", 1)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{count:,} seeds, " in ran.stdout
    found = re.search(r"([\d,]+) distinct schedules", ran.stdout)
    assert found is not None
    # A schedule occurs twice only by chance, if at all.
    assert int(found[1].replace(",", "")) > count * 0.99


@pytest.mark.timeout(200)
def test_each_planted_bug_is_found() -> None:
    ran = simulate("--count", SEEDS_FOR_A_BUG, "--each-bug", "--jobs", 1)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(BUGS) >= 10
    assert "TypeError" not in ran.stdout, "a bug that no longer fits the code is found for nothing"
    assert "AttributeError" not in ran.stdout
    for bug in BUGS:
        assert f"{bug}:\n" in ran.stdout
    assert ran.stdout.count("Replay one with: make simulate ARGS='--seed ") == len(BUGS)


def test_a_seed_replays_exactly_with_a_readable_trace() -> None:
    one, other = simulate("--seed", 7), simulate("--seed", 7)
    assert one.returncode == 0, one.stdout + one.stderr
    assert one.stdout == other.stdout
    assert "hands over" in one.stdout
    assert "mail server: " in one.stdout
    assert one.stdout.splitlines()[-1].startswith("seed 7: nothing is wrong")


def test_a_failing_seed_fails_again_when_it_is_replayed() -> None:
    bug = "forget-the-mark-of-a-doubt"
    found = simulate("--count", SEEDS_FOR_A_BUG, "--bug", bug, "--jobs", 1)
    [seed] = re.findall(r"--seed (\d+)", found.stdout)
    replayed = simulate("--seed", seed, "--bug", bug)
    assert replayed.returncode == 1, replayed.stdout
    assert replayed.stdout.splitlines()[-1] in found.stdout
