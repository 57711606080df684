"""Items of Postroom's own queues that cannot be processed."""

from __future__ import annotations

import logging

from postroom.domain.queues.queue_names import poison_queue
from postroom.storage import LeaseLost, Queue, QueueMessage

log = logging.getLogger(__name__)

_LONGEST_REASON = 1000


async def move_to_poison(queue: Queue, item: QueueMessage, why: object) -> None:
    """Move a queue message that cannot be processed to the poison queue, with the reason. If its
    lease is lost, the process that has it now decides."""
    poison = poison_queue(item.queue)
    properties = {**item.properties, "error": str(why)[:_LONGEST_REASON]}
    try:
        await queue.move(item, poison, properties=properties)
    except LeaseLost:
        log.info("%s was taken over by another process", item.body)
        return
    log.error("a queue message was moved to %s: %s", poison, why)
