"""Variables that look like settings and are none: probably mistyped."""

from __future__ import annotations

from difflib import get_close_matches

from postroom.checks.findings import Finding, State
from postroom.settings import SETTINGS, Settings


def check_variables(settings: Settings) -> list[Finding]:
    """A warning for each that is ignored."""
    known = [setting.variable for setting in SETTINGS]
    return [_ignored(name, get_close_matches(name, known, n=1)) for name in settings.unknown]


def _ignored(name: str, nearest: list[str]) -> Finding:
    advice = f"Did you mean {nearest[0]}?" if nearest else "The settings are listed above."
    return Finding("settings", State.WARNING, f"{name} is no setting and is ignored", advice)
