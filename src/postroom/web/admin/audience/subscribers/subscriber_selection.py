"""Changes of the subscribers that are selected in the index, asked about first if they cannot be
undone."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid
from postroom.services.audience.bulk_changes import (
    MOST_AT_ONCE,
    BulkAction,
    BulkReport,
    change_many,
)
from postroom.web.rendering.templating import counted, short
from postroom.web.requests.flash import Undo
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

PAST_TENSE = {
    BulkAction.VERIFY: "marked as confirmed",
    BulkAction.ASK: "asked to confirm",
    BulkAction.BLOCK: "blocked",
    BulkAction.UNBLOCK: "unblocked",
    BulkAction.REMOVE: "removed",
}


class _Question(msgspec.Struct, frozen=True):
    """The question before a change that cannot be undone: title, consequences, button."""

    verb: str
    points: tuple[str, ...]
    button: str


_QUESTIONS = {
    BulkAction.VERIFY: _Question(
        "Mark {people} as confirmed?",
        (
            "They will receive the next message to this list without having confirmed themselves.",
            "Do this only if each of them has agreed to receive these emails and you can prove it."
            " Email without consent is spam in most countries and harms your delivery.",
            "If you are not sure, send them a confirmation email instead.",
        ),
        "Mark as confirmed",
    ),
    BulkAction.REMOVE: _Question(
        "Remove {people}?",
        ("They are removed from the list; their links stop working.",),
        "Remove",
    ),
}
"""Actions that cannot be undone with another click."""
_SHOWN: Final = 20
_MOST_UNDONE: Final = 50  # as many as a page shows; more do not fit into a cookie
_LONGEST_FIELD: Final = 254  # of the search that the visitor comes from and goes back to


async def bulk(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    form = await visit.form()
    emails = [each for each in form.getlist("email") if isinstance(each, str)][:MOST_AT_ONCE]
    action = parse_action(await visit.text("action"))
    back = f"/lists/{mailing_list.name}/subscribers"
    shown = {name: await visit.text(name) for name in ("q", "state", "segment", "sort")}
    kept = {name: text for name, text in shown.items() if 0 < len(text) <= _LONGEST_FIELD}
    if kept:
        back += f"?{urlencode(kept)}"
    if not emails:
        return visit.redirect(back, "No subscribers selected.")
    question = _QUESTIONS.get(action)
    if question is not None and not await visit.text("confirmed"):
        more = len(emails) - _SHOWN
        return visit.render(
            "admin/confirm.html",
            title=question.verb.format(
                people=counted(len(emails), "subscriber", "subscribers"),
            ),
            points=[
                *question.points,
                ", ".join(map(short, emails[:_SHOWN]))
                + (f" and {more:,} more" if more > 0 else ""),
            ],
            button=question.button,
            fields={"action": action.value, "email": emails, "confirmed": "yes", **kept},
            back=back,
        )
    undo = None
    if action is BulkAction.BLOCK:
        undo = await _undo(visit, mailing_list.name, emails, kept)
    report = await change_many(visit.services.subscriptions, mailing_list.name, emails, action)
    await visit.audit(
        f"{PAST_TENSE[action]} subscribers", f"{report.done} of {mailing_list.name}: {emails[0]}…"
    )
    return visit.redirect(back, _summary(report, action), undo)


async def _undo(
    visit: Visit, name: ListName, emails: list[str], kept: dict[str, str]
) -> Undo | None:
    """Return how to unblock the subscribers that are about to be blocked. Others keep their
    reason."""
    if len(emails) > _MOST_UNDONE:
        return None
    lines = await visit.services.search.lines(name, emails)
    changing = [("email", each.address) for each in lines if not each.blocked]
    fields = (("action", BulkAction.UNBLOCK.value), *kept.items(), *changing)
    return Undo(f"/lists/{name}/bulk", fields) if changing else None


def _summary(report: BulkReport, action: BulkAction) -> str:
    flash = f"{counted(report.done, 'subscriber', 'subscribers')} {PAST_TENSE[action]}."
    if report.problems:
        flash += f" Not changed: {len(report.problems):,} ({short(report.problems[0])})."
    return flash


def parse_action(text: str) -> BulkAction:
    if text not in set(BulkAction):
        raise Invalid("action", f"must be one of {', '.join(BulkAction)}, not {text[:40]!r}")
    return BulkAction(text)


VIEWS = (View("/lists/{name}/bulk", bulk, right=ListRight.MANAGE, methods=("POST",)),)
