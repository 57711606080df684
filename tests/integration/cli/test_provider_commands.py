"""Providers and warm-up plans on the command line."""

from pathlib import Path

from tests.services.postroom import CommandLine


def test_a_provider_is_limited_shown_and_reset(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    assert cli.json("provider", "ls")["items"] == []
    made = cli.json("provider", "set", "gmail.com", "--rate", "20", "--connections", "4")
    assert (made["per_second"], made["max_connections"]) == (20.0, 4)
    assert "20/s" in cli.ok("provider", "ls")
    assert "gmail.com" in cli.ok("provider", "show", "googlemail.com")
    assert cli.json("provider", "reset", "gmail.com")["max_per_second"] == 20.0
    assert cli.json("provider", "set", "gmail.com", "--rate", "none")["max_per_second"] is None
    own = ("--emails-per-connection", "40", "--rest", "30")
    shown = cli.ok("provider", "set", "gmail.com", *own)
    for words in ("40 emails", "30 minutes after throttling"):
        assert words in shown
    assert "120 minutes after [TSS04]" in cli.ok("provider", "show", "yahoo.com")
    kept = cli.json("provider", "set", "gmail.com", "--rest", "none")
    assert (kept["max_emails_per_connection"], kept["min_rest_minutes"]) == (40, None)
    assert cli.run("provider", "set", "gmail.com", "--rest", "soon").returncode == 2
    wrong = cli.run("provider", "set", "gmail.com", "--rate", "0")
    assert wrong.returncode == 1
    assert "per_second: must be between 0.001 and 100,000, not 0" in wrong.stderr
    assert cli.run("provider", "set", "gmail.com", "--rate", "many").returncode == 2


def test_a_warm_up_is_planned_shown_and_ended(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    saved = cli.ok("warmup", "set", "contoso.com", "--volumes", "50,100", "--starts", "2026-11-01")
    assert saved.strip() == "Warm-up of contoso.com saved: 2 days, from 2026-11-01 to 2026-11-02."
    assert cli.json("warmup", "set", "all")["today"] == 50
    assert "contoso.com" in cli.ok("warmup", "ls")
    assert cli.json("warmup", "remove", "all") == {"domain": "all", "removed": True}
    assert cli.fails("warmup", "set", "all", "--volumes", "x").startswith("volumes: must be whole")
    assert "there is no warm-up plan" in cli.fails("warmup", "remove", "all")
