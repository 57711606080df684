"""Middleware: security headers of all responses, and the detection of untrusted proxies."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from time import monotonic

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.services.operations.health import ProxySightings
from postroom.settings import TrustedProxies
from postroom.web.background import Background

# Nothing from other sites, nothing inline. Previews of emails are sandboxed frames, whose responses
# have their own policy (`sandbox.py`).
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
_A_YEAR = "max-age=31536000"
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": POLICY,
    # Pages show personal data, so no cache may keep them.
    "Cache-Control": "no-store",
}
_POLICY_HEADER = b"content-security-policy"
_FRAMES_HEADER = b"x-frame-options"


def hsts_of(setting: str, *, is_behind_tls: bool) -> str:
    """Return the header that makes browsers use HTTPS only, or "".

    With `auto` it does not include subdomains: other servers there may not support HTTPS.
    """
    if setting == "yes":
        return f"{_A_YEAR}; includeSubDomains"
    return _A_YEAR if setting == "auto" and is_behind_tls else ""


class SecureHeaders:
    """Adds security headers, unless the response has its own."""

    def __init__(self, app: ASGIApp, *, hsts: str) -> None:
        self._app = app
        headers = dict(_ALWAYS)
        if hsts:
            headers["Strict-Transport-Security"] = hsts
        # Encoded once, not for every response.
        self._headers = [(name.lower().encode(), text.encode()) for name, text in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message["headers"]
                names = {name for name, _ in own}
                if _POLICY_HEADER in names and _lets_others_frame(own):
                    names.add(_FRAMES_HEADER)
                message["headers"] = [*own, *(h for h in self._headers if h[0] not in names)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _lets_others_frame(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a response's own policy allows frames. X-Frame-Options cannot name the sites
    that may frame it, and would contradict the policy."""
    policies = [text for name, text in headers if name == _POLICY_HEADER]
    return any(
        b"frame-ancestors" in each and b"frame-ancestors 'none'" not in each for each in policies
    )


log = logging.getLogger(__name__)

_AGAIN_AFTER = 3600.0  # seconds between two records of the same proxy
_MOST_PROXIES = 20
_HEADER = b"x-forwarded-for"


class ProxyWatch:
    """Records proxies that forward visitors without being trusted, for `postroom check`.

    Only those in private networks: on the internet, anyone can send such a header.
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
            if len(self._seen) >= _MOST_PROXIES:
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
