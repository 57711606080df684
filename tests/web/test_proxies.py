"""A proxy in front that nobody has named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from postroom.checks.findings import Finding, FindingState
from postroom.checks.store import check_proxies
from postroom.settings import TrustedProxies, load_settings
from tests.web.site import running_site


async def test_a_proxy_that_is_not_trusted_is_reported(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        settings, services = site.context.settings, site.services
        await site.visitor().get("/healthz")
        assert await check_proxies(settings, services) == []
        await site.visitor().get("/healthz", headers={"X-Forwarded-For": "203.0.113.9"})
        found: list[Finding] = []
        for _ in range(500):  # it is written in the background
            if found := await check_proxies(settings, services):
                break
            await asyncio.sleep(0.02)
        [finding] = found
        assert finding.state is FindingState.WARNING
        assert "127.0.0.1" in finding.text
        assert "trusted_proxies" in finding.advice
        trusting = load_settings({"POSTROOM_TRUSTED_PROXIES": "127.0.0.0/8"}, tmp_path)
        assert await check_proxies(trusting, services) == []


async def test_a_trusted_proxy_is_not(tmp_path: Path) -> None:
    async with running_site(tmp_path, {"trusted_proxies": "127.0.0.1"}) as site:
        answer = await site.visitor().get("/healthz", headers={"X-Forwarded-For": "203.0.113.9"})
        assert answer.status_code == 200
        await site.context.background.stop()
        assert await check_proxies(load_settings({}, tmp_path), site.services) == []


@pytest.mark.parametrize(
    ("setting", "address", "is_trusted"),
    [
        ("", "127.0.0.1", False),
        ("*", "203.0.113.9", True),
        ("10.0.0.1, 10.1.0.0/16", "10.1.2.3", True),
        ("10.0.0.1, 10.1.0.0/16", "10.0.0.2", False),
        ("fd00::/8", "fd00::1", True),
        ("fd00::/8", "nonsense", False),
    ],
)
def test_addresses_and_networks_are_trusted(setting: str, address: str, is_trusted: bool) -> None:
    assert (address in TrustedProxies(setting)) is is_trusted
