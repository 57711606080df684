"""What every long-running process of Postroom sets up to be observed: logs, metrics, traces."""

from __future__ import annotations

from postroom.folders import make_writable
from postroom.logs import set_up_logs
from postroom.metrics import share_metrics
from postroom.settings import Settings
from postroom.spans import set_up_spans


def set_up_observation(settings: Settings, part: str) -> None:
    """For this process, which is a `part` such as `web` or `sender`. After a fork, not before.

    `FolderError` if the data folder cannot be used.
    """
    make_writable(settings.data, "the data folder")
    set_up_logs(settings.text("log_format"))
    share_metrics(settings.data / "metrics")
    set_up_spans(part, settings.text("traces_endpoint"))
