"""The trace of an address and the outbox, over HTTP."""

from __future__ import annotations

import html
import re
import uuid
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from urllib.parse import quote

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import EmailState, PageEmails
from postroom.services import entities
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.page_rows import Page, page_entity
from tests.web.site import Site, running_site

NOW = datetime.now(UTC)
BODIES = NewBodies("<p>Hello</p>", "Hello")
HOSTILE = [
    "<script>alert(1)</script>",
    "' OR 1=1; --",
    '"><img src=x onerror=alert(1)>',
    "\x00\x01\x02",
    "a\r\nSet-Cookie: x=1",
    "‮elif",
    "x" * 20_000,
    "{{ 7 * 7 }}",
    "../../../etc/passwd",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
]


async def email_of(site: Site, ref: str, address: str, outcome: str, reply: str) -> None:
    """One page with one email, as a sender leaves it."""
    message = await site.services.messages.get(ref)
    guids = {Address(address): SubscriberGuid(str(uuid.uuid4()))}
    state = EmailState(EmailOutcome(outcome), reply, tries=2, at=NOW)
    emails = PageEmails.planned(guids).settled({0: state})
    page = Page(message.day, message.ref, 0, emails)
    await site.services.store.table(entities.PAGES).upsert(page_entity(page))


# -- trace ----------------------------------------------------------------------------------------


