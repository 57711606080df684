"""Public pages: sign up, confirm, preferences, unsubscribe; messages on the web, and their
pictures."""

from __future__ import annotations

from postroom.web.public import (
    archive,
    branding,
    confirm_changes,
    embedding,
    imported_links,
    links,
    media,
    preferences,
    subscribe,
)
from postroom.web.requests.views import View

PUBLIC_VIEWS: tuple[View, ...] = (
    *subscribe.VIEWS,
    *embedding.VIEWS,
    *links.VIEWS,
    *confirm_changes.VIEWS,
    *imported_links.VIEWS,
    *preferences.VIEWS,
    *branding.VIEWS,
    *media.VIEWS,
    *archive.VIEWS,
)
