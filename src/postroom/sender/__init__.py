"""Takes work items, sends the emails of each page, and records the outcome of every email."""

from postroom.sender.sender_settings import SenderSettings
from postroom.sender.sending import Sender

__all__ = ["Sender", "SenderSettings"]
