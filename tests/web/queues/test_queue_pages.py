"""Queues and applications, over HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote

import anyio
import msgspec

from postroom.domain.queues.app_options import OnPoison
from postroom.domain.queues.apps import App
from postroom.services.accounts.users import Role
from postroom.services.queues.attempts import AttemptFailure
from postroom.services.queues.hosts import AppStatus, ProcessStatus
from tests.web.forms import forms_in
from tests.web.site import Site, Visitor

APP = App("/shop/orders", handler="orders:process", receive_retry_count=0, max_retry_cycles=0)
NAMES = [
    "shop/orders",
    "with space/and?question#hash%percent",
    "<script>alert(1)</script>",
    "übung/質問",
    "a//b",
    "quote\"'&amp;",
]


async def poisoned(site: Site, queue: str, body: str) -> str:
    """Let the only attempt of a message fail; return its id in the poison queue."""
    store, queues = site.services.store, site.services.queues
    await queues.put(queue, body)
    [message] = await store.queue(queue).receive(lease=30)
    await queues.failed(
        message, APP, AttemptFailure("KeyError: <sku>", "Traceback: here", process="p/1")
    )
    [aside] = await store.queue(f"{queue};poison").peek(1)
    return aside.id


async def bodies(site: Site, queue: str) -> list[str]:
    return sorted(message.body for message in await site.services.store.queue(queue).peek(32))


async def test_every_queue_has_a_page_however_it_is_called(site: Site) -> None:
    user = await site.user()
    for name in NAMES:
        await site.services.queues.put(name, "a <b>body</b>", properties={"key": "<i>"})
    index = await text(user, "/queues")
    assert "<script>alert" not in index
    links = set(re.findall(r'href="(/queues/[^"]+)"', index))
    assert len(links) == len(NAMES)
    for name in NAMES:
        opened = await user.get("/queues", params={"name": name})
        assert opened.headers["location"] in links
        page = await text(user, opened.headers["location"])
        assert "a &lt;b&gt;body&lt;/b&gt;" in page
        assert "<script>alert" not in page
        assert (await user.post("/queue/put", {"queue": name, "body": "more"})).status_code == 303
        assert await bodies(site, name) == ["a <b>body</b>", "more"]


async def test_the_index_shows_lengths_and_failed_messages(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    assert "No queues yet" in (await user.get("/queues")).text
    await site.services.apps.add(APP)
    await poisoned(site, "shop/orders", "bad")
    await site.services.store.queue("shop/orders").put_many(["x"] * 1234)
    await site.services.queues.put("lonely", "x")
    whole = (await user.get("/queues")).text
    part = (await user.get("/queues", headers={"HX-Request": "true"})).text
    assert "<html" in whole
    assert "<html" not in part
    for shown in (whole, part):
        assert "1,234" in shown
        assert "/shop/orders" in shown
        assert "/queues/shop/orders%3Bpoison" in shown
        assert "no application" in shown


async def test_a_poison_message_is_shown_with_its_history_and_redriven(site: Site) -> None:
    user = await site.user(Role.EDITOR)
    identity = await poisoned(site, "shop/orders", "bad")
    page = (await user.get("/queues/shop/orders%3Bpoison")).text
    for text in ("KeyError: &lt;sku&gt;", "Traceback: here", "moved to shop/orders;poison", "p/1"):
        assert text in page, text
    form = {"queue": "shop/orders;poison", "id": identity}
    done = await user.post("/queue/redrive-one", form)
    assert "moved back to shop/orders" in await user.said(done)
    assert await bodies(site, "shop/orders") == ["bad"]
    assert (await user.post("/queue/redrive-one", form)).status_code == 404


async def test_all_are_redriven_in_the_background(site: Site) -> None:
    user = await site.user(Role.EDITOR)
    await site.services.store.queue("q;poison").put_many([f"{n:03}" for n in range(100)])
    answer = await user.post("/queue/redrive", {"queue": "q;poison", "rate": ""})
    assert answer.status_code == 303
    latest = site.context.redrives.latest("q;poison")
    assert latest is not None
    with anyio.fail_after(60):
        while not latest.is_over:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    assert "100 messages redriven. Done." in await text(user, "/queues/q%3Bpoison")
    assert (await site.services.store.queue("q").info()).length == 100


async def test_a_slow_redrive_is_not_started_twice(site: Site) -> None:
    user = await site.user(Role.EDITOR)
    await site.services.store.queue("q;poison").put_many(["x"] * 3)
    form = {"queue": "q;poison", "rate": "0.001"}
    assert (await user.post("/queue/redrive", form)).status_code == 303
    again = await user.post("/queue/redrive", form)
    assert again.status_code == 409
    assert "already being redriven" in again.text


async def test_an_invalid_rate_is_refused(site: Site) -> None:
    user = await site.user(Role.EDITOR)
    await site.services.store.queue("q;poison").put("x")
    for rate in ("0", "-1", "nan", "inf", "fast", "1e99"):
        answer = await user.post("/queue/redrive", {"queue": "q;poison", "rate": rate})
        assert answer.status_code == 422, rate
    assert (await user.post("/queue/redrive", {"queue": "q;retry"})).status_code == 422
    assert await bodies(site, "q;poison") == ["x"]


async def test_deleting_and_emptying_ask_first(site: Site) -> None:
    user = await site.user()
    queue = site.services.store.queue("shop/orders")
    first = await queue.put("first")
    await queue.put_many(["second", "third"])
    asked = await user.get(f"/queue/delete?queue=shop/orders&id={quote(first)}")
    assert "cannot be restored" in asked.text
    assert len(await bodies(site, "shop/orders")) == 3
    await user.said(await user.post("/queue/delete", {"queue": "shop/orders", "id": first}))
    assert await bodies(site, "shop/orders") == ["second", "third"]
    asked = await user.get("/queue/purge?queue=shop/orders")
    assert "about 2" in asked.text
    said = await user.said(await user.post("/queue/purge", {"queue": "shop/orders"}))
    assert said == "Queue purged."
    assert await bodies(site, "shop/orders") == []
    audit = await site.services.audit.newest()
    assert [action.what for action in audit.entries] == [
        "purged a queue",
        "deleted a queue message",
    ]


async def test_a_stopped_queue_resumes_when_its_fault_is_cleared(site: Site) -> None:
    user = await site.user(Role.EDITOR)
    await site.services.queues.fault("shop/orders", "the <bank> is closed")
    page = (await user.get("/queues/shop/orders")).text
    assert "This queue is stopped." in page
    assert "the &lt;bank&gt; is closed" in page
    said = await user.said(await user.post("/queue/clear-fault", {"queue": "shop/orders"}))
    assert said == "Queue resumed."
    assert not await site.services.queues.is_faulted("shop/orders")


async def test_roles_see_only_the_buttons_that_work_for_them(site: Site) -> None:
    await poisoned(site, "q", "bad")
    viewer, editor = await site.user(Role.VIEWER), await site.user(Role.EDITOR)
    administrator = await site.user()
    for user, buttons in (
        (viewer, []),
        (editor, ["Redrive all"]),
        (administrator, ["Redrive all", "Purge…", "Delete…"]),
    ):
        page = await text(user, "/queues/q%3Bpoison")
        for button in ("Redrive all", "Purge…", "Delete…"):
            assert (button in page) == (button in buttons), button


async def test_a_mistake_loses_nothing_that_was_typed(site: Site) -> None:
    user = await site.user()
    mistake = {"queue": "q", "body": "kept <i>", "delay": "soon", "properties": "a=b"}
    answer = await user.post("/queue/put", mistake)
    assert answer.status_code == 422
    assert "kept &lt;i&gt;" in answer.text
    assert "must be a duration such as" in answer.text


async def test_properties_and_delay_of_a_put_message_count(site: Site) -> None:
    user = await site.user()
    form = {"queue": "q", "body": "x", "properties": "a=1\r\n b = c=d \r\n\r\n"}
    await user.said(await user.post("/queue/put", form))
    [message] = await site.services.store.queue("q").peek(1)
    assert message.properties == {"a": "1", "b": "c=d"}
    await user.said(await user.post("/queue/put", {"queue": "later", "body": "x", "delay": "2h"}))
    assert await bodies(site, "later") == []
    assert "No messages ready" in await text(user, "/queues/later")
    reserved = {"queue": "q", "body": "x", "properties": "cycle=9"}
    assert (await user.post("/queue/put", reserved)).status_code == 422


async def test_applications_are_shown_with_their_processes(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    assert "No host is running" in await text(user, "/apps")
    await site.services.apps.add(APP)
    now = datetime.now(UTC)
    process = ProcessStatus(4711, "ready", now, in_progress=2, handled=12345, memory=52_000_000)
    open_breaker = AppStatus("/shop/orders", "stopped", "breaker open", (), 5, 5)
    await site.services.hosts.report(
        "one-1", "one", [AppStatus("/shop/orders", "running", "", (process,), 1)]
    )
    await site.services.hosts.report("two-2", "two", [open_breaker])
    for headers in ({}, {"HX-Request": "true"}):
        shown = (await user.get("/apps", headers=headers)).text
        for part in ("4711", "12,345", "52 MB", "breaker open", "two-2", "orders:process"):
            assert part in shown, part


def _settings_form(page: str) -> dict[str, str]:
    """Return the fields of the form, without its CSRF token."""
    [form] = [each for each in forms_in(page, "/apps/settings") if "on_poison" in each.names]
    return {name: value for name, value in form.fields if name != "csrf"}


async def test_an_application_is_paused_resumed_restarted_and_changed(site: Site) -> None:
    await site.services.apps.add(msgspec.structs.replace(APP, origin="command line"))
    user = await site.user()
    form = {"path": APP.path}
    assert "resumed" in await user.undo(await user.post("/apps/pause", form))
    assert not (await site.services.apps.state(APP.path)).control.is_paused
    await user.said(await user.post("/apps/pause", form))
    assert "paused" in await user.undo(await user.post("/apps/resume", form))
    shown = await text(user, "/apps")
    assert "Its messages wait until it is resumed" in shown
    await user.said(await user.post("/apps/resume", form))
    await user.said(await user.post("/apps/restart", form))
    state = await site.services.apps.state(APP.path)
    assert (state.control.is_paused, state.control.restarts) == (False, 1)

    shown = await text(user, f"/apps/settings?path={APP.path}")
    fields = _settings_form(shown)
    assert fields["max_processes"] == str(APP.max_processes)
    assert '<option value="move" selected>Move to the poison queue</option>' in shown
    changed = {**form, **fields, "max_processes": "9", "memory_limit": "100MB"}
    changed["on_poison"] = "drop"
    mistake = await user.post("/apps/settings", {**changed, "idle_timeout": "soon"})
    assert mistake.status_code == 422
    assert "100MB" in mistake.text
    assert "must be a duration such as" in mistake.text
    await user.said(await user.post("/apps/settings", changed))
    app = await site.services.apps.get(APP.path)
    assert (app.max_processes, app.memory_limit, app.handler) == (9, 100_000_000, APP.handler)
    assert app.on_poison is OnPoison.DROP
    shown = await text(user, f"/apps/settings?path={APP.path}")
    fields = _settings_form(shown)
    await user.said(await user.post("/apps/settings", {**form, **fields}))
    assert await site.services.apps.get(APP.path) == app, "saving what is shown changes nothing"

    viewer = await site.user(Role.EDITOR)
    assert "/apps/pause" not in await text(viewer, "/apps")
    for action in ("pause", "resume", "restart", "settings"):
        assert (await viewer.post(f"/apps/{action}", form)).status_code == 403


async def test_a_rejected_message_is_redriven_from_the_senders_own_queue(site: Site) -> None:
    user = await site.user()
    origin = {"origin_queue": "shop/orders"}
    identity = await site.services.store.queue("senders/own").put("bad", properties=origin)
    shown = await text(user, "/queues/senders%2Fown")
    assert f"Redrive {identity} to shop/orders" in shown
    form = {"queue": "shop/orders", "source": "senders/own", "id": identity}
    assert "moved back to shop/orders" in await user.said(
        await user.post("/queue/redrive-one", form)
    )
    assert await bodies(site, "shop/orders") == ["bad"]


async def test_which_application_gets_a_queue_is_explained(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    await site.services.apps.add(APP)
    shown = await text(user, "/apps?queue=shop/orders/new")
    assert "goes to <strong>/shop/orders</strong>" in shown
    assert "has no application" in await text(user, "/apps?queue=other")


async def text(user: Visitor, path: str) -> str:
    answer = await user.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text
