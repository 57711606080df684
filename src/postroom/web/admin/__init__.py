"""Pages for administrators, editors and viewers."""

from __future__ import annotations

from postroom.web.admin import (
    appearance,
    apps,
    audit,
    bulk,
    dashboard,
    emails,
    events,
    explorer,
    imports,
    lists,
    message_actions,
    message_details,
    message_forms,
    messages,
    outbox,
    previews,
    queues,
    settings,
    subscriber_index,
    subscribers,
    trace,
    use_it,
)
from postroom.web.routing import Page

# One line for each module of pages.
ADMIN_PAGES: tuple[Page, ...] = (
    *dashboard.PAGES,
    *lists.PAGES,
    *appearance.PAGES,
    *imports.PAGES,
    *bulk.PAGES,
    *subscriber_index.PAGES,
    *subscribers.PAGES,
    *messages.PAGES,
    *message_forms.PAGES,  # before the pages of a message: theirs are `/messages/{ref}`
    *previews.PAGES,
    *message_actions.PAGES,
    *emails.PAGES,
    *message_details.PAGES,
    *trace.PAGES,
    *queues.PAGES,
    *apps.PAGES,
    *outbox.PAGES,
    *explorer.PAGES,
    *audit.PAGES,
    *events.PAGES,
    *settings.PAGES,
    *use_it.PAGES,
)
