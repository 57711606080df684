"""Signing in, one's own account, users, API keys and the audit log."""

from __future__ import annotations

from postroom.web.admin.accounts import account as own_account
from postroom.web.admin.accounts import api_keys, users
from postroom.web.admin.accounts import login as sign_in
from postroom.web.requests.views import View

ACCOUNT_VIEWS: tuple[View, ...] = (
    *sign_in.VIEWS,
    *own_account.VIEWS,
    *users.VIEWS,
    *api_keys.VIEWS,
)
