"""`postroom check`: does everything that Postroom needs work, and if not, what to do.

Each check answers findings and never raises for what is wrong outside; none sends a mail or changes
anything that somebody could notice.
"""

from __future__ import annotations

import asyncio

from postroom.checks.findings import Finding, State
from postroom.checks.keys import check_secret_key
from postroom.checks.machine import check_data_folder, check_disk
from postroom.checks.records import check_sending_domains
from postroom.checks.site import check_base_url
from postroom.checks.store import check_store
from postroom.checks.transport import check_transport
from postroom.settings import Settings

__all__ = ["Finding", "State", "check_everything"]


async def check_everything(settings: Settings) -> list[Finding]:
    """All findings, in the order in which one would mend things."""
    local = [check_data_folder(settings), check_disk(settings), check_secret_key(settings)]
    store, domains = await check_store(settings)
    elsewhere = await asyncio.gather(
        check_transport(settings),
        check_base_url(settings),
        check_sending_domains(settings, domains),
    )
    return [*local, *store, *(each for found in elsewhere for each in found)]
