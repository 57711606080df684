"""The documentation says what the code does: the reference is complete, links lead somewhere, and
the site is built without a warning."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from fastapi.routing import APIRoute

from postroom.cli.main import postroom as command_line
from postroom.domain.messages import emails, messages
from postroom.observability.metrics import MEASURES
from postroom.settings import SETTINGS
from postroom.web.api.app import ROUTERS
from scripts.docs_reference import REFERENCE
from tests.docs.examples import examples_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
]
# Rows of the README → where they were measured.
FIGURES = {
    "Postroom on SQLite": ("mail", "SQLite", "ours"),
    "Postroom on PostgreSQL": ("mail", "PostgreSQL", "ours"),
    "`aiosmtplib`, 8 connections, sending only, nothing recorded": (
        "mail",
        "aiosmtplib, 8 connections",
        "ours",
    ),
    "`smtplib`, 10 threads, sending only": ("mail", "smtplib, 10 threads", "ours"),
    "upper bound: raw bytes into pipelined connections of the mail server": (
        "mail",
        "SQLite",
        "baseline",
    ),
}
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINKS = re.compile(r"\]\(([^()\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_FROM_ELSEWHERE = re.compile(r"<(?:script|img|iframe|link rel=\"(?:stylesheet|icon|preconnect)\")"
                             r"[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*")  # fmt: skip


def page(name: str) -> str:
    return REFERENCE[f"reference/{name}.md"]()


# -- The reference --------------------------------------------------------------------------------


def test_every_setting_is_in_the_reference() -> None:
    shown = page("settings")
    for setting in SETTINGS:
        assert f"| `{setting.name}`<br>`{setting.variable}` |" in shown


def test_every_command_is_in_the_reference_with_its_options() -> None:
    shown = page("commands")
    commands = list(_commands(command_line, "postroom"))
    assert len(commands) > 30
    for name, command in commands:
        _, heading, section = shown.partition(f"\n### `{name}`\n")
        assert heading, name
        section = section.partition("\n### ")[0]
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for option in (*parameter.opts, *parameter.secondary_opts):
                    assert f"`{option}`" in section, f"{name} {option}"
            else:
                assert parameter.make_metavar(click.Context(command)) in section, name


def test_no_list_of_commands_cuts_a_summary_off() -> None:
    for group in _groups(command_line):
        context = click.Context(group, terminal_width=80)
        formatter = context.make_formatter()
        group.format_commands(context, formatter)
        assert "..." not in formatter.getvalue(), formatter.getvalue()


def _groups(group: click.Group) -> Iterator[click.Group]:
    yield group
    context = click.Context(group)
    for name in group.list_commands(context):
        if isinstance(command := group.get_command(context, name), click.Group):
            yield from _groups(command)


def _commands(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(name, command)]
    context = click.Context(command)
    return [
        each
        for sub in command.list_commands(context)
        if (inner := command.get_command(context, sub)) is not None
        for each in _commands(inner, f"{name} {sub}")
    ]


def test_every_call_of_the_api_is_in_the_reference() -> None:
    shown = page("api")
    routes = [each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute)]
    assert routes
    for route in routes:
        path = re.sub(r":\w+}", "}", route.path)
        for method in route.methods or ():
            assert f"\n### `{method} {path}`\n" in shown


def test_every_error_is_in_the_reference() -> None:
    shown = page("errors")
    for name in _errors_in_the_source():
        assert f"\n| `{name}` |" in shown


def _errors_in_the_source() -> set[str]:
    """By name alone, without importing anything: whatever derives from `PostroomError`."""
    bases: dict[str, set[str]] = {}
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases[node.name] = {each.id for each in node.bases if isinstance(each, ast.Name)}
    found = {"PostroomError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def test_every_metric_is_in_the_reference() -> None:
    shown = page("metrics")
    for measure in MEASURES:
        assert f"| `{measure.name}` |" in shown


# -- What is drawn --------------------------------------------------------------------------------


def test_the_lives_of_messages_and_emails_are_drawn_as_the_code_has_them() -> None:
    text = (DOCS / "architecture.md").read_text()
    drawn = {
        (before, after)
        for before, after in re.findall(r"^    (\w+) --> (\w+)", text, re.MULTILINE)
        if before != after
    }
    for table in (messages.TRANSITIONS, emails.TRANSITIONS):
        states = {each.value for each in table}
        allowed = {(each.value, to.value) for each, after in table.items() for to in after}
        assert {pair for pair in drawn if states.issuperset(pair)} == allowed


def test_the_layers_are_shown_as_they_are_checked() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [re.findall(r"\w+", each) for each in contract["contracts"][0]["layers"]]
    text = (DOCS / "architecture.md").read_text()
    _, _, table = text.partition("| in `src/postroom` | |\n|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert [re.findall(r"`(\w+)`", row.split("|")[1]) for row in rows] == layers


# -- The site -------------------------------------------------------------------------------------


def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    """As `make docs` does it, without a network."""
    nobody = "http://127.0.0.1:9"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "http_proxy": nobody, "https_proxy": nobody},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert {"index.html", "tutorial.html", "api.html", "mail.html"} <= {each.name for each in pages}
    for each in pages:
        html = each.read_text()
        assert not _FROM_ELSEWHERE.findall(html), each.name
        # Where there is a diagram and nothing to draw it, the theme would fetch it from elsewhere.
        assert ('class="mermaid"' in html) == ('mermaid.min.js"></script>' in html), each.name
    has_copy = (tmp_path / "mermaid.min.js").exists()
    assert has_copy == (ROOT / "node_modules/mermaid/dist/mermaid.min.js").exists()


# -- Commands in the text --------------------------------------------------------------------------


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_command_that_is_named_exists_with_its_options(file: Path) -> None:
    text = file.read_text()
    named = [each.command for each in examples_of(file)] + re.findall(r"`(postroom [^`]+)`", text)
    for command in named:
        first, *words = shlex.split(command.replace("\n", " "), comments=True)
        if first == "postroom":
            _check_command(words, command)


def _check_command(words: list[str], shown: str) -> None:
    command: click.Command = command_line
    for word in words:
        if word.startswith("…"):
            return
        if isinstance(command, click.Group) and not word.startswith("-"):
            inner = command.get_command(click.Context(command), word)
            assert inner is not None, f"there is no command {shown}"
            command = inner
        elif word.startswith("--"):
            known = {opt for each in command.params for opt in (*each.opts, *each.secondary_opts)}
            assert word.partition("=")[0] in known | {"--help"}, f"no option {word}: {shown}"


# -- Links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_has_a_target(file: Path) -> None:
    text = _CODE.sub("", file.read_text())
    for groups in _LINKS.findall(text):
        target = "".join(groups).partition("#")[0]
        if not target or re.match(r"https?:|mailto:", target):
            continue
        found = file.parent / target
        is_made = found.is_relative_to(DOCS) and (os.path.relpath(found, DOCS) in REFERENCE)
        assert is_made or found.exists(), f"{file.relative_to(ROOT)} leads to {target}"


def test_every_decision_is_in_the_index() -> None:
    index = (DOCS / "adr/README.md").read_text()
    for decision in sorted((DOCS / "adr").glob("0*.md")):
        assert f"]({decision.name})" in index


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    readme = (ROOT / "README.md").read_text()
    for shown, (file, what, key) in FIGURES.items():
        [rounded] = re.findall(rf"^\| {re.escape(shown)} \| ([\d,]+) \|$", readme, re.MULTILINE)
        measured = next(each[key] for each in _results(file) if each["what"] == what)
        assert rounded == f"{round(measured, -2):,.0f}", f"{shown}: {measured:,.0f} in {file}.json"


def _results(file: str) -> list[dict[str, Any]]:
    sections = json.loads((ROOT / f"bench/results/{file}.json").read_text())
    return [each for section in sections.values() for each in section]


def test_the_readme_names_the_commands_that_have_to_pass() -> None:
    wanted = re.findall(r"^make \w+$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert wanted
    for command in wanted:
        assert f"`{command}`" in (ROOT / "README.md").read_text()
