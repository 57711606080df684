"""Hostile text in queries and paths: no fault, no markup. For forms see `test_hostile_forms.py`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx2

from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from tests.web.site import Site, Visitor, problem_in

MARKUP = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
HOSTILE = [
    MARKUP,
    "' OR 1=1; --",
    "\x00\x01\x1f\x7f",
    "a\r\nSet-Cookie: x=1",
    "\u202egnp.exe",
    "\ufffe\U0001ffff",
    "{{ 98765 * 43210 }}{% raw %}",
    "../../../etc/passwd",
    "%00%ff%2e%2e/",
    "e\u0301" * 300,
]
QUERIES: dict[str, tuple[str, ...]] = {
    "/lists": ("q", "after"),
    "/lists/news/subscribers": ("q", "after", "state"),
    "/messages": ("status", "list", "after"),
    "/messages/new": ("list", "like"),
    "/archive": ("before",),
    "/messages/{ref}/emails": ("q", "outcome", "after"),
    "/users/details": ("email",),
    "/audit": ("who", "day"),
    "/keys/revoke": ("id",),
}
PLACES = (
    "/lists/{}",
    "/lists/{}/subscribers",
    "/lists/news/subscribers/{}",
    "/lists/news/subscribers/{}/delete",
    "/lists/news/import/{}",
    "/lists/{}/export",
    "/messages/{}",
    "/messages/{}/emails",
    "/messages/{}/events",
    "/messages/{}/preview",
)


def check(response: httpx2.Response, where: str) -> None:
    assert response.status_code < 500, (where, problem_in(response))
    assert "x" not in response.cookies, where
    if response.headers.get("content-type", "").startswith("text/html"):
        assert MARKUP not in response.text, where
        assert "<img src=x" not in response.text, where
        assert str(98765 * 43210) not in response.text, where


async def prepared(site: Site) -> tuple[Visitor, str]:
    await site.services.lists.create("news", "News", "news@contoso.example")
    await site.services.subscriptions.add("news", "ann@example.com")
    at = datetime.now(UTC) + timedelta(days=1)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    return await site.user(Role.ADMINISTRATOR), message.ref


async def test_hostile_text_in_each_query_and_path(site: Site) -> None:
    admin, ref = await prepared(site)
    for path, names in QUERIES.items():
        for name in names:
            for text in HOSTILE:
                where = f"{path.replace('{ref}', ref)}?{name}={quote(text)}"
                check(await admin.get(where), where)
    for place in PLACES:
        for text in HOSTILE:
            where = place.format(quote(text, safe=""))
            check(await admin.get(where), where)
