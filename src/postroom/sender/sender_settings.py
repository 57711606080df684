"""The services and settings of a sender."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from postroom.mail.bounces.envelope_tokens import EnvelopeSigner
from postroom.sender.mailings import MailingServices
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.services.events import EventService
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.page_rows import PageRows
from postroom.storage import Store


class SenderServices(MailingServices, Protocol):
    """The services that senders use; `wiring.Services` has all of them."""

    store: Store
    link_tables: LinkTables
    pages: PageRows
    holds: HoldService
    events: EventService


class SenderSettings(msgspec.Struct, frozen=True):
    """How a sender works. Times are in seconds."""

    base_url: str
    journals: Path
    in_doubt: WhenInDoubt = WhenInDoubt.RESEND
    retry: RetryPlan = RetryPlan()
    lease: float = 60.0
    claim: int = 16
    """How many work items are received at once."""
    most_pages: int = 64
    """The upper limit of active pages; `window.py` decides how many there are."""
    settle_together: float = 0.02
    """How long a finished page waits for others, to be recorded with them."""
    one_core: bool = False
    """Whether to keep the process on one core: see `tuning.py`."""
    signer: EnvelopeSigner | None = None
    """What signs envelope senders, if bounces do not go to the From address."""
