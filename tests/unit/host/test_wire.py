"""Frames come out as they went in, however the stream is cut."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.host import wire
from postroom.host.wire import (
    Accepted,
    Deliver,
    Drain,
    Failed,
    FromWorker,
    Garbled,
    Launch,
    Ready,
    Recall,
    ToWorker,
    WorkerSpec,
    frame,
    frames_from_worker,
    frames_to_worker,
)

NOW = datetime(2026, 11, 15, 10, 0, 0, 123456, tzinfo=UTC)
TO_WORKER: list[ToWorker] = [
    Deliver(1, "grüße", "7", "shop/orders", 2, NOW, {"a": "b"}),
    Recall(),
    Deliver(2, "x" * 48_000, "8", "shop/orders", 1, NOW, {}),
    Drain(),
]
FROM_WORKER: list[FromWorker] = [
    Ready(),
    Accepted(1),
    Failed(2, "ValueError: no", "Traceback …", 2.5, poison=True),
]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=50))
def test_frames_survive_any_cut(sizes: list[int]) -> None:
    stream = b"".join(map(frame, TO_WORKER))
    frames = frames_to_worker()
    found, start = [], 0
    for size in sizes:
        found += list(frames.feed(stream[start : start + size]))
        start += size
    found += list(frames.feed(stream[start:]))
    assert found == TO_WORKER


def test_frames_from_a_worker_are_decoded_as_they_were_encoded() -> None:
    assert list(frames_from_worker().feed(b"".join(map(frame, FROM_WORKER)))) == FROM_WORKER


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02hi", b"\x00\x00\x00\x01\xc1"]
)
def test_an_invalid_frame_is_refused(garbage: bytes) -> None:
    with pytest.raises(Garbled):
        list(frames_from_worker().feed(garbage))


def test_a_launch_with_a_long_command_fits_into_a_packet() -> None:
    spec = WorkerSpec("/shop", "/srv/shop", command=("x" * 1000,) * 100)
    packet = wire.packet(Launch(7, spec))
    assert len(packet) < wire.LARGEST_PACKET
    assert wire.read_to_zygote(packet) == Launch(7, spec)
