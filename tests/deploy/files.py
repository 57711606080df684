"""The files under deploy/, and what the program has that they may use."""

from __future__ import annotations

from pathlib import Path

from postroom.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RUNNING_COMMANDS = set(COMMANDS["Run"])


def settings_in(file: Path) -> dict[str, str]:
    """What systemd and Docker read from a file of NAME=VALUE lines."""
    lines = (line.strip() for line in file.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
