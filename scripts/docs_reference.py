"""The reference: pages generated from the code whenever the documentation is built.

So it is never out of date: settings, commands, errors, metrics and the API are read from their
declarations.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import click

import postroom
from postroom.cli.main import COMMANDS
from postroom.cli.main import postroom as command_line
from postroom.errors import PostroomError
from postroom.settings import SETTINGS

# -- Settings -------------------------------------------------------------------------------------


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Postroom reads a setting from the command line, the environment, or `postroom.toml` in the"
        " working directory, in this order, and uses its default otherwise. Settings with an"
        " asterisk can also be set [in the browser](../guides/mail-server.md), which counts if none"
        " of the three says otherwise."
        " `postroom check` shows every value and where it comes from, with secrets masked.",
        "",
        "```toml",
        "# postroom.toml",
        'transport = "smtp://user:password@mail.example.com:587"',
        'base_url = "https://news.example.com"',
        "```",
        "",
        "Durations are written `500ms`, `30s`, `20m`, `2h` or `5d`.",
        "",
        "| setting, variable | default | |",
        "|---|---|---|",
    ]
    for setting in SETTINGS:
        default = f"`{setting.default}`" if setting.default else ""
        secret = " Never shown." if setting.secret else ""
        browser = " *" if setting.storable else ""
        lines.append(
            f"| `{setting.name}`<br>`{setting.variable}` | {default}"
            f" | {_cell(setting.help)}{secret}{browser} |"
        )
    return _page(lines)


# -- Commands -------------------------------------------------------------------------------------

_EVERYWHERE = ("--json", "--store", "--data")


def commands_page() -> str:
    lines = [
        "# Commands",
        "",
        "Add `--help` to any command for its help. The exit status is 0 (success), 1 (failure, with"
        " one line that says why) or 2 (wrong usage).",
        "",
        "On a terminal, commands that cannot be undone ask for confirmation, unless you add"
        " `--yes`. In scripts they do not ask.",
        "",
        "Many commands also accept these options:",
        "",
        "| option | |",
        "|---|---|",
        "| `--json` | Print data for programs. |",
        "| `--store` | The URL of the store. |",
        "| `--data` | The folder for local data. |",
        "",
    ]
    context = click.Context(command_line, info_name="postroom")
    for heading, names in COMMANDS.items():
        lines += [f"## {heading}", ""]
        for name in names:
            command = command_line.get_command(context, name)
            if command is not None:
                lines += _command(command, f"postroom {name}")
    return _page(lines)


def _command(command: click.Command, name: str) -> list[str]:
    if isinstance(command, click.Group):
        return [
            line
            for sub, inner in command.commands.items()
            for line in _command(inner, f"{name} {sub}")
        ]
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"### `{name}`", "", "```text", usage, "```", "", *_help(command.help or ""), ""]
    options = [each for each in command.params if isinstance(each, click.Option)]
    rows = [_option(each) for each in options if each.opts[0] not in _EVERYWHERE]
    if rows:
        lines += ["| option | |", "|---|---|", *rows, ""]
    also = [f"`{each.opts[0]}`" for each in options if each.opts[0] in _EVERYWHERE]
    if also:
        lines += [f"Also {', '.join(also)}.", ""]
    return lines


def _help(text: str) -> list[str]:
    """Paragraphs; those that click leaves as they are (`\\b`) are examples."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            lines += ["```text", *paragraph.split("\n")[1:], "```", ""]
        else:
            lines += [_escaped(paragraph), ""]
    return lines[:-1]


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    told = [_cell(option.help or "")]
    if isinstance(option.type, click.Choice):
        told.append(f"One of {', '.join(f'`{each}`' for each in option.type.choices)}.")
    if option.required:
        told.append("Required.")
    if option.show_default and option.default not in (None, False):
        told.append(f"Default: `{option.default}`.")
    return f"| {names} | {' '.join(filter(None, told))} |"


