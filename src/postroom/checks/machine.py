"""This machine: the data folder and the disk under it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from postroom.checks.findings import Finding, State
from postroom.settings import Settings

# A million emails with their records take about half of this.
_LITTLE = 1_000_000_000
_TOO_LITTLE = 100_000_000


def check_data_folder(settings: Settings) -> Finding:
    """The nearest folder above that is there decides whether it can be made."""
    path = settings.data.absolute()
    there = _nearest(path)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "data", State.ERROR, f"{path} cannot be written", "Choose another with --data."
        )
    news = "can be written" if there == path else "is made when it is needed"
    return Finding("data", State.OK, f"{path} {news}")


def check_disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(_nearest(settings.data.absolute())).free
    text = f"{free / 1e9:,.1f} GB free under the data folder"
    if free < _TOO_LITTLE:
        return Finding("disk", State.ERROR, text, "Make room before anything is sent.")
    if free < _LITTLE:
        return Finding("disk", State.WARNING, text, "Make room, or choose another with --data.")
    return Finding("disk", State.OK, text)


def _nearest(path: Path) -> Path:
    return next((each for each in (path, *path.parents) if each.exists()), path)
