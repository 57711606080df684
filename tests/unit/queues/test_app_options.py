"""What can be said about an application, and what is refused."""

import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from postroom.domain.errors import Invalid
from postroom.domain.queues.app_options import FIELDS, OnPoison, parse_path
from postroom.domain.queues.apps import App, app_values, parse_app
from postroom.domain.units import parse_duration, show_duration

EVERYTHING = {
    "path": "/msmqWebHost/orderProcessing",
    "handler": "orders:process",
    "min_processes": 0,
    "max_processes": 4,
    "concurrency": 3,
    "idle_timeout": "20m",
    "handler_timeout": "90s",
    "receive_retry_count": 5,
    "max_retry_cycles": 2,
    "retry_cycle_delay": "30m",
    "on_poison": "move",
    "drain_timeout": "500ms",
    "recycle_after": "2h",
    "recycle_messages": 1000,
    "recycle_memory": "200MB",
    "memory_limit": "300MB",
    "cpu_limit": "1m",
    "open_files": 256,
    "user": "shop",
    "environment": {"SHOP_KEY": "a secret"},
}


def test_every_option_is_read() -> None:
    app = parse_app(EVERYTHING, folder="/srv/orders", origin="mx1:/srv/orders/postroom.toml")
    assert app == App(
        path="/msmqWebHost/orderProcessing",
        handler="orders:process",
        folder="/srv/orders",
        concurrency=3,
        handler_timeout=timedelta(seconds=90),
        drain_timeout=timedelta(seconds=0.5),
        recycle_after=timedelta(hours=2),
        recycle_messages=1000,
        recycle_memory=200_000_000,
        memory_limit=300_000_000,
        cpu_limit=timedelta(minutes=1),
        open_files=256,
        user="shop",
        environment={"SHOP_KEY": "a secret"},
        origin="mx1:/srv/orders/postroom.toml",
    )
    assert app.principal == "app:/msmqWebHost/orderProcessing"
    again = {name: value for name, value in app_values(app).items() if value is not None}
    assert again.pop("environment") == ["SHOP_KEY"], "values may be secrets"
    again["environment"] = app.environment
    assert parse_app(again, folder=app.folder, origin=app.origin) == app
    assert msgspec.json.decode(msgspec.json.encode(app), type=App) == app


def test_defaults_are_those_of_the_specification() -> None:
    app = parse_app({"path": "/", "command": ["./process-order", "--quiet"]})
    assert (app.path, app.command) == ("/", ("./process-order", "--quiet"))
    assert (app.min_processes, app.max_processes) == (0, 4)
    assert app.idle_timeout == timedelta(minutes=20)
    assert (app.receive_retry_count, app.max_retry_cycles) == (5, 2)
    assert app.retry_cycle_delay == timedelta(minutes=30)
    assert app.on_poison is OnPoison.MOVE
    assert app.runs == "./process-order --quiet"


