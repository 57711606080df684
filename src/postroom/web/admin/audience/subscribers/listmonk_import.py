"""Importing subscribers from the API of a listmonk installation: the first step.

The other steps are those of a file (`imports.py`). The credentials are used for this one import and
never stored.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid
from postroom.services.audience.files.runs.import_states import ImportOptions
from postroom.services.audience.listmonk.listmonk_api import ListmonkAccount, ListmonkApi
from postroom.services.audience.listmonk.listmonk_file import USES, listmonk_file
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SHOWN: Final = ("url", "user", "listmonk_list")
_FIELDS: Final = {"list": "listmonk_list"}
"""The fields of the form that have another name in a problem."""


async def begin(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    values: dict[str, Any] = {
        "list": mailing_list,
        "typed": dict.fromkeys(_SHOWN, ""),
        "problems": {},
        "verified": False,
    }
    if visit.request.method == "GET":
        return visit.render("admin/audience/import_listmonk.html", **values)
    is_vouched = bool(await visit.text("verified"))
    try:
        account = ListmonkAccount(
            await visit.text("url"), await visit.text("user"), await visit.text("token")
        )
        api = ListmonkApi(account, visit.context.may_import_from)
        source = await api.list(await visit.text("listmonk_list"))
    except Invalid as exc:
        visit.skip_audit()
        values["typed"] = {name: await visit.text(name) for name in _SHOWN}
        values["problems"] = {_FIELDS.get(exc.field, exc.field): exc.problem}
        values["verified"] = is_vouched
        return visit.render("admin/audience/import_listmonk.html", status=422, **values)
    run = await visit.context.import_runs.begin_reading(
        mailing_list.name,
        partial(listmonk_file, api, source),
        source=f"{source.name} ({account.host})",
        options=ImportOptions(
            verified=is_vouched, columns=USES, on_every_list=visit.access.may(ListRight.MANAGE)
        ),
    )
    return visit.redirect(f"/lists/{mailing_list.name}/import/{run.id}")


VIEWS = (
    View("/lists/{name}/import/listmonk", begin, right=ListRight.MANAGE, methods=("GET", "POST")),
)
