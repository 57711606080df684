"""Pages for everyone: sign up, confirm, leave."""

from __future__ import annotations

from postroom.web.public import branding, links, subscribe
from postroom.web.requests.routing import Page

PUBLIC_PAGES: tuple[Page, ...] = (*subscribe.PAGES, *links.PAGES, *branding.PAGES)
