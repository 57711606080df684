"""Whatever is typed into the forms for lists, subscribers and messages: no fault, no markup."""

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
    "x" * 1_000_000,
    "{{ 98765 * 43210 }}{% raw %}",
    "../../../etc/passwd",
    "%00%ff%2e%2e/",
    "e\u0301" * 300,
]
FORMS: dict[str, tuple[str, ...]] = {
    "/lists/new": ("name", "description", "from_address", "public"),
    "/lists/news/edit": ("description", "from_address", "etag"),
    "/lists/news/subscribers/add": ("email", "verified"),
    "/lists/news/subscribers/ann@example.com": ("email", "verified", "blocked", "etag"),
    "/lists/news/subscribers/ann@example.com/move": ("to_list",),
    "/lists/news/bulk": ("action", "email", "state"),
    "/lists/news/import": ("file", "encoding", "verified", "even_unsubscribed"),
    "/messages/new": (
        *("list", "subject", "html", "text", "when", "day", "clock", "zone", "key", "sure"),
    ),
    "/messages/preview/text": ("list", "subject", "html", "text", "ref"),
    "/messages/test": ("list", "subject", "html", "text", "test_to", "ref"),
    "/messages/{ref}/edit": ("list", "subject", "html", "day", "clock", "zone", "etag"),
    "/messages/{ref}/pause": ("reason",),
    "/messages/{ref}/emails/decide": ("decision", "email"),
}
QUERIES: dict[str, tuple[str, ...]] = {
    "/lists": ("q", "after"),
    "/lists/news/subscribers": ("q", "after", "state"),
    "/messages": ("status", "list", "after"),
    "/messages/new": ("list", "like"),
    "/archive": ("before",),
    "/messages/{ref}/emails": ("q", "outcome", "after"),
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
_ORDINARY = {
    "list": "news", "subject": "Hello", "html": "<p>Hi</p>", "when": "later", "day": "2099-01-01",
    "clock": "09:00", "zone": "UTC", "test_to": "me@example.com", "decision": "sent",
    "action": "verify", "email": "ann@example.com", "description": "News",
    "from_address": "news@contoso.example", "name": "fresh",
}  # fmt: skip


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
    return await site.user(Role.EDITOR), message.ref


async def test_hostile_text_in_each_field_of_each_form(site: Site) -> None:
    editor, ref = await prepared(site)
    for path, fields in FORMS.items():
        where = path.replace("{ref}", ref)
        ordinary = {name: _ORDINARY[name] for name in fields if name in _ORDINARY}
        for field in fields:
            for text in HOSTILE:
                response = await editor.post(where, {**ordinary, field: text})
                check(response, f"{path} {field} {text[:20]!r}")


async def test_hostile_text_in_each_query_and_path(site: Site) -> None:
    editor, ref = await prepared(site)
    short = [text for text in HOSTILE if len(text) < 10_000]
    for path, names in QUERIES.items():
        for name in names:
            for text in short:
                where = f"{path.replace('{ref}', ref)}?{name}={quote(text)}"
                check(await editor.get(where), where)
    for place in PLACES:
        for text in short:
            where = place.format(quote(text, safe=""))
            check(await editor.get(where), where)
