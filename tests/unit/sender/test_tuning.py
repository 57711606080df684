"""A sender whose store has threads keeps them on one core, and lets go of them at the end."""

import asyncio
import os
import sys
import threading

import pytest

from postroom.tuning import kept_on_one_core

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs two cores"
)


async def test_all_threads_stay_on_one_core_until_the_end() -> None:
    allowed = os.sched_getaffinity(0)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, daemon=True)
    thread.start()
    assert thread.native_id is not None
    threads = [threading.get_native_id(), thread.native_id]
    try:
        async with kept_on_one_core():
            for _ in range(3000):
                [ours, other] = [os.sched_getaffinity(each) for each in threads]
                if len(ours) == 1 and ours == other <= allowed:
                    assert set(map(os.sched_getscheduler, threads)) == {os.SCHED_BATCH}
                    break
                await asyncio.sleep(0.01)
            else:
                raise AssertionError("they are never together")
        assert [os.sched_getaffinity(each) for each in threads] == [allowed, allowed]
        assert set(map(os.sched_getscheduler, threads)) == {os.SCHED_OTHER}
    finally:
        end.set()
        thread.join()
