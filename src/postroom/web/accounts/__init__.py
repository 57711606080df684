"""Logging in, one's own account, and who else may come in: users and API keys."""

from __future__ import annotations

from postroom.web.accounts import entering, keys, own, users
from postroom.web.routing import Page

ACCOUNT_PAGES: tuple[Page, ...] = (*entering.PAGES, *own.PAGES, *users.PAGES, *keys.PAGES)
