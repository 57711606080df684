"""Hosted applications: what runs where and why not, who gets a queue, and their options."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.domain.queues.apps import App, OnPoison, app_values, changed_app
from postroom.services.accounts.users import Role
from postroom.services.queues.apps import AppRegistry
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit


class Option(msgspec.Struct, frozen=True):
    """One option of an application that the page can change."""

    name: str
    label: str
    help: str = ""
    is_number: bool = False


# What an application runs, its user and its environment are for the command line only: a stolen
# login must not be able to run programs.
OPTIONS = (
    Option("min_processes", "Minimum processes", "Processes kept running.", is_number=True),
    Option("max_processes", "Maximum processes", "On each host.", is_number=True),
    Option("concurrency", "Concurrency", "Messages that one process handles.", is_number=True),
    Option("idle_timeout", "Idle timeout", "A process without work stops, as in 20m."),
    Option("handler_timeout", "Handler timeout", "For one message. Empty: no limit."),
    Option("receive_retry_count", "Retries per cycle", is_number=True),
    Option("max_retry_cycles", "Retry cycles", is_number=True),
    Option("retry_cycle_delay", "Delay between cycles", "As in 30m."),
    Option("on_poison", "On poison", f"One of {', '.join(OnPoison)}."),
    Option("drain_timeout", "Drain timeout", "To finish when a process is stopped."),
    Option("recycle_after", "Process lifetime", "Then it is replaced, as in 2h. Empty: never."),
    Option(
        "recycle_messages",
        "Messages per process",
        "Then it is replaced. Empty: never.",
        is_number=True,
    ),
    Option(
        "recycle_memory",
        "Memory per process",
        "Above this it is replaced, as in 200MB. Empty: never.",
    ),
    Option(
        "memory_limit",
        "Memory limit",
        "A process cannot allocate more, as in 256MB. Empty: no limit.",
    ),
    Option("cpu_limit", "CPU limit", "Per message, as in 10s. Empty: no limit."),
    Option("open_files", "Open files", "Per process. Empty: as the host.", is_number=True),
)

_SIZES = ("recycle_memory", "memory_limit")


async def apps(visit: Visit) -> Response:
    states, hosts = await asyncio.gather(
        visit.services.apps.states(), visit.services.hosts.current()
    )
    if visit.is_partial:
        return visit.page("admin/queues/apps_live.html", apps=states, hosts=hosts)
    asked = visit.parameter("queue").strip()
    match = await visit.services.apps.explain(asked) if asked else None
    return visit.page("admin/queues/apps.html", apps=states, hosts=hosts, asked=asked, match=match)


async def restart(visit: Visit) -> Response:
    path = await visit.text("path")
    await visit.services.apps.restart(path)
    await visit.audit("restarted an application", path)
    return visit.redirect("/apps", f"{path} is restarting.")


async def pause(visit: Visit) -> Response:
    path = await visit.text("path")
    await visit.services.apps.pause(path)
    await visit.audit("paused an application", path)
    return visit.redirect("/apps", f"{path} paused. Messages in progress will finish.")


async def resume(visit: Visit) -> Response:
    path = await visit.text("path")
    await visit.services.apps.resume(path)
    await visit.audit("resumed an application", path)
    return visit.redirect("/apps", f"{path} resumed.")


async def settings(visit: Visit) -> Response:
    app = await visit.services.apps.get(visit.parameter("path"))
    return _form(visit, app, _texts(app))


async def change(visit: Visit) -> Response:
    """Save the options; a mistake shows the form again with what was typed."""
    app = await visit.services.apps.get(await visit.text("path"))
    typed = {option.name: (await visit.text(option.name)).strip() for option in OPTIONS}
    try:
        changes = {option.name: _value(option, typed[option.name]) for option in OPTIONS}
        changed_app(app, changes)
    except Invalid as exc:
        return _form(visit, app, typed, status=422, problems={exc.field: exc.problem})
    await visit.services.apps.update(app.path, changes)
    await visit.audit("changed an application", app.path)
    return visit.redirect("/apps", f"{app.path} updated. Its processes are being replaced.")


def _form(
    visit: Visit,
    app: App,
    typed: dict[str, str],
    *,
    status: int = 200,
    problems: dict[str, str] | None = None,
) -> Response:
    return visit.page(
        "admin/queues/app_settings.html",
        status=status,
        app=app,
        options=OPTIONS,
        typed=typed,
        problems=problems or {},
        is_fixed=not AppRegistry.is_changeable(app),
    )


def _texts(app: App) -> dict[str, str]:
    values = app_values(app)
    return {option.name: _text(option.name, values[option.name]) for option in OPTIONS}


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _SIZES and value % 1_000_000 == 0:
        return f"{value // 1_000_000}MB"
    return str(value)


def _value(option: Option, text: str) -> object:
    """Empty sets an option to its default; a size may be a plain number of bytes, as it is kept."""
    if not text:
        return None
    if option.is_number or (option.name in _SIZES and text.isdigit()):
        try:
            return int(text)
        except ValueError as exc:
            raise Invalid(option.name, f"must be a whole number, not {text[:40]!r}") from exc
    return text


def _action(path: str, endpoint: Any) -> Page:
    return Page(path, endpoint, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True)


PAGES = (
    Page("/apps", apps, role=Role.VIEWER),
    Page("/apps/settings", settings, role=Role.ADMINISTRATOR),
    _action("/apps/settings", change),
    _action("/apps/restart", restart),
    _action("/apps/pause", pause),
    _action("/apps/resume", resume),
)
