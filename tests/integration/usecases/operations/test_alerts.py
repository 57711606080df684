"""Alerts: operators hear of urgent events once, by email and by webhook."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from postroom.alerts import Alerts, Channel, MailChannel, WebhookChannel
from postroom.domain.audience.addresses import Address
from postroom.notices import NoticeSender
from postroom.services.events import EventService, Severity
from postroom.storage import Entity, Store, open_store
from postroom.transport.registry import open_transport
from postroom.wiring import Services
from tests.services.mail.recording_smtp import running_recording_smtp


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path}/postroom.db") as opened:
        yield opened


@contextmanager
def running_webhook(*statuses: int) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Respond with these statuses, then with 204, and record what was posted."""
    posted: list[dict[str, str]] = []
    answers = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(answers.pop(0) if answers else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", posted
        finally:
            server.shutdown()
            thread.join(10)


async def begun(store: Store, *channels: Channel) -> Alerts:
    alerts = Alerts(store, EventService(store), channels)
    assert await alerts.send_new() == 0  # notes where to begin
    return alerts


async def test_events_from_before_are_not_sent(store: Store) -> None:
    await EventService(store).record("host", "long ago", severity=Severity.ERROR)
    with running_webhook() as (url, posted):
        alerts = await begun(store, WebhookChannel(url))
        assert await alerts.send_new() == 0

    assert posted == []


async def test_alerts_are_sent_once_and_in_order(store: Store) -> None:
    events = EventService(store)
    with running_webhook() as (url, posted):
        alerts = await begun(store, WebhookChannel(url))
        await events.record("sender", "all is well")
        await events.record(
            "sender", "message 1 pauses itself", severity=Severity.WARNING, subject="message:1"
        )
        await events.record("host", "the breaker of /shop is open", severity=Severity.ERROR)

        assert await alerts.send_new() == 2
        assert await alerts.send_new() == 0
        assert await Alerts(store, EventService(store), [WebhookChannel(url)]).send_new() == 0, (
            "after a restart"
        )

    assert [each["text"] for each in posted] == [
        "message 1 pauses itself",
        "the breaker of /shop is open",
    ]
    assert (posted[0]["severity"], posted[0]["subject"]) == ("warning", "message:1")


async def test_a_failed_webhook_is_retried(store: Store) -> None:
    events = EventService(store)
    with running_webhook(500) as (url, posted):
        alerts = await begun(store, WebhookChannel(url))
        await events.record("host", "a queue faults", severity=Severity.ERROR)

        assert await alerts.send_new() == 0
        assert await alerts.send_new() == 1

    assert [each["text"] for each in posted] == ["a queue faults"] * 2


async def test_a_webhook_is_called_at_once_while_the_mail_server_is_away(
    store: Store, tmp_path: Path
) -> None:
    with running_recording_smtp() as server:
        away = open_transport(server.url, folder=tmp_path)
    mail = MailChannel(
        away,
        NoticeSender(Services(store).lists, Address("postroom@example.com")),
        Address("admin@example.com"),
        "https://news.example.com",
    )
    try:
        with running_webhook() as (url, posted):
            alerts = await begun(store, mail, WebhookChannel(url))
            await EventService(store).record(
                "sender", "the mail server cannot be reached", severity=Severity.WARNING
            )
            assert await alerts.send_new() == 1
            assert await alerts.send_new() == 0, "only the mail is tried again"
    finally:
        await away.close()

    assert [each["text"] for each in posted] == ["the mail server cannot be reached"]


async def test_alerts_continue_where_an_earlier_version_stopped(store: Store) -> None:
    events = EventService(store)
    await events.record("host", "sent before the upgrade", severity=Severity.ERROR)
    [sent] = await events.since(None, least=Severity.WARNING)
    await store.table("alerts").insert(Entity("alerts", "last", {"EventId": sent.id}))
    await events.record("host", "not sent yet", severity=Severity.ERROR)
    with running_webhook() as (url, posted):
        assert await Alerts(store, EventService(store), [WebhookChannel(url)]).send_new() == 1

    assert [each["text"] for each in posted] == ["not sent yet"]


@contextmanager
def answering(raw: bytes) -> Iterator[int]:
    """A server that answers one call with these bytes; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(raw)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(30)


async def test_a_webhook_that_does_not_speak_http_is_tried_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(b"not HTTP at all\r\n\r\n") as port:
        alerts = await begun(store, WebhookChannel(f"http://127.0.0.1:{port}/T0K3N"))
        await EventService(store).record("host", "a queue faults", severity=Severity.ERROR)
        assert await alerts.send_new() == 0
    assert "its response is malformed (BadStatusLine)" in caplog.text
    assert "T0K3N" not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "http://me:T0K3N@127.0.0.1/hook",
        "http://127.0.0.1:T0K3N/",
        "http://[T0K3N/",
        "http://a\u2028/T0K3N",
    ],
)
async def test_no_part_of_a_webhooks_url_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    alerts = await begun(store, WebhookChannel(url))
    await EventService(store).record("host", "a queue faults", severity=Severity.ERROR)
    assert await alerts.send_new() == 0
    assert "the webhook cannot be called" in caplog.text
    assert "T0K3N" not in caplog.text


async def test_an_alert_email_says_what_happened_and_where_to_look(
    store: Store, tmp_path: Path
) -> None:
    with running_recording_smtp() as server:
        transport = open_transport(server.url, folder=tmp_path)
        channel = MailChannel(
            transport,
            NoticeSender(Services(store).lists, Address("postroom@example.com")),
            Address("admin@example.com"),
            "https://news.example.com",
        )
        try:
            alerts = await begun(store, channel)
            await EventService(store).record(
                "sender", "message 1 pauses itself: 535 wrong password", severity=Severity.ERROR
            )
            assert await alerts.send_new() == 1
        finally:
            await transport.close()
        [mail] = server.accepted()

    assert mail.recipients == ("admin@example.com",)
    content = mail.content.decode()
    assert "Subject: Postroom: message 1 pauses itself: 535 wrong password" in content
    assert "https://news.example.com/events" in content
    assert "Auto-Submitted: auto-generated" in content


async def test_an_alert_comes_from_the_first_list_and_says_so_if_there_is_none(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_recording_smtp() as server:
        transport = open_transport(server.url, folder=tmp_path)
        channel = MailChannel(
            transport,
            NoticeSender(Services(store).lists, None),
            Address("admin@example.com"),
            "https://x.example",
        )
        try:
            alerts = await begun(store, channel)
            await EventService(store).record("host", "a queue faults", severity=Severity.ERROR)
            assert await alerts.send_new() == 0
            assert "set alert_from, or create a list" in caplog.text

            await Services(store).lists.create("news", "News", "hello@contoso.example")
            assert await alerts.send_new() == 1
        finally:
            await transport.close()
        [mail] = server.accepted()

    assert mail.sender == "hello@contoso.example"
    assert mail.recipients == ("admin@example.com",)
