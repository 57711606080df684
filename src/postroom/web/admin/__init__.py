"""Pages for the team: administrators, editors and viewers."""

from __future__ import annotations

from postroom.web.admin.accounts import account, api_keys, forgotten, groups, login, users
from postroom.web.admin.audience import (
    brand,
    embed,
    fields,
    list_access,
    list_emails,
    lists,
    segments,
    signup_page,
)
from postroom.web.admin.audience.subscribers import (
    address_trace,
    imports,
    list_membership,
    listmonk_import,
    subscriber_editing,
    subscriber_index,
    suppressions,
)
from postroom.web.admin.configuration import alert_setup, bounce_setup, mail_server
from postroom.web.admin.messages import (
    ab_test_page,
    bounces,
    message_details,
    message_index,
    message_results_page,
    outbox,
    pictures,
    publishing,
    recipients,
    sending_domains,
    templates,
)
from postroom.web.admin.messages.drafting import (
    attachments,
    audience_choice,
    canvas,
    draft_actions,
    editor,
    formats,
    preflight,
    previews,
    versions,
)
from postroom.web.admin.operations import (
    activity,
    components,
    explorer,
    home,
    providers,
    search,
    settings,
    warm_ups,
)
from postroom.web.admin.queues import apps, queues
from postroom.web.requests.views import View

ADMIN_VIEWS: tuple[View, ...] = (
    *login.VIEWS,
    *forgotten.VIEWS,
    *account.VIEWS,
    *users.VIEWS,
    *groups.VIEWS,
    *api_keys.VIEWS,
    *home.VIEWS,
    *lists.VIEWS,
    *list_access.VIEWS,
    *signup_page.VIEWS,
    *list_emails.VIEWS,
    *brand.VIEWS,
    *fields.VIEWS,
    *segments.VIEWS,
    *listmonk_import.VIEWS,
    *imports.VIEWS,
    *subscriber_index.VIEWS,
    *list_membership.VIEWS,  # before the page of a subscriber, whose address matches any path
    *subscriber_editing.VIEWS,
    *suppressions.VIEWS,
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
    *bounces.VIEWS,
    *message_results_page.VIEWS,
    *templates.VIEWS,
    *ab_test_page.VIEWS,
    *message_details.VIEWS,
    *pictures.VIEWS,
    *address_trace.VIEWS,
    *queues.VIEWS,
    *apps.VIEWS,
    *outbox.VIEWS,
    *explorer.VIEWS,
    *activity.VIEWS,
    *sending_domains.VIEWS,
    *providers.VIEWS,
    *warm_ups.VIEWS,
    *settings.VIEWS,
    *mail_server.VIEWS,
    *bounce_setup.VIEWS,
    *alert_setup.VIEWS,
    *embed.VIEWS,
    *search.VIEWS,
    *components.VIEWS,
)
