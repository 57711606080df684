"""Pages for the team: administrators, editors and viewers."""

from __future__ import annotations

from postroom.web.admin.accounts import account, api_keys, forgotten, login, users
from postroom.web.admin.audience import (
    address_trace,
    brand,
    embed,
    fields,
    imports,
    lists,
    segments,
    signup_page,
    subscriber_index,
    subscribers,
)
from postroom.web.admin.messages import (
    attachments,
    audience_choice,
    canvas,
    draft_actions,
    editor,
    formats,
    message_details,
    message_index,
    outbox,
    pictures,
    preflight,
    previews,
    publishing,
    recipients,
    templates,
    versions,
)
from postroom.web.admin.operations import (
    activity,
    components,
    explorer,
    home,
    search,
    settings,
)
from postroom.web.admin.queues import apps, queues
from postroom.web.requests.views import View

ADMIN_VIEWS: tuple[View, ...] = (
    *login.VIEWS,
    *forgotten.VIEWS,
    *account.VIEWS,
    *users.VIEWS,
    *api_keys.VIEWS,
    *home.VIEWS,
    *lists.VIEWS,
    *signup_page.VIEWS,
    *brand.VIEWS,
    *fields.VIEWS,
    *segments.VIEWS,
    *imports.VIEWS,
    *subscriber_index.VIEWS,
    *subscribers.VIEWS,
    *message_index.VIEWS,
    *audience_choice.VIEWS,
    *editor.VIEWS,  # before message_details: its paths would match `/messages/{ref}`
    *canvas.VIEWS,
    *formats.VIEWS,
    *draft_actions.VIEWS,
    *attachments.VIEWS,
    *versions.VIEWS,
    *preflight.VIEWS,
    *previews.VIEWS,
    *publishing.VIEWS,
    *recipients.VIEWS,
    *templates.VIEWS,
    *message_details.VIEWS,
    *pictures.VIEWS,
    *address_trace.VIEWS,
    *queues.VIEWS,
    *apps.VIEWS,
    *outbox.VIEWS,
    *explorer.VIEWS,
    *activity.VIEWS,
    *settings.VIEWS,
    *embed.VIEWS,
    *search.VIEWS,
    *components.VIEWS,
)
