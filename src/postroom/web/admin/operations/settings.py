"""The settings, where each comes from, and what is running here."""

from __future__ import annotations

import platform
import socket
import sys

import msgspec
from starlette.responses import Response

from postroom import __version__
from postroom.errors import PostroomError
from postroom.services.accounts.users import Role
from postroom.settings import FILE, FoundSetting, Settings
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

# Settings that the commands also take as an option.
OPTIONS = frozenset({"data", "store", "transport", "port"})


class ShownSetting(msgspec.Struct, frozen=True):
    """A setting as it may be seen: never a secret."""

    name: str
    value: str
    origin: str
    help: str
    variable: str
    option: str


async def settings(visit: Visit) -> Response:
    found = visit.context.settings
    return visit.page(
        "admin/operations/settings.html",
        file=FILE,
        settings=[_shown(each) for each in found.found.values()],
        state=await _state(visit, found),
    )


def _shown(found: FoundSetting) -> ShownSetting:
    name = found.setting.name
    return ShownSetting(
        name=name,
        value=found.shown,
        origin=found.origin,
        help=found.setting.help,
        variable=found.setting.variable,
        option=f"--{name}" if name in OPTIONS else "",
    )


async def _state(visit: Visit, settings: Settings) -> dict[str, str]:
    return {
        "Version": f"Postroom {__version__}",
        "Store": await _store(visit),
        "Transport": settings.found["transport"].shown,
        "Base URL": visit.context.base_url,
        "Data folder": str(settings.storage.data.absolute()),
        "Host name": socket.gethostname(),
        "Python": f"{platform.python_version()} on {sys.platform}",
    }


async def _store(visit: Visit) -> str:
    try:
        info = await visit.services.store.info()
    except PostroomError as exc:
        return f"cannot be reached: {exc}"
    return f"{info.engine} at {info.location}, schema version {info.schema_version}"


PAGES = (Page("/settings", settings, role=Role.ADMINISTRATOR),)
