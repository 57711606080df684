"""Suppressions on the command line."""

from pathlib import Path

import pytest

from tests.services.postroom import CommandLine


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_addresses_are_suppressed_shown_and_lifted(cli: CommandLine, tmp_path: Path) -> None:
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
    cli.ok("subscriber", "add", "news", "ann@example.org", "--verified")
    made = cli.json("suppression", "add", "ann@example.org", "--reason", "complaint")
    assert (made["email"], made["list"], made["source"]) == (
        "ann@example.org",
        None,
        "command line",
    )
    assert "ann@example.org" in cli.ok("suppression", "ls", "--search", "ANN")
    assert "Suppressed on every list: complaint." in cli.ok("trace", "ann@example.org")
    [traced] = cli.json("trace", "ann@example.org")["suppressions"]
    assert traced["reason"] == "complaint"
    file = tmp_path / "out.csv"
    assert "1 suppression exported" in cli.ok("suppression", "export", str(file))
    cli.ok("suppression", "lift", "ann@example.org")
    assert cli.json("subscriber", "show", "news", "ann@example.org")["blocked"] is None
    assert "1 suppressed, 0 already suppressed" in cli.ok("suppression", "import", str(file))
    shown = cli.json("suppression", "show", "ann@example.org")
    assert shown["reason"] == "complaint"


def test_the_last_day_of_a_suppression_counts(cli: CommandLine) -> None:
    made = cli.json("suppression", "add", "ann@example.org", "--until", "2999-12-31")
    assert made["expires_at"] == "3000-01-01T00:00:00.000Z"
    late = cli.fails("suppression", "add", "bob@example.org", "--until", "2020-01-31")
    assert late == "until: must be today or a later day, not 2020-01-31"
