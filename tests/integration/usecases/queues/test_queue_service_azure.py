"""The same on Azure, where a moved message has another id: a few of them, because it is slow."""

import pytest

from tests.integration.usecases.queues.test_queue_service import (
    test_a_message_that_expires_in_retry_does_not_come_back,
    test_each_disposition,
    test_redrive_brings_one_back_with_counters_anew,
    test_what_is_accepted_is_gone_with_its_history,
)

__all__ = [
    "test_a_message_that_expires_in_retry_does_not_come_back",
    "test_each_disposition",
    "test_redrive_brings_one_back_with_counters_anew",
    "test_what_is_accepted_is_gone_with_its_history",
]


@pytest.fixture
def engine() -> str:
    return "azure"
