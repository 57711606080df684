"""This machine: the data folder and the disk under it."""

from __future__ import annotations

import os

from postroom.checks.findings import Finding, State
from postroom.domain.disk_space import FolderSpace, find_shortage
from postroom.domain.sizes import show_size
from postroom.folders import nearest_existing
from postroom.services.operations.disk_space import measure
from postroom.settings import Settings

# A million emails with their records take about half of this.
_LITTLE = 1_000_000_000


def check_data_folder(settings: Settings) -> Finding:
    """The nearest folder above that is there decides whether it can be made."""
    path = settings.storage.data.absolute()
    there = nearest_existing(path)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "data", State.ERROR, f"{path} cannot be written", "Choose another with --data."
        )
    news = "can be written" if there == path else "is made when it is needed"
    return Finding("data", State.OK, f"{path} {news}")


def check_disk(settings: Settings) -> list[Finding]:
    """Look at each disk that fills up while emails are sent."""
    return [_check_space(each, settings) for each in measure(settings.storage.growing_folders)]


def _check_space(space: FolderSpace, settings: Settings) -> Finding:
    if shortage := find_shortage([space], settings.storage.min_free_space):
        text = f"{shortage} for {space.folder}"
        return Finding(
            "disk", State.ERROR, text, "Free disk space: no new message starts until then."
        )
    text = f"{show_size(space.free)} free for {space.folder}"
    if space.free < _LITTLE:
        return Finding("disk", State.WARNING, text, "Free disk space soon.")
    return Finding("disk", State.OK, text)
