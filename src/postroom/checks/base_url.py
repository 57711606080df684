"""The public address: do links in emails lead to a running Postroom?"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

from postroom.checks.findings import Finding, FindingState
from postroom.checks.transport import sends
from postroom.settings import Settings

_SECONDS = 5
_HERE = ("localhost", "127.0.0.1", "::1")


async def check_base_url(settings: Settings) -> list[Finding]:
    url = settings.web.base_url
    found = [await asyncio.to_thread(_reach, url)]
    if not sends(settings):
        return found
    if (urlsplit(url).hostname or "") in _HERE:
        found.append(
            Finding(
                "base_url",
                FindingState.WARNING,
                f"links in emails lead to {url}, which only this machine can open",
                "Set base_url to the address that subscribers can reach.",
            )
        )
    elif url.startswith("http://"):
        found.append(
            Finding(
                "base_url",
                FindingState.WARNING,
                f"links in emails lead to {url}, without encryption",
                "One-click unsubscribing needs https (RFC 8058).",
            )
        )
    return found


def _reach(url: str) -> Finding:
    try:
        # The setting allows http and https only.
        with urllib.request.urlopen(f"{url}/healthz", timeout=_SECONDS) as answer:  # noqa: S310
            status = answer.status
    except urllib.error.HTTPError as exc:
        status = exc.code
    except (OSError, ValueError, HTTPException) as exc:
        cause = getattr(exc, "reason", None) or exc
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return Finding(
            "web",
            FindingState.WARNING,
            f"no answer at {url} ({reason})",
            "Is `postroom up` or `postroom web` running, and does base_url lead to it?",
        )
    if status != 200:
        return Finding(
            "web",
            FindingState.WARNING,
            f"{url} answers, but not as Postroom does (status {status})",
            "Does base_url lead to this Postroom, or to something in front of it?",
        )
    return Finding("web", FindingState.OK, f"answers at {url}")
