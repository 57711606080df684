"""Who else can read what is kept on this machine: addresses, outboxes, keys."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from postroom.checks.findings import Finding, State
from postroom.folders import is_private
from postroom.settings import FILE, Settings

_PART = "privacy"
_MOST = 5  # findings; who has more begins with these


def check_privacy(settings: Settings) -> list[Finding]:
    """Warn of folders and files that others than their owner can open."""
    found = list(islice(_loose(settings), _MOST))
    if not found:
        return [Finding(_PART, State.OK, "data folder, store and keys are readable by you alone")]
    return [
        Finding(
            _PART,
            State.WARNING,
            f"{path} has mode {mode:04o}: other users of this machine have access",
            f"Run: chmod go= {path}",
        )
        for path, mode in found
    ]


def _loose(settings: Settings) -> Iterator[tuple[Path, int]]:
    for path in _places(settings):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if not is_private(mode):
            yield path, mode


def _places(settings: Settings) -> Iterator[Path]:
    """Folders before what is in them. What lies deeper in a private folder is private, too."""
    data = settings.storage.data.absolute()
    yield data
    yield from (data / each for each in ("secret.key", "outbox", "journals", "metrics"))
    if settings.storage.file is not None:
        database = settings.storage.file.absolute()
        if database.parent != data:
            yield database.parent
        yield database
        yield from (database.with_name(database.name + each) for each in ("-wal", "-shm"))
    file = Path(FILE).absolute()
    if _holds_secrets(settings, file):
        yield file


def _holds_secrets(settings: Settings, file: Path) -> bool:
    """Whether `postroom.toml` has a secret setting, or an application with an environment."""
    if any(each.origin == FILE and each.has_secret for each in settings.found.values()):
        return True
    try:
        apps = tomllib.loads(file.read_text()).get("apps", [])
    except (OSError, ValueError):
        return False  # there is none, or it is reported elsewhere
    return isinstance(apps, list) and any(
        isinstance(app, dict) and app.get("environment") for app in apps
    )
