"""Who sees a subscriber's GUID: with it, anybody can confirm or unsubscribe them."""

from __future__ import annotations

import httpx2
import pytest

from postroom.domain.queues.apps import App
from postroom.services.accounts.api_keys import Scope
from postroom.services.accounts.users import Role
from postroom.services.queues.attempts import AttemptFailure
from tests.web.operations.test_trace_and_outbox import keep
from tests.web.site import Site

LIST, ANN = "news", "ann@example.com"
MAIL = (
    "From: news@example.com\r\nTo: ann@example.com\r\nSubject: Hello\r\n"
    "List-Unsubscribe: <http://localhost/unsubscribe?id={guid}&listName=news>\r\n"
    "MIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n"
    "--b\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "Content-Transfer-Encoding: quoted-printable\r\n\r\nConfirm: http://localhost/confirm?id=3D{first}=\r\n{rest}&listName=3Dnews\r\n"
    "--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    '<a href="http://localhost/unsubscribe?id={guid}&amp;listName=news">Leave</a>\r\n--b--\r\n'
)


async def signed_up(site: Site) -> str:
    """Somebody who has to confirm, with an email in the outbox and one in a poison queue; returns
    the GUID."""
    await site.services.lists.create(LIST, "News", "news@example.com")
    await site.services.subscriptions.subscribe(LIST, ANN)
    guid = (await site.services.subscriptions.get(LIST, ANN)).guid
    poison = site.services.store.queue("mail/confirm;poison")
    await poison.put(f"{guid},{LIST}", properties={"error": f"'{guid},{LIST}' failed"})
    keep(site, 1, ANN, MAIL.format(guid=guid, first=guid[:9], rest=guid[9:]))
    return guid


@pytest.mark.parametrize(
    ("scopes", "sees"),
    [
        ((Scope.READ,), False),
        ((Scope.READ, Scope.QUEUES), False),
        ((Scope.SUBSCRIBERS, Scope.QUEUES), True),
        ((), True),
    ],
)
async def test_a_key_sees_guids_only_with_the_scope_subscribers(
    site: Site, scopes: tuple[Scope, ...], sees: bool
) -> None:
    guid = await signed_up(site)
    key = (await site.services.keys.create("a key", scopes)).secret
    async with httpx2.AsyncClient(
        base_url=f"{site.url}/api/v1", headers={"Authorization": f"Bearer {key}"}
    ) as api:
        for path in (
            f"/lists/{LIST}/subscribers",
            f"/lists/{LIST}/subscribers/{ANN}",
            "/queues/mail%2Fconfirm/messages",
            "/queues/mail%2Fconfirm%3Bpoison/messages",
        ):
            answer = await api.get(path)
            assert answer.status_code == 200, answer.text
            assert (guid in answer.text) is sees, path
            assert ANN in answer.text or LIST in answer.text
        exported = await api.get(f"/lists/{LIST}/export")
        assert guid not in exported.text


@pytest.mark.parametrize("role", [each for each in Role if each is not Role.MEMBER])
async def test_pages_show_personal_links_to_administrators_only(site: Site, role: Role) -> None:
    guid = await signed_up(site)
    confirmations = site.services.store.queue("mail/confirm")
    [taken] = await confirmations.receive(1, lease=60)
    app = App(path="/mail/confirm", handler="a:b", origin="a test")
    failure = AttemptFailure(f"no such row {guid}", f"Traceback of {guid}")
    await site.services.queues.failed(taken, app, failure)
    user = await site.user(role)
    [name] = [each.name for each in (site.context.settings.storage.data / "outbox").iterdir()]
    for path in (
        "/queues/mail/confirm",
        "/queues/mail/confirm%3Bpoison",
        f"/outbox/{name}",
        f"/outbox/{name}/html",
        f"/lists/{LIST}/subscribers",
        f"/lists/{LIST}/subscribers/{ANN}",
        f"/trace?email={ANN}",
    ):
        page = await user.get(path)
        assert page.status_code == 200, path
        is_secret = "/queues/" in path or "/outbox/" in path
        assert (guid in page.text) is (is_secret and role is Role.ADMINISTRATOR), path
    whole = await user.get(f"/outbox/{name}/download")
    assert whole.status_code == (200 if role is Role.ADMINISTRATOR else 403)


async def test_messages_of_other_queues_stay_as_they_are(site: Site) -> None:
    body = "5f0f6c1e-3b1a-4a51-9d2c-0d6f0f6d7a11,order"
    await site.services.queues.put("shop/orders", body)
    viewer = await site.user(Role.VIEWER)
    assert body in (await viewer.get("/queues/shop/orders")).text
