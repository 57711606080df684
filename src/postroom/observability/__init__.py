"""Logs, metrics and traces."""

from __future__ import annotations

from pathlib import Path

from postroom.folders import make_writable
from postroom.observability.logs import set_up_logs
from postroom.observability.metrics import share_metrics
from postroom.observability.spans import set_up_spans


def set_up_observability(part: str, *, data: Path, log_format: str, traces_endpoint: str) -> None:
    """Set up this process, a `part` such as `web` or `sender`. Call it after a fork, not before.
    `FolderError` if the data folder cannot be used."""
    make_writable(data, "the data folder")
    set_up_logs(log_format)
    share_metrics(data / "metrics")
    set_up_spans(part, traces_endpoint)
