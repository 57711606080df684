"""A web server in a separate process, as in production."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.waiting import accepts_connections, free_ports, wait_until

POSTROOM = Path(sys.executable).with_name("postroom")


@dataclass(frozen=True)
class Server:
    port: int
    pid: int


@contextmanager
def serving(command: list[str], folder: Path, data: Path) -> Iterator[Server]:
    """Run a command that ends with the option for its port, on a free port; log into `folder`."""
    [port] = free_ports(1)
    settings = {"POSTROOM_API_RATE": "1000000", "POSTROOM_DATA": str(data)}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, str(port)], env={**os.environ, **settings}, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: accepts_connections(port), seconds=30, what=command[0])
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(20)
