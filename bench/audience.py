"""A million subscribers with fields on SQLite: importing, counting a rule, and fan-out to some."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.mail import content
from bench.mail.imports import FIELDS, HEADER, described_line, import_seconds
from postroom.domain.messages.audiences import EVERYBODY, Audience
from postroom.scheduler.fan_out import FanOut
from postroom.storage import open_store
from postroom.wiring import Services

SUBSCRIBERS = 1_000_000
RULE = 'age >= 30 and plan = "pro" and city starts with "City 1"'
TENTH = "age < 9"
_LONGEST_COUNT = 8.0  # seconds
_MEGABYTE = 1024 * 1024


def figures(effort: Effort) -> list[Figure]:
    people = effort.size(SUBSCRIBERS, 5000)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        bare, described, tenth = _files(folder, people)
        imported = _imports(folder, effort, people, bare, described)
        memory = [_peak(folder, each, number) for number, each in enumerate((tenth, described))]
        counted, everybody, some = asyncio.run(_selected(folder, effort, described))
    what = f"{SUBSCRIBERS:,} subscribers with five fields"
    return [
        Figure(f"Import of {what}", imported[1], "lines/s", imported[0], "bare addresses", 0.7),
        Figure(
            f"Memory of the import of {what}",
            memory[1] / _MEGABYTE,
            "MB",
            memory[0] / _MEGABYTE,
            "a tenth of them",
            1.5,
            target_is="at most",
        ),
        Figure(
            f"Counting a rule of three clauses, {what}",
            counted,
            "s of CPU time",
            target=_LONGEST_COUNT,
            target_on="value",
            target_is="at most",
        ),
        Figure(
            f"Fan-out to a tenth of {what}",
            people / some,
            "scanned/s",
            people / everybody,
            "to all",
            0.5,
        ),
    ]


def _files(folder: Path, people: int) -> tuple[Path, Path, Path]:
    """Write files with the same people in random order: addresses only, with fields, and a tenth of
    them with fields."""
    numbers = list(range(people))
    random.Random(1).shuffle(numbers)
    bare, described, tenth = (folder / f"{name}.csv" for name in ("bare", "described", "tenth"))
    with bare.open("w") as file:
        file.write("email,verified\n")
        file.writelines(f"{content.address(number)},true\n" for number in numbers)
    for path, share in ((described, numbers), (tenth, numbers[: people // 10])):
        with path.open("w") as file:
            file.write(HEADER)
            file.writelines(map(described_line, share))
    return bare, described, tenth


def _imports(
    folder: Path, effort: Effort, people: int, bare: Path, described: Path
) -> tuple[float, float]:
    """Return lines per second of CPU time: other programs on the machine do not count."""
    turn = itertools.count()

    def speed(file: Path) -> float:
        store = folder / f"import{next(turn)}.db"
        before = time.process_time()
        asyncio.run(import_seconds(store, file, people))
        taken = time.process_time() - before
        for each in folder.glob(f"{store.name}*"):
            each.unlink()
        return people / taken

    [plain, full] = effort.medians(lambda: speed(bare), lambda: speed(described))
    return plain, full


def _peak(folder: Path, file: Path, number: int) -> int:
    """Return the peak memory of a process that imports a file, in bytes."""
    code = (
        "import asyncio, resource; from pathlib import Path;"
        "from bench.mail.imports import import_seconds;"
        f"asyncio.run(import_seconds(Path({str(folder / f'memory{number}.db')!r}),"
        f" Path({str(file)!r}), None));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    for each in folder.glob(f"memory{number}.db*"):
        each.unlink()
    return int(done.stdout) * 1024


async def _selected(folder: Path, effort: Effort, file: Path) -> tuple[float, float, float]:
    """Return the seconds of counting a rule, of fan-out to all, and of fan-out to a tenth."""
    async with await open_store(f"sqlite:///{folder}/selected.db") as store:
        services = Services(store)
        await services.lists.create(content.LIST, "Contoso's news", content.FROM)
        await services.fields.declare(content.LIST, FIELDS)
        with file.open("rb") as opened:
            await services.imports.import_csv(content.LIST, opened)
        await services.segments.create(content.LIST, "tenth", TENTH)
        counted, everybody, some = [], [], []
        for _ in range(effort.turns):
            before = time.process_time()
            assert (await services.segments.preview(content.LIST, RULE)).count
            counted.append(time.process_time() - before)
            everybody.append(await _fan_out(services, EVERYBODY))
            some.append(await _fan_out(services, Audience("tenth")))
    return min(counted), min(everybody), min(some)


async def _fan_out(services: Services, audience: Audience) -> float:
    message = await services.messages.create(
        content.LIST, "News", content.bodies(2), datetime.now(UTC), audience=audience
    )
    message = await services.message_rows.get_for_change(message.ref)
    before = time.process_time()
    working = FanOut(services)
    message = await working.run(await working.begin(message), lambda: True)
    assert message.queued_pages
    return time.process_time() - before
