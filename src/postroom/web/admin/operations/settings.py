"""All settings with their sources, and facts about this installation."""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from postroom import __version__
from postroom.errors import PostroomError
from postroom.services.accounts.users import Role
from postroom.settings import FILE, FoundSetting, Settings
from postroom.web.admin.configuration import alert_setup, bounce_setup, mail_server
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

# Settings that are also command-line options.
OPTIONS = frozenset({"data", "store", "transport", "port"})

PAGES: Final[Mapping[str, tuple[str, str]]] = {
    name: (path, label)
    for path, label, names in (
        (mail_server.HERE, "Mail server", mail_server.SETTINGS),
        (bounce_setup.HERE, "Bounces", bounce_setup.SETTINGS),
        (alert_setup.HERE, "Alerts", alert_setup.SETTINGS),
    )
    for name in names
}
"""By stored setting: the path and the name of its page."""


class ShownSetting(msgspec.Struct, frozen=True):
    """A setting for display; secrets are masked."""

    name: str
    value: str
    origin: str
    help: str
    variable: str
    option: str
    page: str
    page_name: str


async def settings(visit: Visit) -> Response:
    found = visit.context.settings
    return visit.render(
        "admin/operations/settings.html",
        file=FILE,
        settings=[_shown(each) for each in found.found.values()],
        state=await _state(visit, found),
    )


def _shown(found: FoundSetting) -> ShownSetting:
    name = found.setting.name
    page, page_name = PAGES.get(name, ("", ""))
    return ShownSetting(
        name=name,
        value=found.shown,
        origin=found.origin,
        help=found.setting.help,
        variable=found.setting.variable,
        option=f"--{name}" if name in OPTIONS else "",
        page=page,
        page_name=page_name,
    )


async def _state(visit: Visit, settings: Settings) -> dict[str, str]:
    return {
        "Version": f"Postroom {__version__}",
        "Store": await _store(visit),
        "Mail server": _mail_server(settings),
        "Base URL": visit.context.base_url,
        "Data folder": str(settings.storage.data.absolute()),
        "Host name": socket.gethostname(),
        "Python": f"{platform.python_version()} on {sys.platform}",
    }


def _mail_server(settings: Settings) -> str:
    shown = settings.found["transport"].shown
    if shown.startswith("outbox:"):
        return "None yet: emails are kept in the outbox."
    return shown


async def _store(visit: Visit) -> str:
    try:
        info = await visit.services.store.info()
    except PostroomError as exc:
        return f"cannot be reached: {exc}"
    return f"{info.engine} at {info.location}, schema version {info.schema_version}"


VIEWS = (View("/settings", settings, role=Role.ADMINISTRATOR),)
