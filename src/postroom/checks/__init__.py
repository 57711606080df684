"""`postroom check`: what works, what does not, and what to do about it.

Each check returns findings, and never raises an error for a problem that it finds. None changes
anything that people could notice, and an email is sent only on request.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.checks.machine import (
    check_applications,
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
from postroom.encryption import DecryptionError
from postroom.errors import PostroomError
from postroom.settings import FILE, SettingError, Settings
from postroom.wiring import Services, load_stored, make_keyring, opened_store

if TYPE_CHECKING:
    import dns.asyncresolver

__all__ = ["Finding", "FindingState", "check_everything", "load_all_settings"]
_SAME_KEY = "Set the same POSTROOM_SECRET_KEY on every machine: processes cannot start without it."


async def check_everything(
    settings: Settings,
    *,
    mail_to: str = "",
    mail_from: str = "",
    resolver: dns.asyncresolver.Resolver | None = None,
) -> list[Finding]:
    """Return all findings, in the order in which they should be fixed.

    An email is sent only to `mail_to`. DNS records are looked up with `resolver`, by default as
    this machine is configured.
    """
    local = [check_data_folder(settings), *check_disk(settings), check_secret_key(settings)]
    apps = await asyncio.to_thread(check_applications, Path.cwd() / FILE)
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
        *apps,
        *check_privacy(settings),
        *(each for part in elsewhere for each in part),
    ]
    if mail_to:
        found.append(await send_test_mail(settings, mail_to, mail_from))
    return found


async def load_all_settings(settings: Settings) -> tuple[Settings, list[Finding]]:
    """Return the settings with those that are stored, and what is wrong with them. A store that
    cannot be opened is left to its own check."""
    file = settings.storage.file
    if file is not None and not file.exists():
        return settings, []  # looking must not create it
    try:
        async with opened_store(settings) as store:
            return await load_stored(Services(store, make_keyring(settings)), settings), []
    except DecryptionError as exc:
        return settings, [Finding("settings", FindingState.ERROR, one_line(exc), _SAME_KEY)]
    except SettingError as exc:
        advice = "Correct it in the browser, or run `postroom settings reset`."
        return settings, [Finding("settings", FindingState.ERROR, one_line(exc), advice)]
    except PostroomError:
        return settings, []
