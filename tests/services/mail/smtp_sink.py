"""Postfix's smtp-sink: a mail server that accepts, drops, delays or refuses, by its options."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.missing import require
from tests.services.process import ServiceProcess, folder_for, unprivileged
from tests.services.waiting import LOOPBACK, accepts_connections, free_ports

BACKLOG = "1024"


@dataclass(frozen=True, slots=True)
class SmtpSink:
    """A running mail server. `folder` is where it runs: dumps (`-d`, `-D`) land there."""

    host: str
    port: int
    folder: Path
    pid: int


@contextmanager
def running_smtp_sink(*options: str) -> Iterator[SmtpSink]:
    """Start a mail server with smtp-sink's own `options` and stop it in the end.

    Useful ones: `-f RCPT` refuses a command, `-q DATA` hangs up on it, `-w 2` delays the reply
    to DATA, `-p` hides PIPELINING, `-d mail-` keeps each mail in a separate file.
    """
    program = shutil.which("smtp-sink", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        require("Postfix's smtp-sink", "apt-get install postfix")
    # Started as nobody, not told to become nobody (`-u`): a process that changes its user no
    # longer dies with its parent.
    user = unprivileged("nobody")
    [port] = free_ports(1)
    with folder_for("smtp-sink", user) as folder:
        process = ServiceProcess(
            name="smtp-sink",
            command=[program, *options, f"{LOOPBACK}:{port}", BACKLOG],
            folder=folder,
            is_ready=lambda: accepts_connections(port),
            user=user,
        )
        process.start()
        try:
            yield SmtpSink(LOOPBACK, port, folder, process.pid)
        finally:
            process.stop()
