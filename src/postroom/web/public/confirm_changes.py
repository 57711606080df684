"""The page on which a subscriber confirms the details of a later sign-up. GET changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import masked
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.lists import MailingList, Subscriber
from postroom.domain.errors import Invalid
from postroom.services.audience.signup.changed_details import CHANGES, awaits
from postroom.translations import Translator
from postroom.web.public.field_inputs import shown_inputs
from postroom.web.public.links import broken_link, read_link, without_spaces
from postroom.web.public.visitor import Visitor, link_view

_LONGEST_DIGEST: Final = 100


async def confirm_changes(visitor: Visitor) -> Response:
    link = await read_link(visitor)
    if link is None:
        return broken_link(visitor)
    mailing_list, guid = link
    services, changes = visitor.services, visitor.services.subscriptions.changes
    subscriber = await services.subscriptions.by_guid(mailing_list.name, guid)
    if subscriber is None:
        return broken_link(visitor)
    visitor.default_language_of(mailing_list)
    digest = without_spaces(visitor.parameter(CHANGES))[:_LONGEST_DIGEST]
    if not awaits(subscriber, digest):
        return _nothing_waits(visitor, mailing_list, subscriber)
    if not visitor.is_post:
        fields = (await services.fields.of(mailing_list.name)).fields
        return visitor.render(
            "confirm_changes.html",
            mailing_list=mailing_list,
            email=masked(subscriber.address),
            changes=_changes(visitor, fields, subscriber),
        )
    source = visitor.source("confirmation link")
    try:
        saved = await changes.confirm(mailing_list.name, guid, digest, source)
    except Invalid:
        saved = None
    if saved is None:
        return _nothing_waits(visitor, mailing_list, subscriber)
    _ = visitor.gettext
    return visitor.message(
        _("Saved."), mailing_list=mailing_list, action=_preferences(visitor, subscriber)
    )


def _changes(visitor: Visitor, fields: Fields, subscriber: Subscriber) -> list[tuple[str, str]]:
    """Return the labels and values that differ from what is known."""
    _, pending = visitor.gettext, subscriber.pending_attributes
    shown = [
        each
        for each in fields.public
        if each.name in pending and pending[each.name] != subscriber.attributes.get(each.name)
    ]
    return [
        (each.label, _text(pending[each.field.name], each.chosen, _))
        for each in shown_inputs(shown, pending, _)
    ]


def _text(value: object, texts: Sequence[str], _: Translator) -> str:
    if isinstance(value, bool):
        return _("Yes") if value else _("No")
    return ", ".join(texts)


def _nothing_waits(visitor: Visitor, mailing_list: MailingList, subscriber: Subscriber) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("There is nothing to confirm"),
        _("Your changes may have been saved already. If you signed up again later, open the link in"
          " the latest email."),
        mailing_list=mailing_list,
        action=_preferences(visitor, subscriber),
    )  # fmt: skip


def _preferences(visitor: Visitor, subscriber: Subscriber) -> tuple[str, str]:
    link = {"id": subscriber.guid, "listName": subscriber.list_name}
    return visitor.gettext("Preferences"), visitor.link("/preferences", **link)


VIEWS = (link_view("/confirm/changes", confirm_changes),)
