"""Proxies in front of the pages: is the visitor's own address known?"""

from __future__ import annotations

from postroom.checks.findings import Finding, State
from postroom.services.operations.proxy_sightings import ProxySightings
from postroom.settings import Settings
from postroom.storage import Store
from postroom.trusted_proxies import TrustedProxies


async def check_proxies(settings: Settings, store: Store) -> list[Finding]:
    """Return a warning for each proxy that passes visitors on and is not trusted."""
    trusted = TrustedProxies(settings.web.trusted_proxies)
    return [
        Finding(
            "proxy",
            State.WARNING,
            f"requests came through a proxy at {address}, which is not trusted: all visitors look"
            " like one and share its limits on logins, sign-ups and connections",
            f"Add it to the setting trusted_proxies: POSTROOM_TRUSTED_PROXIES={address}",
        )
        for address in await ProxySightings(store).recent()
        if address not in trusted
    ]
