"""What the host, the zygote and the workers say to each other.

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

LARGEST_FRAME = 16 * 1024 * 1024  # a message has 48,000 bytes, a traceback is cut: this is garbage
LARGEST_PACKET = 128 * 1024  # less than the buffer of a socket (212,992 bytes on Linux)


class Garbled(PostroomError):
    """The other side did not speak this language, or something wrote into the socket."""


class _Frame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# --------------------------------------------------------------------------------------------
# host → worker


class Deliver(_Frame, frozen=True, array_like=True, tag=True):
    """A message to be handled. `number` tells it from the others of this process."""

    number: int
    body: str
    id: str
    queue: str
    attempt: int
    enqueued_at: datetime
    properties: dict[str, str]


class Recall(_Frame, frozen=True, array_like=True, tag=True):
    """Give back what was delivered and has not begun."""


class Drain(_Frame, frozen=True, array_like=True, tag=True):
    """Give back what has not begun, finish what has, and end."""


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
    """It had not begun, and never will in this process."""

    number: int


class Busy(_Frame, frozen=True, array_like=True, tag=True):
    """A process that receives by itself has something in hand, or nothing."""

    busy: bool


class Leaving(_Frame, frozen=True, array_like=True, tag=True):
    """Somebody sent SIGTERM: no more, please."""


FromWorker: TypeAlias = Ready | Broken | Accepted | Failed | Returned | Busy | Leaving

# --------------------------------------------------------------------------------------------
# host → zygote


class WorkerSpec(msgspec.Struct, frozen=True):
    """What a worker is to do. One of `handler`, `command` and `serve`.

    `environment` is added to what the zygote has; for `serve` it replaces it. `cpu_limit` in
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
    """Fork a worker. The first descriptor that comes along is its line to the host, the second, if
    there is one, its standard output and error."""

    number: int
    spec: WorkerSpec
    descriptors: int = 1


class Kill(_Frame, frozen=True, array_like=True, tag=True):
    """SIGKILL to a worker that is there still, and to all that it started."""

    pid: int


ToZygote: TypeAlias = Launch | Kill

# --------------------------------------------------------------------------------------------
# zygote → host


class Launched(_Frame, frozen=True, array_like=True, tag=True):
    number: int
    pid: int


class NotLaunched(_Frame, frozen=True, array_like=True, tag=True):
    """The machine would not fork."""

    number: int
    error: str


class Exited(_Frame, frozen=True, array_like=True, tag=True):
    """A worker has ended: an exit status, or minus the number of the signal that killed it."""

    pid: int
    status: int


FromZygote: TypeAlias = Launched | NotLaunched | Exited

# --------------------------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode

read_to_zygote = msgspec.msgpack.Decoder(ToZygote).decode
read_from_zygote = msgspec.msgpack.Decoder(FromZygote).decode
packet = _encode


def frame(value: ToWorker | FromWorker) -> bytes:
    """The bytes of one value on a stream."""
    data = _encode(value)
    return len(data).to_bytes(4, "big") + data


class Frames(Generic[T]):
    """Values out of a stream that comes in pieces."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._pieces = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        """What is complete by now. `Garbled`."""
        self._pieces += data
        start = 0
        try:
            while len(self._pieces) - start >= 4:
                length = int.from_bytes(self._pieces[start : start + 4], "big")
                if length > LARGEST_FRAME:
                    raise Garbled(f"a frame of {length:,} bytes")
                end = start + 4 + length
                if len(self._pieces) < end:
                    break
                value = self._decode(bytes(self._pieces[start + 4 : end]))
                start = end
                yield value
        except msgspec.MsgspecError as exc:
            raise Garbled(f"a frame that makes no sense: {exc}") from exc
        finally:
            del self._pieces[:start]


def frames_to_worker() -> Frames[ToWorker]:
    return Frames(msgspec.msgpack.Decoder(ToWorker).decode)


def frames_from_worker() -> Frames[FromWorker]:
    return Frames(msgspec.msgpack.Decoder(FromWorker).decode)
