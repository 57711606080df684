"""All providers whose webhooks Postroom understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.services.audience.bounces.providers.amazon_ses import AmazonSes
from postroom.services.audience.bounces.providers.hook_requests import ProviderHook
from postroom.services.audience.bounces.providers.shared_secret_events import (
    AzureEvents,
    BrevoEvents,
    PostmarkEvents,
    SparkpostEvents,
)
from postroom.services.audience.bounces.providers.signed_events import MailgunEvents, SendgridEvents

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
