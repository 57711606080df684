"""What the work on all pages of one sender shares."""

from __future__ import annotations

import asyncio

import msgspec

from postroom.sender.faults.faults import Faults
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.faults.store_outages import StoreOutages
from postroom.sender.journal.journal import Journal
from postroom.sender.limits.paced_sending import PacedSending
from postroom.sender.limits.sending_limits import SendingLimits
from postroom.sender.mailings import Mailings
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.transport.contract import Transport


class SenderParts(msgspec.Struct, frozen=True):
    services: SenderServices
    settings: SenderSettings
    transport: Transport
    limits: SendingLimits
    paced: PacedSending
    journal: Journal
    store_outages: StoreOutages
    lost_history: LostHistory
    faults: Faults
    mailings: Mailings
    stopping: asyncio.Event
    """Set when nothing new may be started."""
