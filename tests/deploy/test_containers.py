"""The image and the compose file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from postroom.settings import SETTINGS, load_settings
from tests.deploy.files import DEPLOY, ROOT, RUNNING_COMMANDS, settings_in

COMPOSE = DEPLOY / "compose"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PORT = next(setting.default for setting in SETTINGS if setting.name == "port")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.yaml.decode((COMPOSE / "compose.yaml").read_bytes())
    return found


def parts(compose: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in compose["services"].items() if "command" in part}


def test_the_builder_gets_what_the_image_copies_and_nothing_else() -> None:
    copied = {
        source
        for line in re.findall(r"^COPY (?!--)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_checks_its_health_where_it_responds() -> None:
    assert f"EXPOSE {PORT}\n" in DOCKERFILE
    assert f"http://127.0.0.1:{PORT}/healthz" in DOCKERFILE
    assert 'CMD ["up"]' in DOCKERFILE


def test_each_part_of_the_compose_file_is_a_command_that_runs(compose: dict[str, Any]) -> None:
    assert {name: part["command"] for name, part in parts(compose).items()} == {
        name: [name] for name in ("web", "scheduler", "host")
    }
    assert set(parts(compose)) <= RUNNING_COMMANDS


def test_only_the_part_with_a_web_server_is_asked_for_its_health(compose: dict[str, Any]) -> None:
    without = {
        name
        for name, part in parts(compose).items()
        if part.get("healthcheck", {}).get("disable") is True
    }
    assert without == set(parts(compose)) - {"web"}
    assert compose["services"]["web"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]


def test_the_parts_share_the_folder_that_the_image_keeps_its_data_in(
    compose: dict[str, Any],
) -> None:
    folder = re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE)
    assert f"POSTROOM_DATA={folder[0]}" in DOCKERFILE
    assert all(part["volumes"] == [f"data:{folder[0]}"] for part in parts(compose).values())
    used = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service["volumes"]
    }
    assert used == set(compose["volumes"])


def test_the_example_settings_are_understood_and_fit_the_database(tmp_path: Path) -> None:
    settings = load_settings(settings_in(COMPOSE / "postroom.env.example"), tmp_path)
    store = urlsplit(settings.storage.url)
    assert {
        "POSTGRES_USER": store.username,
        "POSTGRES_PASSWORD": store.password,
        "POSTGRES_DB": store.path.strip("/"),
    } == settings_in(COMPOSE / "postgres.env.example")
    assert store.hostname == "database"


def test_what_is_deployed_is_what_is_tested() -> None:
    """The lock files agree, package by package."""

    def pins(name: str) -> set[str]:
        lines = (ROOT / "requirements" / name).read_text().splitlines()
        return {line.partition(" ;")[0].rstrip(" \\") for line in lines if "==" in line}

    assert pins("run.txt") < pins("dev.txt")
