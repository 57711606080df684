"""Settings in the store: can they be read here, as every process of Postroom has to?"""

from __future__ import annotations

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.encryption import DecryptionError
from postroom.errors import PostroomError
from postroom.settings import SettingError, Settings
from postroom.wiring import Services, load_stored, make_keyring, opened_store

_ADVICE = "Set the same POSTROOM_SECRET_KEY on every machine: processes cannot start without it."


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
        return settings, [Finding("settings", FindingState.ERROR, one_line(exc), _ADVICE)]
    except SettingError as exc:
        advice = "Correct it in the browser, or run `postroom settings reset`."
        return settings, [Finding("settings", FindingState.ERROR, one_line(exc), advice)]
    except PostroomError:
        return settings, []
