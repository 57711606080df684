"""Unsubscribe links of another tool, for subscribers who were imported from it.

The old domain leads here (docs/guides/old-links.md). The page works like that of our own links. An
id that was imported into several lists unsubscribes from all of them, unless the link names one:
the old link does not say which list it came from.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from postroom.domain.audience.addresses import masked
from postroom.domain.audience.lists.lists import ListName, MailingList, Subscriber, SubscriberGuid
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.audience.signup.foreign_ids import parse_foreign_id
from postroom.web.public.links import (
    already_unsubscribed,
    broken_link,
    is_unsubscribe_confirmed,
    origin_of_unsubscribing,
    still_subscribed,
    unsubscribed,
    without_spaces,
)
from postroom.web.public.visitor import Visitor, link_view

_LONGEST_ID = 200


async def unsubscribe_imported(visitor: Visitor) -> Response:
    try:
        foreign_id = parse_foreign_id(without_spaces(visitor.parameter("id"))[:_LONGEST_ID])
    except Invalid:
        return broken_link(visitor)
    wanted = without_spaces(visitor.parameter("listName"))
    owners = await visitor.services.foreign_ids.owners(foreign_id)
    owners = [each for each in owners if wanted in ("", each[0])]
    if not owners:
        return broken_link(visitor)
    found = await _subscriptions(visitor, owners)
    if not found:
        return already_unsubscribed(visitor, None)
    mailing_list, subscriber = found[0]
    names = ", ".join(each.description for each, _ in found)
    visitor.default_language_of(mailing_list)
    if is_unsubscribe_confirmed(visitor):
        source = visitor.source(origin_of_unsubscribing(visitor))
        for each, its_subscriber in found:
            await visitor.services.subscriptions.unsubscribe(each.name, its_subscriber.guid, source)
        return unsubscribed(visitor, mailing_list, names)
    if visitor.is_post and visitor.text("action") == "cancel":
        return still_subscribed(visitor, mailing_list, names)
    return visitor.render(
        "unsubscribe.html",
        mailing_list=mailing_list,
        email=masked(subscriber.address),
        names=names,
    )


async def _subscriptions(
    visitor: Visitor, owners: Sequence[tuple[ListName, SubscriberGuid]]
) -> list[tuple[MailingList, Subscriber]]:
    """Return the owners of an id who are still subscribed."""
    services = visitor.services
    found = []
    for name, guid in owners:
        subscriber = await services.subscriptions.by_guid(name, guid)
        if subscriber is None:
            continue
        try:
            found.append((await services.lists.get(name), subscriber))
        except NoSuch:
            continue  # it is being deleted
    return found


VIEWS = (link_view("/unsubscribe/imported", unsubscribe_imported),)
