"""What the host knows about one process, with the time given."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.queues.apps import App
from postroom.host.processes.process_states import (
    OVER,
    TRANSITIONS,
    HandedMessage,
    Process,
    ProcessEvent,
    ProcessState,
)
from postroom.storage import QueueMessage

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def handed(number: int) -> HandedMessage:
    return HandedMessage(QueueMessage(str(number), "q", "body", {}, 1, NOW, "r"), 15.0)


def ready(app: App, at: float = 0.0) -> Process:
    process = Process(app, at)
    process.happened(ProcessEvent.REPORTED_READY, at)
    return process


def test_every_state_that_is_not_an_end_leads_to_one_and_ends_lead_nowhere() -> None:
    for state in ProcessState:
        leads_to = {after for (before, _), after in TRANSITIONS.items() if before is state}
        assert (leads_to == set()) == (state in OVER)
    with pytest.raises(KeyError):
        TRANSITIONS[ProcessState.STOPPED, ProcessEvent.REPORTED_READY]


def test_a_process_that_exits_unasked_has_crashed_and_one_that_drains_has_stopped() -> None:
    process = ready(App("/shop", handler="m:f"))
    process.happened(ProcessEvent.ENDED_WELL, 1.0)
    assert process.state is ProcessState.CRASHED
    process = ready(App("/shop", handler="m:f"))
    process.happened(ProcessEvent.DRAIN_REQUESTED, 1.0)
    process.happened(ProcessEvent.KILLED_BY_US, 2.0)
    assert process.state is ProcessState.STOPPED


def test_messages_begin_in_order_as_others_are_answered() -> None:
    process = ready(App("/shop", handler="m:f", concurrency=2))
    messages = [handed(number) for number in range(4)]
    numbers = [process.hand(each, 1.0) for each in messages]
    assert [each.begun_at for each in messages] == [1.0, 1.0, None, None]
    assert process.waiting_since() == 1.0
    assert process.answered(numbers[1], 3.0) is messages[1]
    assert [each.begun_at for each in messages] == [1.0, 1.0, 3.0, None]
    assert process.answered(numbers[3], 4.0) is messages[3], "given back before it began"
    assert process.waiting_since() is None
    assert process.slowest(5.0) == 4.0
    assert process.answered(numbers[3], 5.0) is None
    assert not process.is_idle
    process.answered(numbers[0], 6.0)
    process.answered(numbers[2], 7.0)
    assert process.idle_for(10.0) == 3.0


def test_a_process_that_says_it_is_busy_is_not_idle() -> None:
    process = ready(App("/mail/send", serve="m:f"))
    process.busy = True
    assert process.idle_for(100.0) == 0.0


def test_it_is_replaced_by_age_number_memory_and_a_changed_configuration() -> None:
    app = App("/shop", handler="m:f")
    process = ready(app)
    process.pid = os.getpid()
    process.handled = 10
    assert not process.replacement_reason(app, 0, 1e9)
    assert process.replacement_reason(app, 1, 1.0) == "a restart was requested"
    for changed, why in (
        (App("/shop", handler="m:g"), "configuration has changed"),
        (App("/shop", handler="m:f", origin="elsewhere"), ""),
    ):
        assert why in process.replacement_reason(changed, 0, 1.0)
        assert bool(why) == bool(process.replacement_reason(changed, 0, 1.0))
    old = App("/shop", handler="m:f", recycle_after=timedelta(minutes=1))
    assert ready(old).replacement_reason(old, 0, 60.0) == "it has reached its lifetime"
    assert not ready(old).replacement_reason(old, 0, 59.0)
    many = App("/shop", handler="m:f", recycle_messages=10)
    process = ready(many)
    process.handled = 10
    assert process.replacement_reason(many, 0, 1.0) == "it has handled 10 messages"
    large = App("/shop", handler="m:f", recycle_memory=1_000_000)
    process = ready(large)
    process.pid = os.getpid()
    assert "MB" in process.replacement_reason(large, 0, 1.0)
    process.pid = 0
    assert not process.replacement_reason(large, 0, 1.0), "what cannot be known is no reason"
