"""Whatever strangers send: a friendly page, nothing unescaped, no header of theirs, no 5xx."""

import asyncio

import pytest

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from tests.web.forms import forms_in
from tests.web.query_parameters import recorded_parameters
from tests.web.site import Site, Visitor

HOSTILE = {
    "control": "".join(map(chr, range(32))) + "\x7f\x85",
    "long": "x" * 1_000_000,
    "long address": "a" * 60_000 + "@example.com",
    "html": "\"'><script>alert(1)</script>{{ 'q' * 6 }}{% raw %}%(email)s%s",
    "sql": "'; DROP TABLE t_mailinglist; --",
    "crlf": "a@example.com\r\nSet-Cookie: evil=1\r\n\r\n<h1>evil</h1>",
    "right to left": "\u202eexe.moc@elgoog\u2066\u200f",
    "half a pair": "%ED%A0%80",
    "not utf-8": "%FF%FE%C0%80",
    "nul": "%00",
    "path": "../../../../etc/passwd",
    "format": "{0.__class__}",
}
# What is percent-encoded already, and what goes as it is.
RAW = ("half a pair", "not utf-8", "nul")
FIELDS = [
    Field(kind, kind, public=True, choices=("A", "B") if "choice" in kind else ())
    for kind in FieldType
]
ONE_CLICK = "List-Unsubscribe"  # sent by mail programs (RFC 8058), in no form


async def fields_of(visitor: Visitor, address: str) -> set[str]:
    """Return the fields of the forms at this address, and the query parameters that it reads."""
    with recorded_parameters() as names:
        page = await visitor.get(address)
    for form in forms_in(page.text, address):
        names.update(form.names)
    assert names, address
    return names | {ONE_CLICK}


async def test_hostile_text_in_every_field_gets_a_friendly_page(site: Site) -> None:
    await site.services.lists.create("contoso1", "Contoso", "news@contoso.example")
    await site.services.fields.declare("contoso1", FIELDS)
    ann = await site.services.subscriptions.add("contoso1", "ann@example.com", verified=True)
    visitor = site.visitor()
    good = {"email": "b@example.com", "list": "contoso1", "id": ann.guid, "listName": "contoso1"}
    link = f"id={ann.guid}&listName=contoso1"
    names = {
        "subscribe": await fields_of(visitor, "/subscribe?list=contoso1"),
        "confirm": {"action", *await fields_of(visitor, f"/confirm?{link}")},
        "unsubscribe": await fields_of(visitor, f"/unsubscribe?{link}"),
        "preferences": await fields_of(visitor, f"/preferences?{link}"),
        "preferences/address": {"token", "listName"},
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for kind, value in HOSTILE.items():
        calls = []
        for page, fields_here in names.items():
            for field in fields_here:
                if kind in RAW:
                    rest = "&".join(f"{k}={v}" for k, v in good.items() if k != field)
                    query = f"{field}={value}&{rest}"
                    calls.append(visitor.http.get(f"/{page}?{query}"))
                    calls.append(visitor.http.post(f"/{page}", content=query, headers=headers))
                    continue
                fields = {**good, field: value}
                if len(value) < 50_000:
                    calls.append(visitor.http.get(f"/{page}", params=fields))
                calls.append(visitor.http.post(f"/{page}", data=fields))
        for answer in await asyncio.gather(*calls):
            assert answer.status_code < 500, (kind, answer.text)
            assert answer.status_code in (200, 404, 413, 422), kind
            assert "evil" not in answer.headers.get("set-cookie", "")
            for unescaped in ("<script>alert", "<h1>evil", "\u202e", "\x00", "\x1b", "qqqqqq"):
                assert unescaped not in answer.text, kind


NO_FORMS: list[tuple[bytes, str]] = [
    (b"", "multipart/form-data"),
    (b"--x\r\nnonsense", "multipart/form-data; boundary=x"),
    (b"\xff\xfe\x00", "application/x-www-form-urlencoded; charset=\xff"),
    (b'{"action": "confirm"}', "application/json"),
    (b"action=confirm" + b"&a=b" * 2000, "application/x-www-form-urlencoded"),
    (
        b'--x\r\nContent-Disposition: form-data; name="action"; filename="a"\r\n\r\n'
        b"confirm\r\n--x--\r\n",
        "multipart/form-data; boundary=x",
    ),
]


async def test_a_body_that_is_not_a_form_changes_nothing(site: Site) -> None:
    await site.services.lists.create("contoso1", "Contoso", "news@contoso.example")
    ann = await site.services.subscriptions.add("contoso1", "ann@example.com")
    visitor = site.visitor()
    for content, kind in NO_FORMS:
        for page in ("subscribe", "unsubscribe"):
            answer = await visitor.http.post(
                f"/{page}?id={ann.guid}&listName=contoso1&list=contoso1",
                content=content,
                headers={b"Content-Type": kind.encode("latin-1")},
            )
            assert answer.status_code in (200, 400, 422), kind
        assert await site.services.subscriptions.by_guid("contoso1", ann.guid) == ann, kind


@pytest.mark.parametrize("charset", ["punycode", "undefined", "utf-7", "UTF-16", '"idna"'])
async def test_parts_in_another_encoding_than_utf_8_are_refused(site: Site, charset: str) -> None:
    await site.services.lists.create("contoso1", "Contoso", "news@contoso.example")
    ann = await site.services.subscriptions.add("contoso1", "ann@example.com")
    visitor = site.visitor()
    link = f"id={ann.guid}&listName=contoso1"
    kind = "multipart/form-data; boundary=x; charset="
    part = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--x--\r\n'
    for path in (f"/unsubscribe?{link}", f"/confirm?{link}", "/subscribe", "/login"):
        answer = await visitor.http.post(
            path, content=part % (b"email", b"+2AA-"), headers={"Content-Type": kind + charset}
        )
        assert answer.status_code == 415, path
        assert "Nothing was changed." in answer.text
    assert await site.services.subscriptions.by_guid("contoso1", ann.guid) == ann
    for same in ("UTF-8", "utf8", '"utf-8"'):
        answer = await visitor.http.post(
            f"/confirm?{link}",
            content=part % (b"email", "é".encode()),
            headers={"Content-Type": kind + same},
        )
        assert answer.status_code == 200, same
