"""Public pages: sign up, confirm, unsubscribe; and the pictures of messages."""

from __future__ import annotations

from postroom.web.public import branding, links, media, subscribe
from postroom.web.requests.views import View

PUBLIC_VIEWS: tuple[View, ...] = (
    *subscribe.VIEWS,
    *links.VIEWS,
    *branding.VIEWS,
    *media.VIEWS,
)
