"""A new secret key, as an operator introduces it: settings, restart, `postroom store rekey`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyotp

from postroom.services.accounts.users import Role
from postroom.settings import load_settings
from postroom.storage import Entity
from postroom.wiring import opened_services, opened_store
from tests.services.postroom import CommandLine
from tests.services.waiting import accepts_connections, free_ports, wait_until

ANN = "ann@example.org"
NEW_KEY = "0123456789abcdef" * 4


def enrol(folder: Path) -> str:
    """A second factor under the key of the data folder; returns its secret."""
    settings = load_settings({"POSTROOM_DATA": str(folder / "postroom-data")}, folder)

    async def work() -> str:
        async with opened_services(settings) as services:
            await services.users.create(ANN, "correct horse battery staple", Role.VIEWER)
            secret = pyotp.random_base32()
            await services.users.turn_on_second_factor(ANN, secret, pyotp.TOTP(secret).now())
            return secret

    return asyncio.run(work())


def stored(folder: Path, change: str = "") -> str:
    settings = load_settings({"POSTROOM_DATA": str(folder / "postroom-data")}, folder)

    async def work() -> str:
        async with opened_store(settings) as store:
            users = store.table("users")
            if change:
                await users.merge(Entity("user", ANN, {"TotpSecret": change}))
            entity = await users.get("user", ANN)
            assert entity is not None
            return str(entity.properties["TotpSecret"])

    return asyncio.run(work())


def found(cli: CommandLine, secret_key: str = "") -> list[dict[str, Any]]:
    done = cli.run("check", "--json", secret_key=secret_key)
    return [each for each in json.loads(done.stdout)["findings"] if each["part"] == "secrets"]


def test_a_new_secret_key_is_introduced_step_by_step(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    enrol(tmp_path)
    old_key = (tmp_path / "postroom-data" / "secret.key").read_text()
    [finding] = found(cli)
    assert (finding["state"], finding["text"]) == (
        "ok",
        "1 in the store, encrypted under the current key",
    )

    # The key of the data folder still counts beside the new one.
    [finding] = found(cli, secret_key=NEW_KEY)
    assert finding["state"] == "warning"
    assert "postroom store rekey" in finding["advice"]

    # On a machine without that file it has to be set.
    (tmp_path / "postroom-data" / "secret.key").unlink()
    [finding] = found(cli, secret_key=NEW_KEY)
    assert finding["state"] == "error"
    printed = cli.fails("store", "rekey", secret_key=NEW_KEY)
    assert "1 of 1 secrets cannot be decrypted" in printed

    old_keys = f"{'x' * 40}, {old_key}"
    printed = cli.ok("store", "rekey", secret_key=NEW_KEY, old_secret_keys=old_keys)
    assert printed.startswith("Encrypted with the current key: 1 of 1 secrets (1 had an old")
    assert cli.json("store", "rekey", secret_key=NEW_KEY) == {
        "current": 1,
        "old_key": 0,
        "clear": 0,
        "unreadable": 0,
    }
    assert [each["state"] for each in found(cli, secret_key=NEW_KEY)] == ["ok"]
    shown = cli.ok("check", "--json", secret_key=NEW_KEY, old_secret_keys=old_keys)
    assert NEW_KEY not in shown
    assert old_key not in shown


def test_clear_text_of_an_earlier_version_is_encrypted_when_the_web_server_starts(
    tmp_path: Path,
) -> None:
    cli = CommandLine(tmp_path)
    secret = enrol(tmp_path)
    assert stored(tmp_path, change=secret) == secret
    [finding] = found(cli)
    assert (finding["state"], finding["text"]) == (
        "warning",
        "1 of 1 in the store in clear text",
    )
    [port] = free_ports(1)
    web = cli.start("web", "--port", str(port))
    try:
        wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
        wait_until(
            lambda: stored(tmp_path).startswith("enc1:"), seconds=30, what="an encrypted secret"
        )
    finally:
        web.terminate()
        web.communicate(timeout=60)


def test_an_old_key_that_is_too_short_is_refused_without_showing_it(tmp_path: Path) -> None:
    printed = CommandLine(tmp_path).fails("check", old_secret_keys="short-and-secret")
    assert "old_secret_keys" in printed
    assert "short-and-secret" not in printed
