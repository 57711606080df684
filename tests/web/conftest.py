"""A separate site for each test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.services.passwords import quick_passwords
from tests.web.site import Site, running_site

__all__ = ["quick_passwords", "site"]


@pytest.fixture
async def site(tmp_path: Path, quick_passwords: None) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as running:
        yield running
