"""One browser for all tests of a process; a separate site for each test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.browser.support.chromium import running_chromium
from tests.services.passwords import quick_passwords
from tests.web.site import Site, running_site

__all__ = ["quick_passwords", "site"]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_chromium() as started:
        yield started


@pytest.fixture
async def site(tmp_path: Path, quick_passwords: None) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as running:
        yield running
