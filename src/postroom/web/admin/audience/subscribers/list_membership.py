"""Adding a subscriber to another list. Removing them is on the page of the subscriber there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import MailingList, Subscriber
from postroom.domain.errors import Exists, Invalid, NoSuch
from postroom.web.admin.audience.subscribers.subscriber_editing import address_of, show
from postroom.web.rendering.times import on_day
from postroom.web.requests.flash import Undo
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


async def add_to_list(visit: Visit) -> Response:
    """Add a subscriber to another list, with the values of the fields that both lists have."""
    name, email = visit.parameter("name"), visit.parameter("email")
    services = visit.services
    current = await services.subscriptions.get(name, email)
    try:
        target = await services.lists.get(await visit.text("to_list"))
        verified = bool(await visit.text("verified"))
        problem = await _unsubscribe(visit, current, target) if verified else ""
        if problem:
            return await show(visit, current, {}, problems={"add_to": problem}, status=409)
        fields = (await services.fields.of(target.name)).fields
        made = await services.subscriptions.add(
            target.name,
            current.address,
            verified=verified,
            attributes=_shared(fields, current.attributes),
        )
    except (Invalid, NoSuch) as exc:
        is_field = isinstance(exc, Invalid) and exc.field.startswith("attributes.")
        problem = f"{exc}: add them on the page of that list." if is_field else "Choose a list."
        return await show(visit, current, {}, problems={"add_to": problem}, status=422)
    except Exists:
        problem = f"{current.address} is already on that list."
        return await show(visit, current, {}, problems={"add_to": problem}, status=409)
    await visit.audit("added subscriber", f"{made.address} to {made.list_name}")
    undo = Undo(f"{address_of(made)}/delete", (("here", current.list_name),))
    blocked = f" They receive nothing: {made.blocked}." if made.blocked else ""
    flash = f"Added to list {made.list_name}.{blocked}"
    return visit.redirect(address_of(current), flash, undo)


async def _unsubscribe(visit: Visit, current: Subscriber, target: MailingList) -> str:
    """Return why someone who has unsubscribed must not be added as confirmed; "" if they have
    not."""
    left_at = await visit.services.unsubscribes.left_at(target.name, current.address)
    if left_at is None:
        return ""
    return (
        f"{current.address} unsubscribed from {target.name} on {on_day(left_at.date())}: add them"
        " without confirming, and send a confirmation email."
    )


def _shared(fields: Fields, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that fit the fields of another list."""
    shared: dict[str, Any] = {}
    for each in fields.all:
        try:
            shared |= fields.check({each.name: attributes.get(each.name)})
        except Invalid:
            continue
    return shared


VIEWS = (
    View(
        "/lists/{name}/subscribers/{email:path}/lists",
        add_to_list,
        right=ListRight.MANAGE,
        methods=("POST",),
    ),
)
