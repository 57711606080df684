"""Postroom's own applications: how long their processes wait for more work."""

from datetime import timedelta

import pytest

from postroom.domain.messages.hits import HIT_QUEUE, VISIT_SECONDS
from postroom.hosted import own_apps


@pytest.mark.parametrize("idle", [timedelta(milliseconds=100), timedelta(hours=1)])
def test_the_process_that_counts_hits_outlives_every_visit_and_the_others_do_not(
    idle: timedelta,
) -> None:
    """It alone remembers visitors, so those who open a message again would count twice."""
    waits = {each.path: each.idle_timeout for each in own_apps(idle)}
    assert waits.pop(f"/{HIT_QUEUE}").total_seconds() >= VISIT_SECONDS
    assert set(waits.values()) == {idle}
