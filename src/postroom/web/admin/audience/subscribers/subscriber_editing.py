"""Subscribers of a list: add, edit, move, remove. `subscriber_index.py` has the index,
`subscriber_selection.py` changes many, `list_membership.py` adds them to other lists."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from postroom.domain.audience.fields import Fields, value_text
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName, MailingList, Subscriber, parse_list_name
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.plain_text import one_line
from postroom.web.admin.audience.subscribers import subscriber_fields
from postroom.web.admin.audience.subscribers.consent_timeline import (
    history_of,
    ledger_state,
    visible,
)
from postroom.web.requests.flash import Undo
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LONGEST_REASON: Final = 200
_LABELS: Final = {
    "email": "Address",
    "verified": "Confirmed",
    "blocked": "Reason for blocking",
    "note": "Note",
}
_INPUTS: Final[Mapping[str, Any]] = {
    "input_types": subscriber_fields.INPUT_TYPES,
    "ticked": subscriber_fields.ticked,
    "zip": zip,
}


async def add(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    fields = (await visit.services.fields.of(mailing_list.name)).fields
    if visit.request.method == "GET":
        return _show_add(visit, mailing_list, fields, {})
    texts = await subscriber_fields.given_texts(visit, fields)
    email, verified = await visit.text("email"), bool(await visit.text("verified"))
    try:
        made = await visit.services.subscriptions.add(
            mailing_list.name,
            email,
            verified=verified,
            attributes=subscriber_fields.parse_texts(fields, texts),
        )
        await visit.audit("added subscriber", f"{made.address} to {mailing_list.name}")
        return visit.redirect(
            f"/lists/{mailing_list.name}/subscribers/add", f"{made.address} added."
        )
    except Invalid as exc:
        problems, status = {subscriber_fields.input_of(exc.field): exc.problem}, 422
    except Exists:
        problems, status = {"email": "is already on the list"}, 409
    values = {"email": email, "verified": "yes" if verified else "no", **texts}
    return _show_add(visit, mailing_list, fields, values, problems, status=status)


def _show_add(
    visit: Visit,
    mailing_list: MailingList,
    fields: Fields,
    values: dict[str, str],
    problems: dict[str, str] | None = None,
    *,
    status: int = 200,
) -> Response:
    return visit.render(
        "admin/audience/subscriber_add.html",
        status=status,
        list=mailing_list,
        values=values,
        problems=problems or {},
        fields=fields.declared,
        **_INPUTS,
    )


async def edit(visit: Visit) -> Response:
    """Show a subscriber, with a form to edit it for editors."""
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    fields = await _fields_of(visit, current)
    if visit.request.method == "GET":
        return await show(visit, current, _fields(current, fields))
    given = {
        "email": (await visit.text("email")).strip(),
        "verified": "yes" if await visit.text("verified") else "no",
        "blocked": await visit.text("blocked"),
        "note": await visit.text("note"),
        **await subscriber_fields.given_texts(visit, fields),
    }
    etag = await visit.text("etag")
    try:
        saved = await _save(visit, current, given, etag)
    except Invalid as exc:
        problems = {subscriber_fields.input_of(exc.field): exc.problem}
        return await show(visit, current, given, etag, problems, status=422)
    except Exists:
        problems = {"email": "is already on the list"}
        return await show(visit, current, given, etag, problems, status=409)
    except Overtaken:
        current = await visit.services.subscriptions.get(name, email)
        theirs = _fields(current, fields)
        labels = {**_LABELS, **subscriber_fields.labels_of(fields)}
        found = differences(labels, {**theirs, **given}, theirs)
        return await show(visit, current, given, current.etag, theirs=found, status=409)
    await visit.audit("changed subscriber", f"{saved.address} of {name}")
    return visit.redirect(address_of(saved), "Saved.")


async def move(visit: Visit) -> Response:
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    to_list = await visit.text("to_list")
    try:
        moved = await visit.services.subscriptions.move(name, email, to_list)
    except (Invalid, NoSuch):
        problems = {"to_list": "Choose a list."}
        return await show(visit, current, {}, problems=problems, status=422)
    except Exists:
        problems = {"to_list": f"{current.address} is already on that list."}
        return await show(visit, current, {}, problems=problems, status=409)
    await visit.audit("moved subscriber", f"{moved.address} from {name} to {moved.list_name}")
    undo = Undo(f"{address_of(moved)}/move", (("to_list", name),))
    return visit.redirect(address_of(moved), f"Moved to list {moved.list_name}.", undo)


async def ask(visit: Visit) -> Response:
    """Send the confirmation email to a subscriber who is not confirmed."""
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    try:
        await visit.services.subscriptions.ask(name, email)
    except NotNow as exc:
        problems = {"ask": str(exc)}
        return await show(visit, current, {}, problems=problems, status=409)
    await visit.audit("asked subscriber to confirm", f"{current.address} of {name}")
    flash = f"Confirmation email to {current.address} is on its way."
    return visit.redirect(address_of(current), flash)


async def delete(visit: Visit) -> Response:
    name, email = visit.parameter("name"), visit.parameter("email")
    current = await visit.services.subscriptions.get(name, email)
    if visit.request.method == "GET":
        here = await _list_of_page(visit)
        return visit.render(
            "admin/confirm.html",
            title=f"Remove {current.address}?",
            points=[
                f"The address is removed from the list {name}, and its links stop working.",
                "Messages that are being sent no longer reach it.",
                "Records of emails sent to it are kept.",
            ],
            button="Remove subscriber",
            fields={"etag": current.etag, **({"here": here} if here else {})},
            back=address_of(msgspec.structs.replace(current, list_name=here or current.list_name)),
        )
    await visit.services.subscriptions.remove(name, email, await visit.text("etag") or None)
    await visit.audit("removed subscriber", f"{current.address} from {name}")
    if here := await _list_of_page(visit):
        there = address_of(msgspec.structs.replace(current, list_name=here))
        return visit.redirect(there, f"Removed from list {name}.")
    return visit.redirect(f"/lists/{name}/subscribers", f"{current.address} removed.")


async def _list_of_page(visit: Visit) -> ListName | None:
    """Return the list on whose page of the subscriber they were removed from another one."""
    here = await visit.text("here") or visit.parameter("here")
    return parse_list_name(here) if here else None


async def _save(visit: Visit, current: Subscriber, given: dict[str, str], etag: str) -> Subscriber:
    """Save the state, then the address: after an interruption, the form can be sent again."""
    fields = await _fields_of(visit, current)
    texts = {key: text for key, text in given.items() if key.startswith(subscriber_fields.PREFIX)}
    reason = one_line("blocked", given["blocked"], longest=_LONGEST_REASON, required=False)
    saved = await visit.services.subscriptions.edit(
        current.list_name,
        current.address,
        verified=given["verified"] == "yes",
        blocked=reason,
        attributes=subscriber_fields.parse_texts(fields, texts),
        note=given["note"],
        etag=etag or current.etag,
    )
    if given["email"] == saved.address:
        return saved
    return await visit.services.subscriptions.change_address(
        saved.list_name, saved.address, given["email"], saved.etag
    )


async def show(
    visit: Visit,
    current: Subscriber,
    values: dict[str, str],
    etag: str = "",
    problems: dict[str, str] | None = None,
    *,
    theirs: list[Difference] | None = None,
    status: int = 200,
) -> Response:
    fields = await _fields_of(visit, current)
    tracing = visit.services.tracing
    subscriptions, unsubscribes, suppressions = await asyncio.gather(
        tracing.subscriptions(current.address),
        tracing.unsubscribes(current.address),
        visit.services.suppressions.of_address(current.address),
    )
    consent = await tracing.consent(current.address, subscriptions)
    subscriptions, unsubscribes = visible(visit, subscriptions), visible(visit, unsubscribes)
    consent, suppressions = visible(visit, consent), visible(visit, suppressions)
    movable = await visit.lists.names(right=ListRight.MANAGE)
    values = {**_fields(current, fields), **values}
    problems = problems or {}
    filled = subscriber_fields.filled(fields, values, problems)
    return visit.render(
        "admin/audience/subscriber.html",
        status=status,
        subscriber=current,
        here=address_of(current),
        filled_fields=filled,
        empty_fields=[each for each in fields.all if each not in filled],
        shown={
            each.shown_label: value_text(current.attributes[each.name])
            for each in fields.all
            if each.name in current.attributes
        },
        subscriptions=subscriptions,
        history=history_of(subscriptions, unsubscribes, consent),
        ledger=ledger_state(consent),
        suppressions=suppressions,
        **_INPUTS,
        values=values,
        etag=etag or current.etag,
        problems=problems,
        theirs=theirs or [],
        lists=[each for each in movable if each != current.list_name],
        addable=[each for each in movable if each not in {s.list_name for s in subscriptions}],
        manageable={
            each.list_name
            for each in subscriptions
            if visit.access.may(ListRight.MANAGE, each.list_name)
        },
    )


async def _fields_of(visit: Visit, subscriber: Subscriber) -> Fields:
    declared = (await visit.services.fields.of(subscriber.list_name)).fields
    return declared.keeping_choices(subscriber.attributes)


def _fields(subscriber: Subscriber, fields: Fields) -> dict[str, str]:
    return {
        **subscriber_fields.texts_of(fields, subscriber.attributes),
        "note": subscriber.note,
        "email": subscriber.address,
        "verified": "yes" if subscriber.verified else "no",
        "blocked": subscriber.blocked,
    }


def address_of(subscriber: Subscriber) -> str:
    return f"/lists/{subscriber.list_name}/subscribers/{quote(subscriber.address)}"


VIEWS = (
    View("/lists/{name}/subscribers/add", add, right=ListRight.MANAGE, methods=("GET", "POST")),
    View(
        "/lists/{name}/subscribers/{email:path}/delete",
        delete,
        right=ListRight.MANAGE,
        methods=("GET", "POST"),
    ),
    View(
        "/lists/{name}/subscribers/{email:path}/move",
        move,
        right=ListRight.MANAGE,
        methods=("POST",),
    ),
    View(
        "/lists/{name}/subscribers/{email:path}/ask", ask, right=ListRight.MANAGE, methods=("POST",)
    ),
    View("/lists/{name}/subscribers/{email:path}", edit, right=ListRight.VIEW),
    View("/lists/{name}/subscribers/{email:path}", edit, right=ListRight.MANAGE, methods=("POST",)),
)
