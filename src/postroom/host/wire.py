"""The protocol between the host, the zygote and the workers.

Between host and worker: a stream of frames, each a length of four bytes and a value in MessagePack.
Between host and zygote: a value per packet (`SOCK_SEQPACKET`), one of them with descriptors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

import msgspec

from postroom.errors import PostroomError

T = TypeVar("T")

LARGEST_FRAME = (
    16 * 1024 * 1024
)  # messages have at most 48,000 bytes, tracebacks are cut: more is invalid
LARGEST_PACKET = 128 * 1024  # less than the buffer of a socket (212,992 bytes on Linux)


class Garbled(PostroomError):
    """The other side sent data that is not a frame."""


class _Frame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# --------------------------------------------------------------------------------------------
# host → worker


class Deliver(_Frame, frozen=True, array_like=True, tag=True):
    """Handle a message. `number` identifies it within the process."""

    number: int
    body: str
    id: str
    queue: str
    attempt: int
    enqueued_at: datetime
    properties: dict[str, str]


class Recall(_Frame, frozen=True, array_like=True, tag=True):
    """Return messages that have not begun."""


class Drain(_Frame, frozen=True, array_like=True, tag=True):
    """Return messages that have not begun, finish the others, and end."""


ToWorker: TypeAlias = Deliver | Recall | Drain

# --------------------------------------------------------------------------------------------
# worker → host


class Ready(_Frame, frozen=True, array_like=True, tag=True):
    """The handler is imported."""


class Broken(_Frame, frozen=True, array_like=True, tag=True):
    """The handler cannot be imported; the process ends."""

    error: str
    traceback: str


class Accepted(_Frame, frozen=True, array_like=True, tag=True):
    """The handler returned."""

    number: int


class Failed(_Frame, frozen=True, array_like=True, tag=True):
    """The handler raised."""

    number: int
    error: str
    traceback: str
    retry_in: float | None = None
    poison: bool = False


class Returned(_Frame, frozen=True, array_like=True, tag=True):
    """The message has not begun, and will not in this process."""

    number: int


class Busy(_Frame, frozen=True, array_like=True, tag=True):
    """Whether a process that receives messages itself has some in progress."""

    busy: bool


class Leaving(_Frame, frozen=True, array_like=True, tag=True):
    """The worker got SIGTERM and takes no more messages."""


FromWorker: TypeAlias = Ready | Broken | Accepted | Failed | Returned | Busy | Leaving

# --------------------------------------------------------------------------------------------
# host → zygote


class WorkerSpec(msgspec.Struct, frozen=True):
    """What a worker runs: one of `handler`, `command` and `serve`.

    `environment` is added to that of the zygote; for `serve` it replaces it. `cpu_limit` in
    seconds per message, `memory_limit` in bytes.
    """

    path: str
    folder: str = ""
    handler: str = ""
    command: tuple[str, ...] = ()
    serve: str = ""
    concurrency: int = 1
    environment: dict[str, str] = {}
    user: str = ""
    memory_limit: int | None = None
    cpu_limit: int | None = None
    open_files: int | None = None


class Launch(_Frame, frozen=True, array_like=True, tag=True):
    """Fork a worker. The first descriptor with it is its connection to the host, the second, if
    any, its standard output and error."""

    number: int
    spec: WorkerSpec
    descriptors: int = 1


class Kill(_Frame, frozen=True, array_like=True, tag=True):
    """Kill a worker, if it still runs, and its children."""

    pid: int


ToZygote: TypeAlias = Launch | Kill

# --------------------------------------------------------------------------------------------
# zygote → host


class Launched(_Frame, frozen=True, array_like=True, tag=True):
    number: int
    pid: int


class NotLaunched(_Frame, frozen=True, array_like=True, tag=True):
    """The fork failed."""

    number: int
    error: str


class Exited(_Frame, frozen=True, array_like=True, tag=True):
    """A worker has ended, with an exit status or minus the number of a signal."""

    pid: int
    status: int


FromZygote: TypeAlias = Launched | NotLaunched | Exited

# --------------------------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode

read_to_zygote = msgspec.msgpack.Decoder(ToZygote).decode
read_from_zygote = msgspec.msgpack.Decoder(FromZygote).decode
packet = _encode


def frame(value: ToWorker | FromWorker) -> bytes:
    """Return the bytes of a value in a stream."""
    data = _encode(value)
    return len(data).to_bytes(4, "big") + data


class Frames(Generic[T]):
    """Reads values from pieces of a stream."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._pieces = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        """Yield the values that are complete. `Garbled`."""
        self._pieces += data
        start = 0
        try:
            while len(self._pieces) - start >= 4:
                length = int.from_bytes(self._pieces[start : start + 4], "big")
                if length > LARGEST_FRAME:
                    raise Garbled(f"invalid frame of {length:,} bytes")
                end = start + 4 + length
                if len(self._pieces) < end:
                    break
                value = self._decode(bytes(self._pieces[start + 4 : end]))
                start = end
                yield value
        except msgspec.MsgspecError as exc:
            raise Garbled(f"invalid frame: {exc}") from exc
        finally:
            del self._pieces[:start]


def frames_to_worker() -> Frames[ToWorker]:
    return Frames(msgspec.msgpack.Decoder(ToWorker).decode)


def frames_from_worker() -> Frames[FromWorker]:
    return Frames(msgspec.msgpack.Decoder(FromWorker).decode)
