"""What is under deploy/ uses only names that exist."""

from __future__ import annotations

import json
import re

from postroom.observability.metrics import MEASURES
from postroom.settings import SETTINGS
from tests.deploy.files import DEPLOY, RUNNING_COMMANDS


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


def test_the_dashboard_groups_only_by_labels_that_are_measured() -> None:
    dashboard = json.loads((DEPLOY / "grafana/postroom.json").read_text())
    labels = {measure.name: {*measure.labels, "le"} for measure in MEASURES}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"postroom_\w+", target["expr"]))
            known = {
                label
                for name in names
                for label in labels[re.sub(r"_(bucket|count|sum)$", "", name)]
            }
            grouped = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            shown = re.findall(r"\{\{ ?(\w+) ?\}\}", target.get("legendFormat", ""))
            used = {label.strip() for group in grouped for label in group.split(",")} | {*shown}
            assert used <= known, f"{panel['title']}: {used - known}"


def test_every_setting_that_is_used_exists() -> None:
    variables = {setting.variable for setting in SETTINGS}
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            found = set(re.findall(r"\bPOSTROOM_[A-Z_]+", file.read_text()))
            assert found <= variables, f"{file} uses {found - variables}"


def test_the_apps_on_azure_are_parts_that_run() -> None:
    template = (DEPLOY / "azure/main.bicep").read_text()
    parts = template[template.index("var parts") : template.index("resource apps")]
    assert set(re.findall(r"\{\s+name: '(\w+)'\s+most", parts)) | set(
        re.findall(r"\{ name: '(\w+)', most", parts)
    ) == {"web", "scheduler", "host"}
    assert {"web", "scheduler", "host"} <= RUNNING_COMMANDS
