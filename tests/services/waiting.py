"""Waiting, with an end, for a service to answer."""

import socket
import time
from collections.abc import Callable

LOOPBACK = "127.0.0.1"


def wait_until(is_so: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Return once `is_so()`; raise `TimeoutError` naming `what` when it takes too long."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {seconds:g} s")
        time.sleep(0.02)


def accepts_connections(port: int) -> bool:
    """Whether something listens on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
