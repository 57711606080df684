"""Pages for everyone: sign up, confirm, leave."""

from __future__ import annotations

from postroom.web.public import branding, links, signing_up
from postroom.web.routing import Page

PUBLIC_PAGES: tuple[Page, ...] = (*signing_up.PAGES, *links.PAGES, *branding.PAGES)
