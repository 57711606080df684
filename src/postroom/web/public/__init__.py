"""Public pages: sign up, confirm, unsubscribe."""

from __future__ import annotations

from postroom.web.public import branding, links, subscribe
from postroom.web.requests.views import View

PUBLIC_VIEWS: tuple[View, ...] = (*subscribe.VIEWS, *links.VIEWS, *branding.VIEWS)
