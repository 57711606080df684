"""The pages that links in emails lead to: confirm a subscription, unsubscribe.

GET changes nothing, because mail servers and phones open links before people do. Only a button
does, and for unsubscribing the one-click request that email programs send (RFC 8058).
"""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import masked
from postroom.domain.audience.lists.lists import (
    ListName,
    MailingList,
    Subscriber,
    SubscriberGuid,
    parse_guid,
    parse_list_name,
)
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.refs import is_ref
from postroom.web.public.signup.embedding import own_page, with_policy
from postroom.web.public.visitor import Visitor, link_view

# RFC 8058 3.1: the whole body of a one-click request.
_ONE_CLICK: Final = ("List-Unsubscribe", "One-Click")
# Email programs break long links, and people copy more than the link.
_WHITESPACE = re.compile(r"[\s\u200b\u2060\ufeff]+")
_LONGEST_ID = 100


async def confirm(visitor: Visitor) -> Response:
    link = await read_link(visitor)
    if link is None:
        return broken_link(visitor)
    mailing_list, guid = link
    subscriptions = visitor.services.subscriptions
    if visitor.is_post:
        welcomes = visitor.services.welcomes
        await welcomes.prepare(mailing_list, guid, visitor.chosen_language)
        source = visitor.source("confirmation link")
        subscriber = await subscriptions.confirm(mailing_list.name, guid, source)
    else:
        subscriber = await subscriptions.by_guid(mailing_list.name, guid)
    if subscriber is None:
        return broken_link(visitor, _if_public(visitor, mailing_list))
    visitor.default_language_of(mailing_list)
    if subscriber.verified and visitor.is_post and mailing_list.confirmed_url:
        return own_page(mailing_list.confirmed_url)
    if subscriber.verified:
        return _welcome(visitor, mailing_list, subscriber)
    email = masked(subscriber.address)
    page = visitor.render("confirm.html", mailing_list=mailing_list, email=email)
    return with_policy(visitor, page, [mailing_list], is_framed=False)


async def unsubscribe(visitor: Visitor) -> Response:
    link = await read_link(visitor)
    if link is None:
        return broken_link(visitor)
    mailing_list, guid = link
    services = visitor.services
    is_confirmed = is_unsubscribe_confirmed(visitor)
    if is_confirmed:
        source = visitor.source(origin_of_unsubscribing(visitor))
        subscriber = await services.message_unsubscribes.unsubscribe(
            mailing_list.name, guid, message_named(visitor), source
        )
    else:
        subscriber = await services.subscriptions.by_guid(mailing_list.name, guid)
    if subscriber is None:
        return already_unsubscribed(visitor, _if_public(visitor, mailing_list))
    visitor.default_language_of(mailing_list)
    if is_confirmed:
        return unsubscribed(visitor, mailing_list, mailing_list.description)
    if visitor.is_post and visitor.text("action") == "cancel":
        return still_subscribed(visitor, mailing_list, mailing_list.description)
    email = masked(subscriber.address)
    return visitor.render(
        "unsubscribe.html",
        mailing_list=mailing_list,
        email=email,
        names=mailing_list.description,
    )


def origin_of_unsubscribing(visitor: Visitor) -> str:
    """Return how the visitor unsubscribes, for the consent ledger."""
    return "unsubscribe page" if visitor.text("action") == "confirm" else "one-click unsubscribing"


def is_unsubscribe_confirmed(visitor: Visitor) -> bool:
    """Return whether a button was pressed, or an email program unsubscribes with one click."""
    name, value = _ONE_CLICK
    return visitor.is_post and (
        visitor.text("action") == "confirm" or visitor.text(name).strip() == value
    )


async def read_link(visitor: Visitor) -> tuple[MailingList, SubscriberGuid] | None:
    """Return the list and the GUID of a link; None if they cannot be valid."""
    try:
        guid = parse_guid(without_spaces(visitor.parameter("id"))[:_LONGEST_ID])
        name: ListName = parse_list_name(without_spaces(visitor.parameter("listName")))
        mailing_list = await visitor.services.lists.get(name)
    except (Invalid, NoSuch):
        return None
    return mailing_list, guid


def message_named(visitor: Visitor) -> str:
    """Return the reference of the message whose link it is; empty without a possible one."""
    ref = without_spaces(visitor.parameter("ref"))
    return ref if is_ref(ref) else ""


def without_spaces(parameter: str) -> str:
    """Return a parameter of a link without the spaces that email programs put into long links."""
    return _WHITESPACE.sub("", parameter)


def _if_public(visitor: Visitor, mailing_list: MailingList) -> MailingList | None:
    """Return the list if it is public. A link with a wrong GUID reveals nothing about another: no
    description, no logo, no language."""
    if not mailing_list.public:
        return None
    visitor.default_language_of(mailing_list)
    return mailing_list


def broken_link(visitor: Visitor, mailing_list: MailingList | None = None) -> Response:
    _ = visitor.gettext
    action = None
    if mailing_list is not None:
        action = (_("Sign up again"), visitor.link("/subscribe", list=mailing_list.name))
    return visitor.message(
        _("This link does not work"),
        _("It may be incomplete or no longer valid. Open the link in the email again, or copy all"
          " of it."),
        status=404,
        mailing_list=mailing_list,
        action=action,
    )  # fmt: skip


def _welcome(visitor: Visitor, mailing_list: MailingList, subscriber: Subscriber) -> Response:
    _ = visitor.gettext
    own = mailing_list.welcome_text
    fact = _(
        "%(email)s is subscribed to %(list)s.",
        email=masked(subscriber.address),
        list=mailing_list.description,
    )
    hint = _("Unsubscribe any time with the link in every email.")
    text, small = (own, f"{fact} {hint}") if own else (fact, hint)
    return visitor.message(_("Welcome!"), text, mailing_list=mailing_list, small=small)


def unsubscribed(visitor: Visitor, mailing_list: MailingList, names: str) -> Response:
    """Say that the visitor is unsubscribed from the lists with these names."""
    _ = visitor.gettext
    again = (_("Subscribe again"), visitor.link("/subscribe", list=mailing_list.name))
    return visitor.message(
        _("You are unsubscribed"),
        _("You will no longer receive emails from %(list)s.", list=names),
        mailing_list=mailing_list,
        small=_("Was that a mistake?") if mailing_list.public else "",
        action=again if mailing_list.public else None,
    )


def already_unsubscribed(visitor: Visitor, mailing_list: MailingList | None) -> Response:
    """Say that nobody on the list has this link."""
    _ = visitor.gettext
    title = _("You are already unsubscribed")
    if mailing_list is None:
        return visitor.message(title)
    return visitor.message(
        title,
        _("This address does not receive emails from %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
    )


def still_subscribed(visitor: Visitor, mailing_list: MailingList, names: str) -> Response:
    """Say that nothing was changed."""
    _ = visitor.gettext
    return visitor.message(
        _("You are still subscribed"),
        _("You will continue to receive %(list)s.", list=names),
        mailing_list=mailing_list,
    )


VIEWS = (link_view("/confirm", confirm), link_view("/unsubscribe", unsubscribe))
