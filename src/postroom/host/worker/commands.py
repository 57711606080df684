"""Applications that are programs: one run per message.

The body is on standard input, everything else in the environment: `POSTROOM_ID`,
`POSTROOM_QUEUE`, `POSTROOM_ATTEMPT`, `POSTROOM_ENQUEUED_AT` and, for each property of the message,
`POSTROOM_PROPERTY_NAME`. Exit status 0 accepts the message. Any other is a failed attempt, with the
end of standard error as its reason. The host logs standard output and error in either case.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from postroom.errors import PostroomError
from postroom.host import Delivery, linux_processes
from postroom.host.linux_processes import describe_exit

LONGEST_REASON = 4096
"""Bytes of standard error that are kept."""

_LAST_READS = 16  # one empties a pipe; what is left running may still write


class CommandFailed(PostroomError):
    """The program did not accept the message."""


async def run(message: Delivery, command: Sequence[str], cpu_limit: int | None = None) -> None:
    """Run the program for a message. `CommandFailed`."""
    worker = os.getpid()

    def prepare() -> None:
        linux_processes.die_with(worker)
        linux_processes.limit_child(cpu_limit)

    with _input(message.body) as given, _StandardError() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=given,
                stderr=errors.end,
                env={**os.environ, **variables(message)},
                preexec_fn=prepare,
            )
        except OSError as exc:
            raise CommandFailed(f"{command[0]} cannot be started: {exc.strerror}") from None
        status = await process.wait()
        reason = errors.text()
    if status != 0:
        raise CommandFailed(": ".join(filter(None, (describe_exit(status), reason)))) from None


def variables(message: Delivery) -> dict[str, str]:
    """Return the variables of the program."""
    properties = {
        "POSTROOM_PROPERTY_" + re.sub(r"\W", "_", name, flags=re.ASCII).upper(): value
        for name, value in message.properties.items()
    }
    return {
        **_without_nul(properties),
        "POSTROOM_ID": message.id,
        "POSTROOM_QUEUE": message.queue,
        "POSTROOM_ATTEMPT": str(message.attempt),
        "POSTROOM_ENQUEUED_AT": message.enqueued_at.isoformat(),
    }


def _without_nul(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if "\0" not in value}


@contextmanager
def _input(body: str) -> Iterator[int]:
    """Yield a file in memory with the body: the program need not read it."""
    file = os.memfd_create("message")
    try:
        os.write(file, body.encode())
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


class _StandardError:
    """Copies a program's standard error to our own, and keeps the end of it.

    All of it is read, so that the program never blocks. The end of the pipe is not awaited: what
    the program leaves running may keep it open forever.
    """

    def __init__(self) -> None:
        self._kept = b""
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> _StandardError:
        self._ours, self.end = os.pipe()
        os.set_blocking(self._ours, False)
        self._loop.add_reader(self._ours, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.end)

    def _read(self) -> bool:
        """Read once; return whether there was something."""
        try:
            piece = os.read(self._ours, 65_536)
        except BlockingIOError:
            return False
        self._kept = (self._kept + piece)[-LONGEST_REASON:]
        sys.stderr.buffer.write(piece)
        sys.stderr.buffer.flush()
        return bool(piece)

    def text(self) -> str:
        for _ in range(_LAST_READS):
            if not self._read():
                break
        return self._kept.decode(errors="replace").strip()