# -- Errors ---------------------------------------------------------------------------------------


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Every error that Postroom raises itself, with its base class. The command line prints its"
        " text in one line and exits with status 1; the API returns a problem"
        " (see [statuses](api.md#problems)).",
        "",
        "| error | base class | |",
        "|---|---|---|",
    ]
    for error in sorted(errors(), key=lambda each: each.__name__):
        parents = ", ".join(
            f"`{each.__name__}`" for each in error.__bases__ if each is not Exception
        )
        lines.append(f"| `{error.__name__}` | {parents} | {_cell(_first(error.__doc__))} |")
    return _page(lines)


def errors() -> set[type[PostroomError]]:
    """Return every public error of the package."""
    for module in pkgutil.walk_packages(postroom.__path__, "postroom."):
        if module.name.rpartition(".")[2] not in ("__main__", "zygote"):
            importlib.import_module(module.name)
    found: set[type[PostroomError]] = {PostroomError}
    waiting = [PostroomError]
    while waiting:
        for each in waiting.pop().__subclasses__():
            if each not in found and each.__module__.startswith("postroom."):
                found.add(each)
                waiting.append(each)
    return {each for each in found if not each.__name__.startswith("_")}


# -- API ------------------------------------------------------------------------------------------


def api_page() -> str:
    from postroom.services.accounts.api_keys import SCOPES
    from postroom.web.api.app import document
    from postroom.web.api.documenting import PLACE
    from postroom.web.api.problems import KINDS

    openapi = document()
    lines = [
        "# API",
        "",
        _escaped(openapi["info"]["description"]),
        f"All paths begin with `{PLACE}`. A running Postroom has the same reference with an example"
        f" for each call at `/api/docs`, and for programs at `{PLACE}/openapi.json`.",
        "",
        "## Scopes",
        "",
        "Scopes limit what a key may do. A key without scopes may do everything.",
        "",
        "| scope | |",
        "|---|---|",
        *(f"| `{scope.value}` | {_cell(meaning)} |" for scope, meaning in SCOPES.items()),
        "",
    ]
    tag = ""
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                lines += [f"## {tag}", ""]
            lines += _operation(openapi, method.upper(), path, operation)
    lines += [
        "## Problems",
        "",
        "| status | | what to do |",
        "|---|---|---|",
        *(f"| {status} | {kind.title} | {_cell(kind.advice)} |" for status, kind in KINDS.items()),
    ]
    return _page(lines)


def _operation(
    openapi: dict[str, Any], method: str, path: str, operation: dict[str, Any]
) -> list[str]:
    from postroom.web.api.documenting import SCOPE

    lines = [f"### `{method} {path}`", "", f"{_escaped(operation['summary'])}.", ""]
    if operation.get("description"):
        lines += [_escaped(operation["description"]), ""]
    lines += [f"Scope: `{operation[SCOPE]}`.", ""]
    fields = [
        *(
            _field(openapi, each["name"], each["in"], each)
            for each in operation.get("parameters", [])
        ),
        *(
            _field(openapi, name, "header", {"description": meaning})
            for name, meaning in operation.get("x-headers", {}).items()
        ),
        *_body_fields(openapi, operation),
    ]
    if fields:
        lines += ["| field | in | |", "|---|---|---|", *fields, ""]
    statuses = ", ".join(f"{status}" for status in sorted(operation["responses"]))
    return [*lines, f"Returns {statuses}.", ""]


