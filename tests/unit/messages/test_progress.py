"""The rate at which a message is sent."""

from datetime import UTC, datetime

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services.messages.sending.progress import LastCount

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
MESSAGE = Message(
    ref=MessageRef("634852858215726983"),
    list_name=ListName("news"),
    subject="Hello",
    scheduled_at=NOW,
    status=MessageStatus.PROCESSING,
    created_at=NOW,
)


def accepted(count: int) -> Counts:
    return Counts(planned=1000, accepted=count)


def test_the_rate_does_not_include_a_pause() -> None:
    seen = LastCount()
    resumed = msgspec.structs.replace(MESSAGE, resumptions=1)
    rates = []
    for message, count, at in (
        (MESSAGE, 100, 10.0),
        (MESSAGE, 200, 20.0),
        (resumed, 200, 3620.0),  # nobody looked while it was paused for an hour
        (resumed, 300, 3625.0),
    ):
        seen.note(message, accepted(count), at, 0.0)
        rates.append(seen.speed.per_second)
    assert rates == [None, 10.0, None, 20.0]
