"""The services that the scheduler needs."""

from __future__ import annotations

from typing import Protocol

from postroom.services.accounts.audit import AuditService
from postroom.services.audience.audiences import AudienceService
from postroom.services.audience.list_fields import FieldService
from postroom.services.events import EventService
from postroom.services.messages.hold_rows import HoldService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.outcomes import OutcomeService
from postroom.services.messages.page_rows import PageRows
from postroom.services.messages.pictures import PictureService
from postroom.storage import Store


class SchedulerServices(Protocol):
    """What scheduling, completion and retention use; `wiring.Services` has all of it."""

    store: Store
    audiences: AudienceService
    fields: FieldService
    messages: MessageService
    message_rows: MessageRows
    pages: PageRows
    pictures: PictureService
    outcomes: OutcomeService
    holds: HoldService
    events: EventService
    audit: AuditService