def _body_fields(openapi: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    if schema is None:
        return []
    found = _resolved(openapi, schema)
    needed = found.get("required", [])
    return [
        _field(openapi, name, "body", {"schema": each, "required": name in needed})
        for name, each in found.get("properties", {}).items()
    ]


def _field(openapi: dict[str, Any], name: str, place: str, about: dict[str, Any]) -> str:
    schema = _resolved(openapi, about.get("schema", {}))
    told = [_cell(about.get("description") or schema.get("description", ""))]
    if "enum" in schema:
        told.append(f"One of {', '.join(f'`{each}`' for each in schema['enum'])}.")
    if about.get("required"):
        told.append("Required.")
    return f"| `{name}` | {place} | {' '.join(filter(None, told))} |"


def _resolved(openapi: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference leads to; of alternatives, the one that is not null."""
    if "$ref" in schema:
        found = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return _resolved(openapi, found)
    if "anyOf" in schema and "properties" not in schema:
        others = {key: value for key, value in schema.items() if key != "anyOf"}
        [first, *_] = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return {**_resolved(openapi, first), **others}
    return schema


# -- Metrics --------------------------------------------------------------------------------------


def metrics_page() -> str:
    from postroom.observability.metrics import MEASURES, Count, Durations

    kinds: dict[type, str] = {Count: "counter", Durations: "histogram"}
    lines = [
        "# Metrics",
        "",
        "Served at `/metrics` in the Prometheus text format, for API keys with the scope `read`.",
        "Counters and histograms add up all processes of one machine that share a data folder;"
        " gauges are read from the store on each request.",
        "",
        "| metric | kind | labels | |",
        "|---|---|---|---|",
    ]
    for measure in MEASURES:
        labels = ", ".join(f"`{each}`" for each in measure.labels)
        kind = kinds.get(type(measure), "gauge")
        lines.append(f"| `{measure.name}` | {kind} | {labels} | {_cell(measure.help)} |")
    return _page(lines)


# -- Rights ---------------------------------------------------------------------------------------


def rights_page() -> str:
    """Return the page about permissions, from what the routes declare."""
    from postroom.domain.audience.lists.list_rights import LIST_RIGHTS
    from postroom.services.accounts.api_keys import SCOPES
    from postroom.services.accounts.users import ROLES
    from postroom.web.api.app import document
    from postroom.web.api.documenting import RIGHT, SCOPE
    from postroom.web.app import VIEWS

    lines = [
        "# Permissions",
        "",
        "Every page and API call declares who may use it, and nothing else decides. This list is"
        " generated from those declarations.",
        "",
        "## User roles",
        "",
        "Each role includes the permissions of those above it.",
        "",
        "| role | |",
        "|---|---|",
        *(f"| {role} | {_cell(meaning)} |" for role, meaning in ROLES.items()),
        "",
        "## Rights on lists",
        "",
        "| right | |",
        "|---|---|",
        *(f"| {right} | {_cell(meaning)} |" for right, meaning in LIST_RIGHTS.items()),
        "",
        "## Pages",
        "",
        "Where a right is named, it is enough to have it on each list that the request is about."
        " *Password* marks forms that require the password again if it was entered more than ten"
        " minutes ago.",
        "",
        "| page | methods | requires | or right | |",
        "|---|---|---|---|---|",
        *(
            f"| `{page.path}` | {', '.join(page.methods)} | {page.role or 'nothing: public'} |"
            f" {page.right or ''} | {'password' if page.sudo else ''} |"
            for page in VIEWS
        ),
        "",
        "## API key scopes",
        "",
        "A key without scopes may do everything.",
        "",
        "| scope | |",
        "|---|---|",
        *(f"| `{scope.value}` | {_cell(meaning)} |" for scope, meaning in SCOPES.items()),
        "",
        "## Calls",
        "",
        "A key that is limited to selected lists also needs the right on each list that the call is"
        " about. Calls without a right are closed to it.",
        "",
        "| call | scope | right |",
        "|---|---|---|",
        *(
            f"| `{method.upper()} {path}` | `{operation[SCOPE]}`"
            f"{' or `read`' if method == 'get' else ''} | {operation.get(RIGHT, '')} |"
            for path, operations in document()["paths"].items()
            for method, operation in operations.items()
        ),
    ]
    return _page(lines)


# -- Text -----------------------------------------------------------------------------------------


def _page(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Return text in which characters outside of code are literal."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if number % 2 else part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        for number, part in enumerate(parts)
    )


def _first(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").split("\n\n")[0]


REFERENCE: dict[str, Callable[[], str]] = {
    "reference/settings.md": settings_page,
    "reference/commands.md": commands_page,
    "reference/api.md": api_page,
    "reference/metrics.md": metrics_page,
    "reference/rights.md": rights_page,
    "reference/errors.md": errors_page,
}
