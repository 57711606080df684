"""Pages for administrators, editors and viewers."""

from __future__ import annotations

from postroom.web.admin.accounts import audit
from postroom.web.admin.audience import (
    address_trace,
    bulk_changes,
    imports,
    list_appearance,
    lists,
    subscriber_index,
    subscribers,
    use_it,
)
from postroom.web.admin.messages import (
    emails,
    message_actions,
    message_details,
    message_forms,
    message_index,
    outbox,
    previews,
)
from postroom.web.admin.operations import dashboard, events, explorer, settings
from postroom.web.admin.queues import apps, queues
from postroom.web.requests.routing import Page

# One line for each module of pages.
ADMIN_PAGES: tuple[Page, ...] = (
    *dashboard.PAGES,
    *lists.PAGES,
    *list_appearance.PAGES,
    *imports.PAGES,
    *bulk_changes.PAGES,
    *subscriber_index.PAGES,
    *subscribers.PAGES,
    *message_index.PAGES,
    *message_forms.PAGES,  # before the pages of a message: theirs are `/messages/{ref}`
    *previews.PAGES,
    *message_actions.PAGES,
    *emails.PAGES,
    *message_details.PAGES,
    *address_trace.PAGES,
    *queues.PAGES,
    *apps.PAGES,
    *outbox.PAGES,
    *explorer.PAGES,
    *audit.PAGES,
    *events.PAGES,
    *settings.PAGES,
    *use_it.PAGES,
)
