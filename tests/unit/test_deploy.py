"""What is under deploy/ fits the program."""

from __future__ import annotations

import json
import re
from pathlib import Path

from postroom.cli.main import COMMANDS
from postroom.metrics import MEASURES
from postroom.settings import SETTINGS

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_dashboard_asks_only_for_what_is_measured() -> None:
    dashboard = json.loads((DEPLOY / "grafana/postroom.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"postroom_\w+", target["expr"])
    }
    measured = {measure.name for measure in MEASURES}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked} == measured


def test_every_setting_and_command_that_is_used_exists() -> None:
    variables = {setting.variable for setting in SETTINGS}
    commands = {name for part in COMMANDS.values() for name in part}
    used = {"web", "scheduler", "host", "up"}
    assert used <= commands
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            found = set(re.findall(r"\bPOSTROOM_[A-Z_]+", file.read_text()))
            assert found <= variables, f"{file} uses {found - variables}"
