"""The host: starts applications when messages arrive in their queues, and stops idle ones.

A handler need not import anything from here. It may raise `Poison` (no further attempts) or
`RetryLater` (not before some seconds have passed). This module imports nothing else, so that
handlers are quick to import.
"""

from postroom.host.worker.handling import Message, Poison, RetryLater

__all__ = ["Message", "Poison", "RetryLater"]
