"""Devices that a user has logged in with before, recognised by a signed cookie.

The cookie does not log anyone in. It gives the device its own count of login attempts, so that
strangers who enter wrong passwords do not slow the user down (OWASP: device cookies).
"""

from __future__ import annotations

import hashlib
import secrets

from starlette.responses import Response

from postroom.web.requests.signing import Signer
from postroom.web.requests.visit import Visit

_AGE = 365 * 24 * 3600
_PURPOSE = "known device"
_MOST_USERS = 5  # of one browser


def device_of(visit: Visit, email: str) -> str:
    """Return the id of this device if this user has logged in with it before, otherwise ""."""
    return _known(visit).get(_hashed(email), "")


def remember_device(visit: Visit, response: Response, email: str) -> None:
    """Set the cookie, or add this user to it."""
    who = _hashed(email)
    others = {user: name for user, name in _known(visit).items() if user != who}
    kept = list(others.items())[-(_MOST_USERS - 1) :]
    devices = dict([*kept, (who, secrets.token_urlsafe(12))])
    signed = Signer(visit.context.secret, _PURPOSE).sign(devices)
    visit.context.cookies.set(response, visit.context.cookies.device, signed, _AGE)


def _known(visit: Visit) -> dict[str, str]:
    """Return the devices in the cookie, by user."""
    cookie = visit.request.cookies.get(visit.context.cookies.device, "")
    found = Signer(visit.context.secret, _PURPOSE).read(cookie, max_age=_AGE) if cookie else None
    return found if isinstance(found, dict) else {}


def _hashed(email: str) -> str:
    return hashlib.sha256(email.strip().lower().encode(errors="replace")).hexdigest()[:32]
