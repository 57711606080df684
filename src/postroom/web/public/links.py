"""The pages that links in emails lead to: confirm a subscription, unsubscribe.

GET changes nothing, because mail servers and phones open links before people do. Only a button
does, and for unsubscribing the one-click request that mail programs send (RFC 8058).
"""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import masked
from postroom.domain.audience.lists import (
    ListName,
    MailingList,
    Subscriber,
    SubscriberGuid,
    parse_guid,
    parse_list_name,
)
from postroom.domain.errors import Invalid, NoSuch
from postroom.web.public.embedding import own_page, with_policy
from postroom.web.public.visitor import LARGEST_FORM, Visitor, public
from postroom.web.requests.views import View

# RFC 8058 3.1: the whole body of a one-click request.
_ONE_CLICK: Final = ("List-Unsubscribe", "One-Click")
# Mail programs break long links, and people copy more than the link.
_WHITESPACE = re.compile(r"[\s\u200b\u2060\ufeff]+")
_LONGEST_ID = 100


async def confirm(visitor: Visitor) -> Response:
    link = await read_link(visitor)
    if link is None:
        return broken_link(visitor)
    mailing_list, guid = link
    subscriptions = visitor.services.subscriptions
    find = subscriptions.confirm if visitor.is_post else subscriptions.by_guid
    subscriber = await find(mailing_list.name, guid)
    if subscriber is None:
        return broken_link(visitor, _if_public(visitor, mailing_list))
    visitor.default_language_of(mailing_list)
    if subscriber.verified and visitor.is_post and mailing_list.confirmed_url:
        return own_page(mailing_list.confirmed_url)
    if subscriber.verified:
        return _welcome(visitor, mailing_list, subscriber)
    email = masked(subscriber.address)
    page = visitor.render("confirm.html", mailing_list=mailing_list, email=email)
    return with_policy(visitor, page, mailing_list, is_framed=False)


async def unsubscribe(visitor: Visitor) -> Response:
    link = await read_link(visitor)
    if link is None:
        return broken_link(visitor)
    mailing_list, guid = link
    subscriptions = visitor.services.subscriptions
    is_confirmed = _is_unsubscribe_confirmed(visitor)
    find = subscriptions.unsubscribe if is_confirmed else subscriptions.by_guid
    subscriber = await find(mailing_list.name, guid)
    if subscriber is None:
        return _already_unsubscribed(visitor, _if_public(visitor, mailing_list))
    visitor.default_language_of(mailing_list)
    if is_confirmed:
        return _unsubscribed(visitor, mailing_list)
    if visitor.is_post and visitor.text("action") == "cancel":
        return _still_subscribed(visitor, mailing_list)
    email = masked(subscriber.address)
    return visitor.render("unsubscribe.html", mailing_list=mailing_list, email=email)


def _is_unsubscribe_confirmed(visitor: Visitor) -> bool:
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


def without_spaces(parameter: str) -> str:
    """Return a parameter of a link without the spaces that mail programs put into long links."""
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


def _unsubscribed(visitor: Visitor, mailing_list: MailingList) -> Response:
    _ = visitor.gettext
    again = (_("Subscribe again"), visitor.link("/subscribe", list=mailing_list.name))
    return visitor.message(
        _("You are unsubscribed"),
        _("You will no longer receive emails from %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
        small=_("Was that a mistake?") if mailing_list.public else "",
        action=again if mailing_list.public else None,
    )


def _already_unsubscribed(visitor: Visitor, mailing_list: MailingList | None) -> Response:
    _ = visitor.gettext
    title = _("You are already unsubscribed")
    if mailing_list is None:
        return visitor.message(title)
    return visitor.message(
        title,
        _("This address does not receive emails from %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
    )


def _still_subscribed(visitor: Visitor, mailing_list: MailingList) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("You are still subscribed"),
        _("You will continue to receive %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
    )


VIEWS = tuple(
    View(
        path,
        public(endpoint),
        role=None,
        methods=("GET", "POST"),
        protected=False,
        audited=False,
        max_body=LARGEST_FORM,
    )
    for path, endpoint in (("/confirm", confirm), ("/unsubscribe", unsubscribe))
)
