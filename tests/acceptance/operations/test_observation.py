"""What an operator sees from outside: one trace for a message, metrics, JSON logs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, fill
from tests.services.trace_collector import running_trace_collector
from tests.services.waiting import BUSY, accepts_connections, free_ports, wait_until


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.mark.timeout(180)
async def test_a_message_can_be_followed_from_the_call_to_the_mail_servers_reply(
    postroom: Postroom, services: Services, tmp_path: Path
) -> None:
    await fill(services, 120)
    key = (await services.keys.create("all")).secret
    reader = (await services.keys.create("reader", ["read"])).secret
    site = (await services.keys.create("site", ["subscribe"])).secret
    [port] = free_ports(1)
    with running_trace_collector() as collector:
        postroom.settings |= {
            "port": str(port),
            "traces_endpoint": collector.url,
            "log_format": "json",
        }
        up = postroom.start("up")
        wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            made = await http.post(
                "/api/v1/messages",
                json={"list": LIST, "subject": "News", "text": "Hello"},
                headers={"Authorization": f"Bearer {key}"},
            )
            assert made.status_code == 201, made.text
            ref = made.json()["ref"]
            await _until_completed(http, ref, key)
            metrics = await _until_counted(http, reader)
            for header in ({}, {"Authorization": f"Bearer {site}"}):
                assert (await http.get("/metrics", headers=header)).status_code == 401
        assert postroom.stop(up, 60) == 0

    traces: dict[str, set[str]] = {}
    for span in collector.spans:
        traces.setdefault(span.trace, set()).add(span.name)
    [trace] = [spans for spans in traces.values() if "page" in spans]
    assert trace == {"POST request", "fan out", "page"}
    pages = [span for span in collector.spans if span.name == "page"]
    assert {page.attributes["message"] for page in pages} == {ref}
    assert {page.attributes["reply"] for page in pages} == {"250 2.0.0 recorded"}

    for name in ("postroom_page_seconds", "postroom_store_seconds", "postroom_web_seconds"):
        assert f"{name}_count" in metrics
    assert 'postroom_queue_messages{queue="mail/send"} 0.0' in metrics
    check_logs(postroom, ref)


async def _until_completed(http: httpx2.AsyncClient, ref: str, key: str) -> None:
    status = ""
    for _ in range(600 * BUSY):
        answer = await http.get(
            f"/api/v1/messages/{ref}", headers={"Authorization": f"Bearer {key}"}
        )
        status = answer.json()["status"]
        if status == "Completed":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(status)


async def _until_counted(http: httpx2.AsyncClient, key: str) -> str:
    """Return the metrics once all emails are counted, which may be after they are recorded."""
    metrics = ""
    for _ in range(600 * BUSY):
        answer = await http.get("/metrics", headers={"Authorization": f"Bearer {key}"})
        metrics = answer.text
        if 'postroom_emails_total{outcome="accepted"} 120.0' in metrics:
            return metrics
        await asyncio.sleep(0.1)
    raise AssertionError(metrics)


def check_logs(postroom: Postroom, ref: str) -> None:
    """Each line that is a log line can be read by a program, and no secret is in it."""
    lines = [line for line in postroom.logs().splitlines() if line.startswith("{")]
    events = [json.loads(line) for line in lines]
    assert any(ref in event["event"] for event in events)
    assert all({"event", "level", "timestamp", "logger"} <= set(event) for event in events)
