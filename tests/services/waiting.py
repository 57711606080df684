"""Waiting, with an end, for something to happen."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"

BUSY = 6
"""How much longer than on a quiet machine something may take: others may use the machine, too."""

# Below the range from which systems take the ports of outgoing connections (Linux: from 32768): a
# connection of another test cannot take a port between its choice here and its use.
_PORTS = range(12_000, 32_000)


def wait_until(is_so: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Return once `is_so()`; raise `TimeoutError` naming `what` when it takes too long.

    That is after `BUSY` times `seconds`.
    """
    deadline = time.monotonic() + BUSY * seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {seconds:g} s")
        time.sleep(0.02)


async def until(
    is_so: Callable[[], bool | Awaitable[bool]], what: str | Callable[[], str], seconds: float = 60
) -> None:
    """Return once `is_so()`; raise `TimeoutError` saying `what` does not happen in time.

    That is after `BUSY` times `seconds`.
    """
    deadline = time.monotonic() + BUSY * seconds
    while True:
        answer = is_so()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in time: {what if isinstance(what, str) else what()}")
        await asyncio.sleep(0.02)


def accepts_connections(port: int) -> bool:
    """Whether something listens on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nothing listens on.

    They are chosen at random, so that test processes that run side by side choose different ones.
    """
    found: list[int] = []
    with ExitStack() as bound:
        for port in random.SystemRandom().sample(_PORTS, 1000):
            probe = bound.enter_context(socket.socket())
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError("no free port")
