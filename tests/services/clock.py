"""A system clock that tests can set for the processes they start, while those run.

A small library is loaded before libc (LD_PRELOAD) and adds an offset, read from a file, to what the
system's clock shows. Other clocks, such as the time since the start of the machine, are left alone.
"""

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.services.missing import require

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset;

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("POSTROOM_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) offset = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    if (result == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        t->tv_sec += *offset;
    return result;
}

time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}
"""


@dataclass(frozen=True)
class SettableClock:
    """The clock of all processes that are started with `environment`."""

    library: Path
    offset: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "POSTROOM_TEST_CLOCK": str(self.offset)}

    def set(self, seconds: int) -> None:
        """Let the clock be ahead of the true time, or behind it if negative."""
        with self.offset.open("r+b") as file:
            file.write(struct.pack("=q", seconds))


def make_settable_clock(folder: Path) -> SettableClock:
    """Compile the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        require("C compiler", "apt-get install gcc libc6-dev")
    source, library, offset = (folder / name for name in ("clock.c", "clock.so", "clock.offset"))
    source.write_text(_SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    offset.write_bytes(bytes(8))
    return SettableClock(library, offset)
