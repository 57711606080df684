"""Telling the administrator what cannot wait until somebody looks at the events."""

from __future__ import annotations

from postroom.alerts.channels import Channel, MailChannel, NotTold, WebhookChannel
from postroom.alerts.watching import Alerts

__all__ = ["Alerts", "Channel", "MailChannel", "NotTold", "WebhookChannel"]
