"""`postroom check`: does everything that Postroom needs work, and if not, what to do.

Each check answers findings and never raises for what is wrong outside; none changes anything that
somebody could notice, and a mail is sent only to somebody who asked for it.
"""

from __future__ import annotations

import asyncio

import dns.asyncresolver

from postroom.checks.findings import Finding, State
from postroom.checks.keys import check_secret_key
from postroom.checks.machine import check_data_folder, check_disk
from postroom.checks.privacy import check_privacy
from postroom.checks.records import check_sending_domains
from postroom.checks.site import check_base_url
from postroom.checks.store import check_store
from postroom.checks.transport import check_transport, send_test_mail
from postroom.checks.variables import check_variables
from postroom.settings import Settings

__all__ = ["Finding", "State", "check_everything"]


async def check_everything(
    settings: Settings,
    *,
    mail_to: str = "",
    mail_from: str = "",
    resolver: dns.asyncresolver.Resolver | None = None,
) -> list[Finding]:
    """Return all findings, in the order in which one would fix them.

    An email is sent only to `mail_to`. DNS records are looked up with `resolver`, by default as
    this machine is configured.
    """
    local = [check_data_folder(settings), *check_disk(settings), check_secret_key(settings)]
    store, domains = await check_store(settings)
    elsewhere = await asyncio.gather(
        check_transport(settings),
        check_base_url(settings),
        check_sending_domains(settings, domains, resolver),
    )
    found = [
        *check_variables(settings),
        *local,
        *store,
        *check_privacy(settings),
        *(each for part in elsewhere for each in part),
    ]
    if mail_to:
        found.append(await send_test_mail(settings, mail_to, mail_from))
    return found
