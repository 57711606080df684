"""Handlers that do what the body of their message says, and write down that they did.

Copied beside a test's `postroom.toml` as `handlers.py`: it must not need the tests' packages.

The body is words with colons: `sleep:0.5`, `fail`, `exit`, `kill`, `poison`, `later:2`,
`await:FILE`; anything else is accepted. `fail-first`, `await-first:FILE` … do so at the first
attempt only, `fail-until:FILE` until there is such a file.
"""

import asyncio
import fcntl
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from postroom.host import Poison, RetryLater

FOLDER = Path(__file__).parent
LOG = FOLDER / "handled.jsonl"
_log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(event: str, name: str, message: Any, **more: object) -> None:
    line = {
        "event": event,
        "handler": name,
        "pid": os.getpid(),
        "at": time.monotonic(),
        "id": message.id,
        "queue": message.queue,
        "attempt": message.attempt,
        "body": message.body,
        "properties": dict(message.properties),
        **more,
    }
    os.write(_log, json.dumps(line).encode() + b"\n")


def one(message: Any) -> None:
    obey(message, "one")


def two(message: Any) -> None:
    obey(message, "two")


async def in_loop(message: Any) -> None:
    note("begin", "in_loop", message)
    await asyncio.sleep(0.01)
    note("end", "in_loop", message)


def closes_everything(message: Any) -> None:
    """Close all descriptors, as a program does that becomes a daemon."""
    note("begin", "closes_everything", message)
    os.closerange(3, 256)


def wrong_text(message: Any) -> None:
    """Raise an error whose text UTF-8 cannot hold."""
    note("begin", "wrong_text", message)
    raise ValueError(f"bad name {json.loads(message.body)}")


def cannot_answer(message: Any) -> None:
    """Break the process so that no answer can be sent from it."""
    from postroom.host.worker import worker

    note("begin", "cannot_answer", message)
    vars(worker)["frame"] = None


async def wrong_signature() -> None:
    """A handler that cannot be called with a message."""


def yields(message: Any) -> Any:
    """A generator: a call of it runs nothing."""
    note("begin", "yields", message)
    yield


def makes_generator(message: Any) -> Any:
    return yields(message)


async def makes_async_generator(message: Any) -> Any:
    async def each() -> Any:
        yield message

    return each()


def prints(message: Any) -> None:
    """Print so many kilobytes, then a last line."""
    note("begin", "prints", message)
    line = "x" * 1023
    for _ in range(int(message.body)):
        print(line)
    note("end", "prints", message)


def shows_environment(message: Any) -> None:
    """Write down what this process can see, and is."""
    note(
        "end",
        "shows_environment",
        message,
        properties={**os.environ, "user": str(os.geteuid())},
    )
    started_with = Path("/proc/self/environ").read_bytes()
    (FOLDER / "environ").write_bytes(started_with)


def greedy(message: Any) -> None:
    """Use more memory, time or files than is allowed."""
    note("begin", "greedy", message)
    if message.body == "memory":
        bytearray(500_000_000)
    elif message.body == "cpu":
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            pass
    elif message.body == "files":
        kept = [LOG.open() for _ in range(1000)]
        assert kept
    note("end", "greedy", message)


def alone(message: Any) -> None:
    """Hold a lock for each message, which the kernel releases if the process dies."""
    with (FOLDER / f"lock-{message.id}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("two owners", "alone", message)
        obey(message, "alone")


def with_thread(message: Any) -> None:
    """Leaves something running that the process has to take along when it ends."""
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    obey(message, "with_thread")


def obey(message: Any, name: str) -> None:
    note("begin", name, message)
    verb, _, argument = message.body.partition(":")
    if verb.endswith("-first"):
        verb = verb.removesuffix("-first") if message.attempt == 1 else "ok"
    if verb.endswith("-until"):
        verb = "ok" if (FOLDER / argument).exists() else verb.removesuffix("-until")
    if verb == "sleep":
        time.sleep(float(argument))
    elif verb == "await":
        for _ in range(60_000):
            if (FOLDER / argument).exists():
                break
            time.sleep(0.01)
    elif verb == "fail":
        raise ValueError(f"told to fail by {message.body}")
    elif verb == "exit":
        os._exit(3)
    elif verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == "poison":
        raise Poison("no use in trying again")
    elif verb == "later":
        raise RetryLater(float(argument))
    note("end", name, message)
