"""Inactive subscribers of a list: who they are, a message that wins them back, and removal."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.messages.messages import Message
from postroom.services.audience.bulk_changes import BulkAction
from postroom.services.audience.targeting.inactive_subscribers import (
    DAYS,
    PERIODS,
    rule_of,
    segment_of,
)
from postroom.web.admin.audience.segments import change_everyone
from postroom.web.rendering.navigation import TabLink
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LOOKED_AT: Final = 100  # messages among which the last win-back message is looked for
_SECONDS: Final = 0.5


async def show(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    days = _days(visit.parameter("days"))
    return visit.render(
        "admin/audience/inactive.html",
        list=mailing_list,
        days=days,
        tabs=[
            TabLink(f"{visit.path}?days={each}", f"{each} days", each == days) for each in PERIODS
        ],
        rule=rule_of(days),
        found=None,
        sent=await _last_win_back(visit, mailing_list, days),
    )


async def win_back(visit: Visit) -> Response:
    """Create the draft of a message to everyone who is inactive."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    days = _days(await visit.text("days"))
    made = await visit.services.inactive.win_back(mailing_list.name, days, visit.who.email)
    await visit.audit("created draft", made.ref)
    return visit.redirect(f"/messages/{made.ref}/edit", "Draft created.")


async def remove(visit: Visit) -> Response:
    """Remove everyone who is inactive, or who received a message and still is, after a question."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    days = _days(await visit.text("days"))
    after = await visit.text("after")
    segment = await visit.services.inactive.segment(mailing_list.name, days, after or None)
    here = f"/lists/{mailing_list.name}/inactive?days={days}"
    if not await visit.text("confirmed"):
        visit.skip_audit()
        part = await visit.services.segments.count(
            mailing_list.name, segment.rule, seconds=_SECONDS
        )
        if not part.count and not part.next:
            return visit.redirect(here, "Nobody is inactive, so there is no one to remove.")
        people = counted(part.count, "subscriber", "subscribers")
        return visit.render(
            "admin/confirm.html",
            title=f"Remove {'more than ' if part.next else ''}{people} from the list?",
            points=[
                "Everyone who is inactive at that moment is removed, including those who opened"
                " emails without loading pictures.",
                "They can sign up again.",
            ],
            button="Remove",
            fields={
                "days": str(days),
                "after": after,
                "confirmed": "yes",
            },
            back=here,
        )
    flash = await change_everyone(visit, segment, BulkAction.REMOVE)
    await visit.audit("removed inactive subscribers", f"{mailing_list.name}: {segment.rule}")
    return visit.redirect(here, flash)


async def _last_win_back(visit: Visit, mailing_list: MailingList, days: int) -> Message | None:
    """Return the last message of the list that was sent to those who are inactive."""
    newest = await visit.messages.done(limit=_LOOKED_AT)
    for each in newest.messages:
        is_ours = each.list_name == mailing_list.name and each.segment == segment_of(days)
        if is_ours and each.queued_at is not None and each.counts and each.counts.accepted:
            return each
    return None


def _days(text: str) -> int:
    return next((each for each in PERIODS if str(each) == text), DAYS)


VIEWS = (
    View("/lists/{name}/inactive", show, right=ListRight.VIEW),
    View("/lists/{name}/inactive/win-back", win_back, right=ListRight.EDIT, methods=("POST",)),
    View("/lists/{name}/inactive/remove", remove, right=ListRight.MANAGE, methods=("POST",)),
)
