"""The host: applications that start when a message arrives in their queue and stop when idle.

A handler needs nothing of it. One that wants to say more than 'it failed' raises `Poison` (do not
try this message again) or `RetryLater` (not before so many seconds). This package imports nothing
else, so that a handler's module stays quick to import.
"""

from postroom.host.worker.handling import Message, Poison, RetryLater

__all__ = ["Message", "Poison", "RetryLater"]
