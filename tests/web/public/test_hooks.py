"""`/hooks/PROVIDER`: refused without a secret, stored before they are acknowledged, used once."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE
from tests.web.site import Site, running_site

SECRET = "a-secret-of-the-tests"


@pytest.fixture
async def site(tmp_path: Path, quick_passwords: None) -> AsyncIterator[Site]:
    settings = {"azure_webhook_secret": SECRET, "mailgun_webhook_key": SECRET}
    async with running_site(tmp_path, settings) as running:
        yield running


async def queued(site: Site) -> list[str]:
    found = await site.services.store.queue(BOUNCE_QUEUE).peek(32)
    return [each.properties["source"] for each in found]


async def test_events_are_refused_without_a_secret_and_for_unknown_providers(site: Site) -> None:
    async with httpx2.AsyncClient(base_url=site.url) as http:
        refused = await http.post("/hooks/postmark?secret=", json={})
        assert refused.status_code == 403
        assert "POSTROOM_POSTMARK_WEBHOOK_SECRET" in refused.text
        assert (await http.post("/hooks/nobody", json={})).status_code == 404
        assert (await http.get("/hooks/azure")).status_code == 405
        assert (await http.post("/hooks/azure", json=[])).status_code == 401
        assert (await http.post(f"/hooks/azure?secret={SECRET}", content=b"x")).status_code == 400
    assert await queued(site) == []


async def test_an_event_is_stored_and_the_handshakes_of_azure_are_answered(site: Site) -> None:
    here = f"/hooks/azure?secret={SECRET}"
    async with httpx2.AsyncClient(base_url=site.url) as http:
        origin = {"WebHook-Request-Origin": "eventgrid.azure.net"}
        asked = await http.request("OPTIONS", here, headers=origin)
        assert asked.headers["WebHook-Allowed-Origin"] == "eventgrid.azure.net"
        assert (await http.request("OPTIONS", here)).status_code == 405
        assert (await http.request("OPTIONS", "/hooks/azure", headers=origin)).status_code == 401
        validation = {
            "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
            "data": {"validationCode": "512d38b6"},
        }
        answered = await http.post(here, json=[validation])
        assert answered.json() == {"validationResponse": "512d38b6"}
        assert await queued(site) == []
        assert (await http.post(here, json=[{"eventType": "x"}])).status_code == 200
    assert await queued(site) == ["azure"]


async def test_a_token_of_mailgun_is_accepted_once(site: Site) -> None:
    stamp, token = str(int(time.time())), "a8ce0edb2dd8301dee6c"
    signature = hmac.new(SECRET.encode(), f"{stamp}{token}".encode(), hashlib.sha256).hexdigest()
    event = {
        "signature": {"timestamp": stamp, "token": token, "signature": signature},
        "event-data": {"event": "failed", "recipient": "ann@example.com"},
    }
    async with httpx2.AsyncClient(base_url=site.url) as http:
        assert (await http.post("/hooks/mailgun", json=event)).status_code == 200
        replayed = json.loads(json.dumps(event).replace("ann@", "bob@"))
        assert (await http.post("/hooks/mailgun", json=replayed)).status_code == 406
    assert await queued(site) == ["mailgun"]
