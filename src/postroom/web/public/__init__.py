"""Public pages: sign up, confirm, preferences, unsubscribe; messages on the web, and their
pictures."""

from __future__ import annotations

from postroom.web.public import (
    archive,
    branding,
    confirm_changes,
    imported_links,
    links,
    media,
    preferences,
)
from postroom.web.public.signup import snippets, subscribe
from postroom.web.requests.views import View

PUBLIC_VIEWS: tuple[View, ...] = (
    *subscribe.VIEWS,
    *snippets.VIEWS,
    *links.VIEWS,
    *confirm_changes.VIEWS,
    *imported_links.VIEWS,
    *preferences.VIEWS,
    *branding.VIEWS,
    *media.VIEWS,
    *archive.VIEWS,
)
