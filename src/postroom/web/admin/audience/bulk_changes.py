"""Changes to many selected subscribers at once."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.services.accounts.users import Role
from postroom.services.audience.bulk_changes import MOST, BulkAction, BulkReport, change_many
from postroom.web.rendering.labels import counted, short
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_PAST_TENSE = {
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
_SHOWN = 20
_LONGEST_FIELD = 254  # of the search that the visitor comes from and goes back to


async def bulk(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    form = await visit.form()
    emails = [each for each in form.getlist("email") if isinstance(each, str)][:MOST]
    action = _action(await visit.text("action"))
    back = f"/lists/{mailing_list.name}/subscribers"
    shown = {name: await visit.text(name) for name in ("q", "state", "sort")}
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
    report = await change_many(visit.services.subscriptions, mailing_list.name, emails, action)
    await visit.audit(
        f"{_PAST_TENSE[action]} subscribers", f"{report.done} of {mailing_list.name}: {emails[0]}…"
    )
    return visit.redirect(back, _summary(report, action))


def _summary(report: BulkReport, action: BulkAction) -> str:
    flash = f"{counted(report.done, 'subscriber', 'subscribers')} {_PAST_TENSE[action]}."
    if report.problems:
        flash += f" Not changed: {len(report.problems):,} ({short(report.problems[0])})."
    return flash


def _action(text: str) -> BulkAction:
    if text not in set(BulkAction):
        raise Invalid("action", f"must be one of {', '.join(BulkAction)}, not {text[:40]!r}")
    return BulkAction(text)


VIEWS = (View("/lists/{name}/bulk", bulk, role=Role.EDITOR, methods=("POST",)),)
