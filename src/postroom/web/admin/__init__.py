"""Pages for administrators, editors and viewers."""

from __future__ import annotations

from postroom.web.admin.accounts import audit
from postroom.web.admin.audience import (
    address_trace,
    bulk_changes,
    imports,
    lists,
    subscriber_index,
    subscribers,
)
from postroom.web.admin.audience import embed as use_it
from postroom.web.admin.audience import signup_page as list_appearance
from postroom.web.admin.messages import (
    message_actions,
    message_details,
    message_forms,
    message_index,
    outbox,
    previews,
)
from postroom.web.admin.messages import recipients as emails
from postroom.web.admin.operations import dashboard, events, explorer, settings
from postroom.web.admin.queues import apps, queues
from postroom.web.requests.views import View

# One line for each module of pages.
ADMIN_VIEWS: tuple[View, ...] = (
    *dashboard.VIEWS,
    *lists.VIEWS,
    *list_appearance.VIEWS,
    *imports.VIEWS,
    *bulk_changes.VIEWS,
    *subscriber_index.VIEWS,
    *subscribers.VIEWS,
    *message_index.VIEWS,
    *message_forms.VIEWS,  # before the pages of a message: theirs are `/messages/{ref}`
    *previews.VIEWS,
    *message_actions.VIEWS,
    *emails.VIEWS,
    *message_details.VIEWS,
    *address_trace.VIEWS,
    *queues.VIEWS,
    *apps.VIEWS,
    *outbox.VIEWS,
    *explorer.VIEWS,
    *audit.VIEWS,
    *events.VIEWS,
    *settings.VIEWS,
    *use_it.VIEWS,
)
