"""Hostile text in every form field, query parameter and path, as raw bytes over HTTP.

Forms are found on the pages, query parameters by watching what a page reads, and paths in the list
of views: new ones are tested without being named here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from html import unescape
from urllib.parse import parse_qsl, quote, quote_from_bytes

import httpx2
import pytest

from postroom.web.app import VIEWS
from postroom.web.requests import sudo
from tests.web.forms import Form, forms_in
from tests.web.query_parameters import recorded_parameters
from tests.web.site import Site, Visitor, problem_in
from tests.web.world import EXAMPLES, FILES, LIST, World, furnished

MARKER = b"<x-marker>"
SHORT = (
    b"../../etc/passwd\\..\\\"'; DROP TABLE subscribers; -- >"
    + MARKER
    + b"<script>alert(1)</script>{{ 98765 * 43210 }}{% raw %}{0.__class__}%(email)s%s%00",
    b"\x00\x01\x08\x1b[31m\x7f" + MARKER,
    b"a\r\nX-Injected: yes\r\nSet-Cookie: injected=1\r\n\r\n" + MARKER,
    ("\u202egnp.exe\u2066\ufeff\ufffe\U0001ffff" + "e\u0301" * 300).encode() + MARKER,
    b"\xed\xa0\x80\xed\xb0\x80\xff\xfe\xc3\x28" + MARKER,  # surrogates, and no UTF-8 at all
)
LARGE = MARKER + b"x" * 1_000_000
_ETAGS = re.compile(r'name="etag" value="([^"]*)"')
_BORDER = b"----a-border-of-the-tests"
# What is typed into the other fields, so that the hostile one is looked at.
_ORDINARY = {
    "list": LIST, "subject": "Hello", "text": "Hi", "when": "later", "day": "2099-01-01",
    "clock": "09:00", "test_to": "me@example.com", "decision": "sent", "email": "new@example.com",
    "name": "fresh", "description": "Fresh", "from_address": "fresh@example.com", "body": "x",
    "new_password": "a few words are good", "again": "a few words are good", "reach": "everything",
}  # fmt: skip


def check(response: httpx2.Response, where: str) -> None:
    assert response.status_code < 500, (where, response.status_code, problem_in(response))
    assert "x-injected" not in response.headers, where
    assert "injected" not in response.headers.get("set-cookie", ""), where
    assert b"\r" not in response.headers.get("location", "").encode(), where
    is_page = response.headers.get("content-type", "").startswith("text/html")
    if is_page and "sandbox" not in response.headers["content-security-policy"]:
        for raw in (MARKER, b"<script>alert", str(98765 * 43210).encode()):
            assert raw not in response.content, (where, problem_in(response))


def sent(form: Form, replaced: str, value: bytes) -> list[tuple[str, bytes]]:
    """The form as it was found, with one field replaced and the empty ones filled in.

    Not on the pages for everyone: a sign-up that succeeds takes its time, to tell nothing by it.
    """
    is_ours = any(name == "csrf" for name, _ in form.fields)
    others = [
        (name, (text or (_ORDINARY.get(name, "") if is_ours else "")).encode())
        for name, text in form.fields
        if name != replaced
    ]
    return [*others, (replaced, value)]


@cache
def quoted(value: bytes) -> bytes:
    return quote_from_bytes(value, safe="").encode()


def urlencoded(fields: list[tuple[str, bytes]]) -> bytes:
    return b"&".join(quote(name).encode() + b"=" + quoted(value) for name, value in fields)


def multipart(fields: list[tuple[str, bytes]], file: str) -> bytes:
    """The same with one field as a file, whose name is as hostile as its content."""
    parts = []
    for name, value in fields:
        head = f'--{_BORDER.decode()}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        if name == file:
            shown = re.sub(rb'[\r\n"]', b"", value)[:200]
            head += b'; filename="' + shown + b'"\r\nContent-Type: text/html'
        parts.append(head + b"\r\n\r\n" + value + b"\r\n")
    return b"".join(parts) + b"--" + _BORDER + b"--\r\n"


async def send(visitor: Visitor, form: Form, field: str, value: bytes) -> httpx2.Response:
    fields = sent(form, field, value)
    if form.method == "get":
        return await visitor.get(f"{form.action}?{urlencoded(fields).decode()}")
    if form.files:
        kind = f"multipart/form-data; boundary={_BORDER.decode()}"
        content = multipart(fields, field if field in form.files else "")
    else:
        kind, content = "application/x-www-form-urlencoded", urlencoded(fields)
    return await visitor.http.post(form.action, content=content, headers={"Content-Type": kind})


@dataclass
class Place:
    """A page with a form, and a visitor who may send it."""

    visitor: Visitor
    address: str
    form: Form

    async def send(self, field: str, value: bytes) -> httpx2.Response:
        session = self.visitor.session
        try:
            response = await send(self.visitor, self.form, field, value)
        finally:
            self.visitor.use(session)  # some forms log in
        if response.status_code < 400 and "etag" in self.form.names:
            await self._look_again()
        return response

    def told_apart(self, field: str) -> tuple[str, ...]:
        """Return what the site can tell apart of a field. The editors of several messages send the
        same to addresses that name no message: those of previews, tests and new messages."""
        format = dict(self.form.fields).get("format")
        return (self.form.kind, field) if format is None else (self.form.action, format, field)

    async def _look_again(self) -> None:
        """What was saved has another ETag; what is gone is still asked for as it was."""
        page = await self.visitor.get(self.address)
        found = set(_ETAGS.findall(page.text))
        if len(found) == 1:  # as on most pages, and thousands of times: it need not be parsed
            etag = unescape(found.pop())
            fields = self.form.fields
            fields[:] = [(name, etag if name == "etag" else text) for name, text in fields]
            return
        forms = {form.kind: form for form in forms_in(page.text, self.address)}
        self.form = forms.get(self.form.kind, self.form)


async def all_forms(world: World) -> list[Place]:
    """Every kind of form once."""
    found: dict[str, Place] = {}
    for visitor in (world.site.visitor(), world.admin):
        for address in world.all_addresses():
            page = await visitor.get(address)
            for form in forms_in(page.text, address) if page.status_code < 300 else ():
                found.setdefault(form.kind, Place(visitor, address, form))
    return list(found.values())


@pytest.mark.timeout(1200)  # thousands of requests: a limit for what hangs
async def test_hostile_text_in_every_field_of_every_form(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sudo, "LASTS", timedelta(hours=2))  # a busy machine takes over ten minutes
    world = await furnished(site)
    places = await all_forms(world)
    assert len(places) > 50, "the forms are not found any more"
    forbidden: Counter[str] = Counter()
    tried: set[tuple[str, ...]] = set()
    for place in places:
        for field in place.form.names:
            if (what := place.told_apart(field)) in tried:
                continue
            tried.add(what)
            for value in SHORT if place.form.method == "get" else (*SHORT, LARGE):
                response = await place.send(field, value)
                check(response, f"{place.form.kind}: {field}: {value[:30]!r}")
                forbidden[place.form.kind] += response.status_code == 403
    assert not +forbidden, "some forms did not come so far that their fields were read"
    # Whatever was taken is shown on one page or another: there, too, it is only text.
    for address in [*world.all_addresses(), *(f"/lists/{name}" for name in await lists_of(site))]:
        check(await world.admin.get(address), address)


async def lists_of(site: Site) -> list[str]:
    return [quote(name) for name in await site.services.lists.names()]


async def test_hostile_text_in_every_query_parameter_of_every_page(site: Site) -> None:
    world = await furnished(site)
    tried: set[str] = set()
    for path in (*EXAMPLES, *FILES):
        address, *others = world.addresses(path)
        with recorded_parameters() as names:
            for each in (address, *others):
                await world.admin.get(each)
        start, _, query = address.partition("?")
        for name in names:
            given = [(key, value) for key, value in parse_qsl(query) if key != name]
            for value in SHORT:
                fields = [*((key, text.encode()) for key, text in given), (name, value)]
                response = await world.admin.get(f"{start}?{urlencoded(fields).decode()}")
                check(response, f"{path}: {name}: {value[:30]!r}")
        tried |= names
    assert {"q", "after", "sort", "id", "list", "lang", "email", "prefix"} <= tried


async def test_hostile_text_in_every_part_of_every_path(site: Site) -> None:
    world = await furnished(site)
    token = {"X-CSRF-Token": await world.admin.csrf()}
    for page in VIEWS:
        places = re.findall(r"\{[^}]*\}", page.path)
        for place in places:
            others = [each for each in places if each != place]
            for value in SHORT:
                path = page.path.replace(place, quote_from_bytes(value, safe=""))
                for other in others:
                    path = path.replace(other, world.names["list"])
                for method in page.methods:
                    response = await world.admin.http.request(method, path, headers=token)
                    check(response, f"{method} {page.path}: {value[:30]!r}")
