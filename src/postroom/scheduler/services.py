"""The services that the scheduler needs."""

from __future__ import annotations

from typing import Protocol

from postroom.services.accounts.audit import AuditService
from postroom.services.audience.bounces.intake import BounceIntake
from postroom.services.audience.erasure import PersonalDataService
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.growth.list_sizes import ListSizes
from postroom.services.audience.results.ab_testing import AbTestService
from postroom.services.audience.results.message_results import ResultService
from postroom.services.audience.suppression.delivery_figures import DeliveryFigureService
from postroom.services.audience.targeting.audiences import AudienceService
from postroom.services.audience.targeting.received_messages import ReceivedMessages
from postroom.services.events import EventService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.media.pictures import PictureService
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.published_messages import PublishedIndex
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import PageRows
from postroom.storage import Store


class SchedulerServices(Protocol):
    """What scheduling, completion and retention use; `wiring.Services` has all of it."""

    store: Store
    received_messages: ReceivedMessages
    published: PublishedIndex
    sizes: ListSizes
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
    personal_data: PersonalDataService
    results: ResultService
    link_tables: LinkTables
    delivery_figures: DeliveryFigureService
    ab_tests: AbTestService
    bounce_intake: BounceIntake
