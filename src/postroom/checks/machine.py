"""This machine: variables, the secret key, the data folder, its disk, who can read it, and the
applications of `postroom.toml`."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.domain.disk_space import FolderSpace, find_shortage
from postroom.domain.units import show_size
from postroom.encryption import KEY_FILE
from postroom.folders import is_private, nearest_existing
from postroom.services.operations.disk_space import measure
from postroom.services.queues.app_files import AppFileError, read_apps_file
from postroom.settings import FILE, SETTINGS, Settings

# A million emails with their records take about half of this.
_LITTLE_SPACE = 1_000_000_000
# A random key of 32 characters hardly ever has fewer different ones.
_FEW_CHARACTERS = 10
_NEW_KEY = "Create one with: python3 -c 'import secrets; print(secrets.token_hex(32))'"
_MOST_LOOSE_FILES = 5


def check_variables(settings: Settings) -> list[Finding]:
    """Warn of variables that look like settings but are not: they are probably mistyped."""
    known = [setting.variable for setting in SETTINGS]
    return [_ignored(name, get_close_matches(name, known, n=1)) for name in settings.unknown]


def _ignored(name: str, nearest: list[str]) -> Finding:
    advice = f"Did you mean {nearest[0]}?" if nearest else "The settings are listed below."
    return Finding(
        "settings", FindingState.WARNING, f"{name} is not a setting and is ignored", advice
    )


def check_applications(file: Path) -> list[Finding]:
    """Check the applications in a `postroom.toml`. A file without any needs no finding."""
    try:
        paths = [each.path for each in read_apps_file(file)]
    except AppFileError as exc:
        advice = "Correct it: hosts do not start with it."
        return [Finding("applications", FindingState.ERROR, one_line(exc), advice)]
    text = f"those of {file.name} can run: {', '.join(paths)}"
    return [Finding("applications", FindingState.OK, text)] if paths else []


def check_secret_key(settings: Settings) -> Finding:
    key = settings.secrets.key
    if not key:
        file = settings.storage.data / KEY_FILE
        text = f"created at the first start, in {file}; several web servers must share one"
        return Finding("secret_key", FindingState.OK, text)
    if len(set(key)) < _FEW_CHARACTERS:
        return Finding("secret_key", FindingState.WARNING, "is set, but could be guessed", _NEW_KEY)
    return Finding("secret_key", FindingState.OK, f"is set, {len(key)} characters")


def check_data_folder(settings: Settings) -> Finding:
    """Check that the data folder can be written, or created in the nearest folder that exists."""
    path = settings.storage.data.absolute()
    existing = nearest_existing(path)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            "data", FindingState.ERROR, f"{path} cannot be written", "Choose another with --data."
        )
    state = "can be written" if existing == path else "will be created when needed"
    return Finding("data", FindingState.OK, f"{path} {state}")


def check_disk(settings: Settings) -> list[Finding]:
    """Check each disk that fills up while emails are sent."""
    return [_check_space(each, settings) for each in measure(settings.storage.growing_folders)]


def _check_space(space: FolderSpace, settings: Settings) -> Finding:
    if shortage := find_shortage([space], settings.storage.min_free_space):
        text = f"{shortage} for {space.folder}"
        advice = "Free up disk space: no new message starts until then."
        return Finding("disk", FindingState.ERROR, text, advice)
    text = f"{show_size(space.free)} free for {space.folder}"
    if space.free < _LITTLE_SPACE:
        return Finding("disk", FindingState.WARNING, text, "Free up disk space soon.")
    return Finding("disk", FindingState.OK, text)


def check_privacy(settings: Settings) -> list[Finding]:
    """Warn of folders and files that other users of this machine can open."""
    found = list(islice(_loose(settings), _MOST_LOOSE_FILES))
    if not found:
        text = "only you can read the data folder, the store and the keys"
        return [Finding("privacy", FindingState.OK, text)]
    return [
        Finding(
            "privacy",
            FindingState.WARNING,
            f"{path} has mode {mode:04o}: other users of this machine have access",
            f"Run: chmod go= {path}",
        )
        for path, mode in found
    ]


def _loose(settings: Settings) -> Iterator[tuple[Path, int]]:
    for path in _private_paths(settings):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if not is_private(mode):
            yield path, mode


def _private_paths(settings: Settings) -> Iterator[Path]:
    """Yield folders before their contents. Whatever lies deeper in a private folder is private."""
    data = settings.storage.data.absolute()
    yield data
    yield from (data / each for each in (KEY_FILE, "outbox", "journals", "metrics"))
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
    """Return whether `postroom.toml` has a secret setting or an application's environment."""
    if any(each.origin == FILE and each.has_secret for each in settings.found.values()):
        return True
    try:
        apps = tomllib.loads(file.read_text()).get("apps", [])
    except (OSError, ValueError):
        return False  # there is none, or it is reported elsewhere
    return isinstance(apps, list) and any(
        isinstance(app, dict) and app.get("environment") for app in apps
    )
