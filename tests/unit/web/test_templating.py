from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from postroom.web.rendering.templating import upcoming

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(7300, "in 2 h"), (90, "in 1 min"), (1, "in 1 s"), (0.5, "now"), (0, "now"), (-30, "now")],
)
def test_an_attempt_that_is_due_happens_now(seconds: float, shown: str) -> None:
    assert upcoming(NOW + timedelta(seconds=seconds), NOW) == shown
