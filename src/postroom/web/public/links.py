"""Where links in mails lead: confirm a subscription, leave a list.

To look changes nothing, because mail servers and phones look at links before people do. A button
does, and for leaving also what mail programs send by themselves (RFC 8058).
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
from postroom.web.public.visitor import LARGEST_FORM, Reader, for_readers
from postroom.web.requests.routing import Page

# RFC 8058 3.1: the whole body of a one-click request.
_ONE_CLICK: Final = ("List-Unsubscribe", "One-Click")
# Mail programs break long links, and people copy more than the link.
_GAPS = re.compile(r"[\s\u200b\u2060\ufeff]+")
_LONGEST_ID = 100


async def confirm(reader: Reader) -> Response:
    link = await _link(reader)
    if link is None:
        return _no_such_link(reader)
    mailing_list, guid = link
    use = reader.services.subscriptions
    if reader.sends:
        subscriber = await use.confirm(mailing_list.name, guid)
    else:
        subscriber = await use.by_guid(mailing_list.name, guid)
    if subscriber is None:
        return _no_such_link(reader, _known_to_strangers(reader, mailing_list))
    reader.meet(mailing_list)
    if subscriber.verified:
        return _welcome(reader, mailing_list, subscriber)
    return reader.page("confirm.html", mailing_list=mailing_list, email=masked(subscriber.address))


async def unsubscribe(reader: Reader) -> Response:
    link = await _link(reader)
    if link is None:
        return _no_such_link(reader)
    mailing_list, guid = link
    use = reader.services.subscriptions
    is_leaving = _is_told_to_leave(reader)
    find = use.unsubscribe if is_leaving else use.by_guid
    subscriber = await find(mailing_list.name, guid)
    if subscriber is None:
        return _is_off(reader, _known_to_strangers(reader, mailing_list))
    reader.meet(mailing_list)
    if is_leaving:
        return _has_left(reader, mailing_list)
    if reader.sends and reader.text("action") == "cancel":
        return _stays(reader, mailing_list)
    return reader.page(
        "unsubscribe.html", mailing_list=mailing_list, email=masked(subscriber.address)
    )


def _is_told_to_leave(reader: Reader) -> bool:
    name, value = _ONE_CLICK
    return reader.sends and (
        reader.text("action") == "confirm" or reader.text(name).strip() == value
    )


async def _link(reader: Reader) -> tuple[MailingList, SubscriberGuid] | None:
    """The list and the identifier in a link, if there can be such a link at all."""
    try:
        guid = parse_guid(_GAPS.sub("", reader.parameter("id"))[:_LONGEST_ID])
        name: ListName = parse_list_name(_GAPS.sub("", reader.parameter("listName")))
        mailing_list = await reader.services.lists.get(name)
    except (Invalid, NoSuch):
        return None
    return mailing_list, guid


def _known_to_strangers(reader: Reader, mailing_list: MailingList) -> MailingList | None:
    """Return the list if it is open to everyone. Of any other, a link with a wrong identifier shows
    nothing: no description, no logo, no language."""
    if not mailing_list.public:
        return None
    reader.meet(mailing_list)
    return mailing_list


# — What it says —


def _no_such_link(reader: Reader, mailing_list: MailingList | None = None) -> Response:
    _ = reader.gettext
    action = None
    if mailing_list is not None:
        action = (_("Sign up again"), reader.link("/subscribe", list=mailing_list.name))
    return reader.says(
        _("This link does not work"),
        _("It may be incomplete, or no longer be valid. Please open the link in the email again,"
          " or copy all of it."),
        status=404,
        mailing_list=mailing_list,
        action=action,
    )  # fmt: skip


def _welcome(reader: Reader, mailing_list: MailingList, subscriber: Subscriber) -> Response:
    _ = reader.gettext
    own = mailing_list.welcome_text
    fact = _(
        "%(email)s is subscribed to %(list)s.",
        email=masked(subscriber.address),
        list=mailing_list.description,
    )
    ending = _("You can leave at any time: each email has a link for it.")
    if own:
        return reader.says(_("Welcome!"), own, mailing_list=mailing_list, small=f"{fact} {ending}")
    return reader.says(_("Welcome!"), fact, mailing_list=mailing_list, small=ending)


def _has_left(reader: Reader, mailing_list: MailingList) -> Response:
    _ = reader.gettext
    again = (_("Subscribe again"), reader.link("/subscribe", list=mailing_list.name))
    return reader.says(
        _("You have left the list"),
        _("You will get no more emails from %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
        small=_("Was that a mistake?") if mailing_list.public else "",
        action=again if mailing_list.public else None,
    )


def _is_off(reader: Reader, mailing_list: MailingList | None) -> Response:
    _ = reader.gettext
    title = _("You are already off the list")
    if mailing_list is None:
        return reader.says(title)
    return reader.says(
        title,
        _("This address gets no emails from %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
    )


def _stays(reader: Reader, mailing_list: MailingList) -> Response:
    _ = reader.gettext
    return reader.says(
        _("Nothing was changed"),
        _("You will go on receiving %(list)s.", list=mailing_list.description),
        mailing_list=mailing_list,
    )


PAGES = tuple(
    Page(
        path,
        for_readers(endpoint),
        role=None,
        methods=("GET", "POST"),
        protected=False,
        audited=False,
        max_body=LARGEST_FORM,
    )
    for path, endpoint in (("/confirm", confirm), ("/unsubscribe", unsubscribe))
)
