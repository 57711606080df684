"""`postroom check`: what works, what does not, and what to do about it.

Each check returns findings and never raises for what is wrong outside. None changes anything that
people could notice, and an email is sent only on request.
"""

from __future__ import annotations

import asyncio

import dns.asyncresolver

from postroom.checks.findings import Finding, FindingState
from postroom.checks.machine import (
    check_data_folder,
    check_disk,
    check_privacy,
    check_secret_key,
    check_variables,
)
from postroom.checks.outgoing_mail import (
    check_base_url,
    check_sending_domains,
    check_transport,
    send_test_mail,
)
from postroom.checks.store import check_store
from postroom.checks.stored_settings_check import load_all_settings
from postroom.settings import Settings

__all__ = ["Finding", "FindingState", "check_everything", "load_all_settings"]


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