def test_a_revision_changes_with_the_configuration_alone() -> None:
    app = parse_app(EVERYTHING, origin="a")
    assert parse_app(EVERYTHING, origin="b").revision == app.revision
    assert parse_app({**EVERYTHING, "max_processes": 5}).revision != app.revision
    assert parse_app(EVERYTHING, folder="/other").revision != app.revision


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        (
            {"max_processes": 1, "min_processes": 2},
            "max_processes",
            "at least min_processes (2), not 1",
        ),
        ({"max_processes": 0}, "max_processes", "from 1 to 1,000"),
        ({"min_processes": -1}, "min_processes", "from 0"),
        ({"min_processes": True}, "min_processes", "whole number"),
        ({"concurrency": "4"}, "concurrency", "whole number"),
        (
            {"on_poison": "burn"},
            "on_poison",
            "must be one of move, reject, drop, fault, not 'burn'",
        ),
        ({"idle_timeout": "20 minutes"}, "idle_timeout", "not '20 minutes'"),
        ({"idle_timeout": 20}, "idle_timeout", "not 20"),
        ({"idle_timeout": "0s"}, "idle_timeout", "must be from 10ms"),
        ({"retry_cycle_delay": "8d"}, "retry_cycle_delay", "must be from 0s to 7d, not 8d"),
        ({"recycle_memory": "plenty"}, "recycle_memory", "written like 200MB"),
        ({"recycle_memory": 12}, "recycle_memory", "at least 1MB"),
        ({"memory_limit": "1MB"}, "memory_limit", "at least 64MB"),
        ({"cpu_limit": "10ms"}, "cpu_limit", "must be from 1s to 366d, not 10ms"),
        ({"open_files": 3}, "open_files", "from 32 to 1,000,000, not 3"),
        ({"user": "no body"}, "user", "the name of a user of this machine, not 'no body'"),
        ({"environment": ["A"]}, "environment", "table of names and texts"),
        ({"environment": {"A-B": "1"}}, "environment", "'A-B' cannot be the name"),
        ({"environment": {"A": 1}}, "environment", "the value of A must be text"),
        ({"environment": {"POSTROOM_STORE": "x"}}, "environment", "POSTROOM_STORE is reserved"),
        ({"environment": {"A": "x" * 40_000}}, "environment", "shorter than 32,000"),
        ({"handler": "orders"}, "handler", "module:callable"),
        ({"handler": "orders:process; rm"}, "handler", "module:callable"),
        ({"command": "cat"}, "command", "list of strings"),
        ({"command": [""]}, "command", "names a program"),
        ({"command": ["cat"]}, "handler", "not both"),
        ({"handler": None}, "handler", "module:callable"),
        ({"serve": "postroom.hosted:serve_sender"}, "serve", "is not an option"),
        ({"max_proceses": 1}, "max_proceses", "is not an option"),
        ({"path": "shop"}, "path", "must begin with a slash: /shop"),
        ({"path": "/shop\n"}, "path", ""),
        ({"path": 3}, "path", "text"),
        ({"path": "/shop;retry"}, "path", "the host's own"),
        ({"path": "/shop;Dead-Letter"}, "path", "the host's own"),
        ({"path": "/mail/schedule"}, "path", "reserved for Postroom"),
        ({"path": "/Host/Bell/x"}, "path", "reserved for Postroom"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_field(
    change: dict[str, object], field: str, problem: str
) -> None:
    if field == "path" and problem == "":
        assert parse_app({**EVERYTHING, **change}).path == "/shop"  # trimmed
        return
    with pytest.raises(Invalid) as refused:
        parse_app({**EVERYTHING, **change})
    assert refused.value.field == field
    assert problem in refused.value.problem


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Invalid, match="path: is missing"):
        parse_app({"handler": "orders:process"})
    with pytest.raises(Invalid, match="give handler or command: one is required"):
        parse_app({"path": "/"})


def test_paths_are_kept_in_one_form() -> None:
    assert parse_path("//Shop//orders/") == "/Shop/orders"
    assert parse_path("/") == "/"
    assert parse_path("/shop/orders;poison") == "/shop/orders;poison"


@pytest.mark.parametrize("text", ["500ms", "30s", "20m", "2h", "5d", "0s", "90s", "36h"])
def test_durations_are_shown_as_they_are_written(text: str) -> None:
    assert show_duration(parse_duration(text)) == text


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "٥s", "1e3s", "9999999999d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_duration(text)


def test_every_field_of_an_application_can_be_set_or_is_set_by_postroom() -> None:
    fields = {each.name for each in msgspec.structs.fields(App)}
    assert fields == {*FIELDS, "serve", "folder", "origin"}
    assert {*EVERYTHING, "command"} == set(FIELDS), "EVERYTHING lacks an option"


def test_the_table_of_options_in_the_documentation_is_complete() -> None:
    page = Path(__file__).parents[3] / "docs" / "host.md"
    table = page.read_text().split("## Options of an application")[1].split("\n\n")[1]
    rows = [[cell.strip() for cell in row.split("|")[1:3]] for row in table.splitlines()[2:]]
    described = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    assert list(described) == list(FIELDS)
    for name, value in app_values(App(path="/")).items():
        if name not in ("path", "environment") and value is not None:
            assert described[name] == f"`{value}`", name