async def test_a_trace_shows_everything_from_sign_up_to_each_email(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    services = site.services
    await services.lists.create("news", "News", "news@example.com")
    await services.subscriptions.add("news", "alice@example.com", verified=True)
    message = await services.messages.create("news", "Hello <3", BODIES, NOW)
    await email_of(site, message.ref, "alice@example.com", "refused", "550 <no> such user")
    shown = (await user.get("/trace?email=%20alice@EXAMPLE.com")).text
    for text in ("added as confirmed", "Hello &lt;3", "refused", "tried 2 times"):
        assert text in shown, text
    assert "550 &lt;no&gt; such user" in shown
    assert "No older emails." in shown
    nobody = (await user.get("/trace?email=bob@example.com")).text
    assert "is not on any list" in nobody
    assert "No emails have been sent" in nobody


async def test_a_trace_shows_unsubscribing(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    services = site.services
    await services.lists.create("news", "News", "news@example.com")
    ann = await services.subscriptions.add("news", "ann@example.com", verified=True)
    await services.subscriptions.unsubscribe("news", ann.guid)
    shown = (await user.get("/trace?email=ann@example.com")).text
    assert "is not on any list" in shown
    assert '<a href="/lists/news">news</a>: unsubscribed' in shown


async def test_a_trace_goes_through_many_messages_in_parts(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    services = site.services
    await services.lists.create("news", "News", "news@example.com")
    first = await services.messages.create("news", "The first", BODIES, NOW - timedelta(days=9))
    await email_of(site, first.ref, "alice@example.com", "accepted", "250 ok")
    for number in range(25):
        await services.messages.create("news", f"{number}", BODIES, NOW - timedelta(hours=number))
    shown = (await user.get("/trace?email=alice@example.com")).text
    assert "The first" not in shown
    further = re.search(r'hx-get="(/trace[^"]*before[^"]*)"', shown)
    assert further is not None
    part = await user.get(html.unescape(further[1]), headers={"HX-Request": "true"})
    assert "The first" in part.text
    assert "<html" not in part.text


async def test_a_trace_of_nonsense_says_what_is_wrong(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    for text, field in product(HOSTILE, ("email", "before")):
        query = {"email": "alice@example.com", field: text}
        shown = await user.http.get("/trace", params=query)
        assert shown.status_code in (200, 422), (field, text)
        assert "<script>alert" not in shown.text
        assert "<img src=x" not in shown.text


# -- outbox ---------------------------------------------------------------------------------------

MAIL = (
    "From: news@example.com\r\nTo: alice@example.com\r\nSubject: Hi <b>there</b>\r\n"
    "MIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n"
    "--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    "Go to http://localhost:8420/confirm?id=1&listName=x. <script>alert(1)</script>\r\n"
    "--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    "<p>Hello <a href='http://localhost:8420/x'>go</a><script>alert(2)</script></p>\r\n--b--\r\n"
)


def keep(site: Site, number: int, address: str, mail: str = MAIL) -> str:
    folder = site.context.settings.storage.data / "outbox"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"20261115T08{number // 60:02}{number % 60:02}Z-{address}-{number:016x}.eml"
    (folder / name).write_bytes(mail.encode())
    return name


async def test_the_outbox_shows_its_emails_newest_first_in_pages(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    assert "The outbox is empty" in (await user.get("/outbox")).text
    names = [keep(site, number, f"a{number}@example.com") for number in range(60)]
    shown = (await user.get("/outbox")).text
    assert "Hi &lt;b&gt;there&lt;/b&gt;" in shown
    assert shown.index("a59@example.com") < shown.index("a58@example.com")
    assert "a9@example.com" not in shown
    further = re.search(r'href="([^"]*after=[^"]*)" rel="next"', shown)
    assert further is not None
    assert "a9@example.com" in (await user.get(html.unescape(further[1]))).text
    only = (await user.get("/outbox?q=A7@example.com")).text
    assert only.count("/outbox/2026") == 1
    assert quote(names[7]) in only


async def test_emails_of_the_outbox_are_deleted_and_restored(site: Site) -> None:
    user = await site.user(Role.EDITOR)
    names = [keep(site, number, f"a{number}@example.com") for number in range(3)]
    back = "/outbox?q=example"
    gone = await user.post("/outbox/delete", {"name": names[:2], "back": back})
    assert gone.headers["location"] == back
    shown = (await user.get(back)).text
    assert "2 emails deleted." in shown
    assert shown.count("/outbox/2026") == 1
    batch = re.search(r'name="batch" value="(\w+)"', shown)
    assert batch is not None
    restored = await user.post("/outbox/restore", {"batch": batch[1], "back": "//evil.example"})
    assert restored.headers["location"] == "/outbox"
    shown = (await user.get("/outbox")).text
    assert "2 emails restored." in shown
    assert shown.count("/outbox/2026") == 3
    await user.post("/outbox/restore", {"batch": batch[1]})
    assert "too late to restore" in (await user.get("/outbox")).text
    assert (await user.post("/outbox/delete", {"name": "../secret.key"})).status_code == 422

    await user.post("/outbox/delete", {})
    assert "No emails selected." in (await user.get("/outbox")).text
    assert "cannot be restored" in (await user.get("/outbox/delete-all")).text
    await user.post("/outbox/delete-all", {})
    shown = (await user.get("/outbox")).text
    assert "3 emails deleted." in shown
    assert "The outbox is empty" in shown
    newest = (await site.services.audit.newest()).entries[0]
    assert (newest.what, newest.on) == ("deleted all emails from the outbox", "3 emails")


async def test_a_viewer_deletes_nothing_from_the_outbox(site: Site) -> None:
    viewer = await site.user(Role.VIEWER)
    name = keep(site, 1, "alice@example.com")
    for page in ("/outbox", f"/outbox/{name}"):
        assert "/outbox/delete" not in (await viewer.get(page)).text
    for action in ("delete", "delete-all", "restore"):
        refused = await viewer.post(f"/outbox/{action}", {"name": name})
        assert refused.status_code == 403
    assert "alice@example.com" in (await viewer.get("/outbox")).text


async def test_a_search_of_the_outbox_that_finds_nothing_says_so(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    keep(site, 1, "alice@example.com")
    assert "alice@example.com" in (await user.get("/outbox?q=THERE")).text
    shown = (await user.get("/outbox?q=%3Cb%3Enobody")).text
    assert "No emails match “&lt;b&gt;nobody”" in shown


async def test_an_email_is_shown_in_a_frame_that_can_do_nothing(site: Site) -> None:
    user = await site.user()
    name = keep(site, 1, "alice@example.com")
    shown = (await user.get(f"/outbox/{name}")).text
    link = "http://localhost:8420/confirm?id=1&amp;listName=x"
    assert f'<a href="{link}" target="_blank" rel="noopener noreferrer">' in shown
    assert "<script>alert" not in shown
    assert 'sandbox="allow-popups allow-popups-to-escape-sandbox"' in shown
    framed = await user.get(f"/outbox/{name}/html")
    policy = framed.headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "allow-scripts" not in policy
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert framed.headers["x-frame-options"] == "SAMEORIGIN"
    own = f"{site.context.base_url}/media/ {site.context.base_url}/logo/"
    assert f"img-src data: {own};" in policy, "nothing is fetched from elsewhere"
    assert framed.text.startswith('<base target="_blank">')
    download = await user.get(f"/outbox/{name}/download")
    assert download.content == MAIL.encode()
    assert download.headers["content-disposition"] == f'attachment; filename="{name}"'


async def test_only_emails_of_the_outbox_can_be_read(site: Site) -> None:
    user = await site.user()
    keep(site, 1, "alice@example.com")
    assert (await user.get("/outbox/20261115T080000Z-x-0000000000000000.eml")).status_code == 404
    for name in ("secret.key", "..%2Fsecret.key", "%00", "x" * 5000):
        for part in ("", "/html", "/download"):
            answer = await user.get(f"/outbox/{name}{part}")
            assert answer.status_code in (404, 422), (name, part)


async def test_a_real_transport_keeps_no_emails_here(tmp_path: Path) -> None:
    settings = {"transport": "smtp://user:hush@mail.example.com"}
    async with running_site(tmp_path, settings) as site:
        user = await site.user(Role.VIEWER)
        shown = (await user.get("/outbox")).text
        assert "The outbox is not in use" in shown
        assert "hush" not in shown
        assert (await user.get("/outbox/x.eml")).status_code == 404


async def test_an_address_must_be_valid(site: Site) -> None:
    """What the trace links to is the subscriber, however the address is written."""
    user = await site.user(Role.VIEWER)
    await site.services.lists.create("news", "News", "news@example.com")
    address = Address("o'hara+x/y@example.com")
    await site.services.subscriptions.add("news", address, verified=False)
    shown = await user.http.get("/trace", params={"email": address})
    link = re.search(r'href="(/lists/news/subscribers/[^"]*)"', shown.text)
    assert link is not None
    assert (await user.get(html.unescape(link[1]))).status_code == 200


async def test_an_address_is_traced_whatever_its_case(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    await site.services.lists.create("news", "News", "news@example.com")
    await site.services.subscriptions.add("news", "Mitglied45@example.com", verified=True)
    for spelling in ("mitglied45@example.com", "MITGLIED45@Example.com"):
        page = await user.get("/trace", params={"email": spelling})
        assert "/lists/news/subscribers/Mitglied45%40example.com" in page.text
    wrong = await user.get("/trace", params={"email": "nobody"})
    assert re.search(r'id="email-help" class="wrong">[A-Z]', wrong.text)
