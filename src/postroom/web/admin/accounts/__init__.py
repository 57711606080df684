"""Signing in, one's own account, users, API keys and the audit log."""

from __future__ import annotations

from postroom.web.admin.accounts import api_keys, own_account, sign_in, users
from postroom.web.requests.routing import Page

ACCOUNT_PAGES: tuple[Page, ...] = (
    *sign_in.PAGES,
    *own_account.PAGES,
    *users.PAGES,
    *api_keys.PAGES,
)
