"""All components in both themes, for those who add a page. A browser test compares a screenshot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from postroom.services.accounts.users import Role
from postroom.web.requests.flash import Flash, Undo
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_EXAMPLE_TIME: Final = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)


async def components(visit: Visit) -> Response:
    return visit.render(
        "admin/operations/components.html",
        at=_EXAMPLE_TIME,
        example=Flash("2 subscribers blocked.", Undo("/system/components")),
    )


VIEWS = (View("/system/components", components, role=Role.VIEWER),)
