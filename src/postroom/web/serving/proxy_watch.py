"""Notices proxies that pass visitors on without being trusted, for `postroom check`."""

from __future__ import annotations

import ipaddress
import logging
from time import monotonic

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.services.operations.proxy_sightings import ProxySightings
from postroom.settings import TrustedProxies
from postroom.web.background.tasks import Background

log = logging.getLogger(__name__)

_AGAIN_AFTER = 3600.0  # seconds: a sighting is written again at most this often
_MOST = 20
_HEADER = b"x-forwarded-for"


class ProxyWatch:
    """Looks at each request before anybody believes its headers.

    Only proxies in private networks are noticed: on the internet anybody can send such a header.
    """

    def __init__(
        self,
        app: ASGIApp,
        trusted: TrustedProxies,
        sightings: ProxySightings,
        background: Background,
    ) -> None:
        self._app = app
        self._trusted = trusted
        self._sightings = sightings
        self._background = background
        self._seen: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name == _HEADER for name, _ in scope["headers"]):
            client = scope.get("client")
            if client is not None:
                self._notice(client[0])
        await self._app(scope, receive, send)

    def _notice(self, address: str) -> None:
        now = monotonic()
        if now - self._seen.get(address, -_AGAIN_AFTER) < _AGAIN_AFTER:
            return
        if address in self._trusted or not _is_private(address):
            return
        if address not in self._seen:
            if len(self._seen) >= _MOST:
                return
            log.warning(
                "the proxy at %s is not trusted: all its visitors count as one."
                " Set trusted_proxies=%s",
                address,
                address,
            )
        self._seen[address] = now
        self._background.start(self._sightings.record(address), "untrusted proxy")


def _is_private(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_global
    except ValueError:
        return False
