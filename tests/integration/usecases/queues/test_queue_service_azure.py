"""A few use cases of queues on Azure, where a moved message gets another id."""

import pytest

from tests.integration.usecases.queues.test_queue_service import (
    test_a_message_that_expires_in_retry_does_not_come_back,
    test_an_accepted_message_is_deleted_with_its_history,
    test_each_disposition,
    test_redrive_returns_one_message_and_resets_its_attempts,
)

__all__ = [
    "test_a_message_that_expires_in_retry_does_not_come_back",
    "test_an_accepted_message_is_deleted_with_its_history",
    "test_each_disposition",
    "test_redrive_returns_one_message_and_resets_its_attempts",
]


@pytest.fixture
def engine() -> str:
    return "azure"
