"""Finds messages that are due, makes pages and work items of them, and archives what is done."""

from postroom.scheduler.leading import Scheduler

__all__ = ["Scheduler"]
