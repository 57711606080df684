"""All providers whose webhooks Postroom understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.domain.messages.bounces import BounceSource
from postroom.services.audience.bounces.providers.amazon_ses import AmazonSes
from postroom.services.audience.bounces.providers.azure_events import AzureEvents
from postroom.services.audience.bounces.providers.hook_requests import ProviderHook
from postroom.services.audience.bounces.providers.mailgun_events import MailgunEvents
from postroom.services.audience.bounces.providers.sendgrid_events import SendgridEvents
from postroom.services.audience.bounces.providers.shared_secret_events import (
    BrevoEvents,
    PostmarkEvents,
    SparkpostEvents,
)

HOOKS: Final[Mapping[BounceSource, ProviderHook]] = {
    each.source: each
    for each in (
        AmazonSes(),
        SendgridEvents(),
        MailgunEvents(),
        PostmarkEvents(),
        BrevoEvents(),
        SparkpostEvents(),
        AzureEvents(),
    )
}
