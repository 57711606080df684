"""The clock that processes and use cases read."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import postroom
from postroom import clock

SOURCES = Path(postroom.__file__).parent
READS_THE_CLOCK = ("host", "scheduler", "sender", "services")
DIRECT = re.compile(r"datetime\.now\(|\btime\.(time|monotonic|clock_gettime)\b")


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 5.0

    def since_boot(self) -> float:
        return 7.0


def test_the_system_clock_is_read_until_it_is_replaced() -> None:
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    with clock.replaced_by(StoppedClock()):
        assert clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
        assert clock.timestamp() == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
        assert (clock.monotonic(), clock.since_boot()) == (5.0, 7.0)
    assert clock.now() != datetime(2030, 1, 1, tzinfo=UTC)


def test_whatever_the_simulation_runs_reads_no_other_clock() -> None:
    direct = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for folder in READS_THE_CLOCK
        for path in sorted((SOURCES / folder).rglob("*.py"))
        for line in path.read_text().splitlines()
        if DIRECT.search(line)
    ]
    assert direct == []
