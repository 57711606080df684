"""Takes work items, sends the emails of each page, and records what became of every one."""

from postroom.sender.sending import Sender
from postroom.sender.settings import SenderSettings

__all__ = ["Sender", "SenderSettings"]
