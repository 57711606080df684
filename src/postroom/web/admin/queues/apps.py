"""Hosted applications: their processes, their options, and which one gets a queue."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.domain.queues.app_options import CHANGEABLE, OnPoison, OptionKind
from postroom.domain.queues.apps import App, app_values, changed_app
from postroom.services.accounts.users import Role
from postroom.services.queues.apps import AppRegistry
from postroom.web.requests.flash import Undo
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_CHOICES: Final[dict[str, dict[str, str]]] = {
    "on_poison": {
        OnPoison.MOVE: "Move to the poison queue",
        OnPoison.REJECT: "Reject to the dead-letter queue",
        OnPoison.DROP: "Delete the message",
        OnPoison.FAULT: "Stop the queue",
    }
}
"""Options with fixed choices, and how the form names each choice."""


async def apps(visit: Visit) -> Response:
    states, hosts = await asyncio.gather(
        visit.services.apps.states(), visit.services.hosts.current()
    )
    if visit.is_partial:
        return visit.render("admin/queues/apps_live.html", apps=states, hosts=hosts)
    asked = visit.parameter("queue").strip()
    match = await visit.services.apps.explain(asked) if asked else None
    return visit.render(
        "admin/queues/apps.html", apps=states, hosts=hosts, asked=asked, match=match
    )


async def restart(visit: Visit) -> Response:
    path = await visit.text("path")
    await visit.services.apps.restart(path)
    await visit.audit("restarted an application", path)
    return visit.redirect("/apps", f"{path} is restarting.")


async def pause(visit: Visit) -> Response:
    path = await visit.text("path")
    await visit.services.apps.pause(path)
    await visit.audit("paused an application", path)
    undo = Undo("/apps/resume", (("path", path),))
    return visit.redirect("/apps", f"{path} paused. Messages in progress will finish.", undo)


async def resume(visit: Visit) -> Response:
    path = await visit.text("path")
    await visit.services.apps.resume(path)
    await visit.audit("resumed an application", path)
    return visit.redirect("/apps", f"{path} resumed.", Undo("/apps/pause", (("path", path),)))


async def settings(visit: Visit) -> Response:
    app = await visit.services.apps.get(visit.parameter("path"))
    return _form(visit, app, _texts(app))


async def change(visit: Visit) -> Response:
    """Save the options; after an error, show the form again with what was typed."""
    app = await visit.services.apps.get(await visit.text("path"))
    typed = {name: (await visit.text(name)).strip() for name in CHANGEABLE}
    try:
        changes = {name: _value(name, typed[name]) for name in CHANGEABLE}
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
    return visit.render(
        "admin/queues/app_settings.html",
        status=status,
        app=app,
        options=CHANGEABLE,
        choices=_CHOICES,
        typed=typed,
        problems=problems or {},
        is_fixed=not AppRegistry.is_changeable(app),
    )


def _texts(app: App) -> dict[str, str]:
    values = app_values(app)
    return {name: _text(name, values[name]) for name in CHANGEABLE}


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if CHANGEABLE[name].kind is OptionKind.SIZE and value % 1_000_000 == 0:
        return f"{value // 1_000_000}MB"
    return str(value)


def _value(name: str, text: str) -> object:
    """Parse an option; empty means its default, and a size may be a number of bytes."""
    if not text:
        return None
    kind = CHANGEABLE[name].kind
    if kind is OptionKind.NUMBER or (kind is OptionKind.SIZE and text.isdigit()):
        try:
            return int(text)
        except ValueError as exc:
            raise Invalid(name, f"must be a whole number, not {text[:40]!r}") from exc
    return text


def _action(path: str, endpoint: Any) -> View:
    return View(path, endpoint, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True)


VIEWS = (
    View("/apps", apps, role=Role.VIEWER),
    View("/apps/settings", settings, role=Role.ADMINISTRATOR),
    _action("/apps/settings", change),
    _action("/apps/restart", restart),
    _action("/apps/pause", pause),
    _action("/apps/resume", resume),
)
