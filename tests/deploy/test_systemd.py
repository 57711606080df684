"""The units: systemd itself reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, RUNNING_COMMANDS
from tests.services.missing import require

UNITS = DEPLOY / "systemd"
EXPOSURE = 25
"""In tenths. 17 with systemd 252; later ones may look at more."""


def service(unit: str) -> list[str]:
    """The lines of the part [Service] that are settings."""
    text = (UNITS / unit).read_text().partition("[Service]")[2].partition("[Install]")[0]
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    """The units as they would be on a machine where Postroom is installed."""
    program = shutil.which("true")
    files = []
    for name, installed_as in (
        ("postroom.service", "postroom.service"),
        ("postroom@.service", "postroom@web.service"),
    ):
        text = (UNITS / name).read_text().replace("/opt/postroom/bin/postroom", str(program))
        files.append(tmp_path / installed_as)
        files[-1].write_text(text)
    return files


def systemd_analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        require("systemd-analyze", "apt-get install systemd")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_systemd_understands_every_line(installed: list[Path]) -> None:
    answer = systemd_analyze("verify", *installed)
    # It may have something to say about other units of this machine.
    ours = [line for line in answer.stderr.splitlines() if "postroom" in line]
    assert ours == []


def test_systemd_finds_little_that_a_service_may_do(installed: list[Path]) -> None:
    for unit in installed:
        answer = systemd_analyze("security", "--offline=true", f"--threshold={EXPOSURE}", unit)
        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_both_units_have_the_same_rights_and_the_same_end() -> None:
    different = {"ExecStart", "EnvironmentFile"}
    one, many = (
        [line for line in service(unit) if line.split("=")[0] not in different]
        for unit in ("postroom.service", "postroom@.service")
    )
    assert one == many


def test_each_command_of_a_unit_is_one_that_runs() -> None:
    assert "ExecStart=/opt/postroom/bin/postroom up" in service("postroom.service")
    started = re.findall(r"postroom@(\w+)", (UNITS / "postroom@.service").read_text())
    assert {*started, "up"} <= RUNNING_COMMANDS
