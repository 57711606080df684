"""Plans due messages as pages and work items, and archives finished ones."""

from postroom.scheduler.leading import Scheduler

__all__ = ["Scheduler"]
