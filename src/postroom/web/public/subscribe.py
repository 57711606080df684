"""The sign-up page, for one list or a choice of lists.

The response is the same, and takes about as long, whether an address is already on the list, is
new, or was tried too often: nobody can find out who subscribes to what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from starlette.responses import Response

from postroom.domain.audience.addresses import LONGEST, parse_address
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists import ListName, MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.audience.signup_limits import network_for_limits
from postroom.web.public.field_inputs import (
    checked_values,
    shown_fields,
    shown_inputs,
    typed_values,
)
from postroom.web.public.visitor import LARGEST_FORM, Visitor, printable, public
from postroom.web.requests.views import View

# A field that people do not see, but bots fill in.
HONEYPOT: Final = "website"
CHOICE: Final = "choice"

# Longer than signing up takes, so that the time of the response reveals nothing.
_RESPONSE_SECONDS = 0.25
_SECONDS_PER_LIST = 0.1
_MOST_LISTS = 50
_LISTS_SEARCHED = 200  # for public ones
MOST_AT_ONCE = 10  # a mailbox gets no more confirmation emails in a day

_FORM = """\
<form method="post" action="{action}">
  <input type="hidden" name="list" value="{name}">
  <label>Email address <input type="email" name="email" required autocomplete="email"></label>
  <!-- Hidden from people. Submissions that fill it in are ignored. -->
  <input type="text" name="{honeypot}" tabindex="-1" autocomplete="off" aria-hidden="true"
         style="position: absolute; left: -9999px">
  <button type="submit">Subscribe</button>
</form>
"""


def form_snippet(base_url: str, name: ListName) -> str:
    """Return the HTML of a sign-up form for another website: no script, no API key."""
    action = escape(f"{base_url}/subscribe")
    return _FORM.format(action=action, name=escape(name), honeypot=HONEYPOT)


async def subscribe(visitor: Visitor) -> Response:
    in_query, in_form = visitor.query_values("list"), visitor.form_values("list")
    # Our own form for several lists has this field: without a selected list, none is meant.
    has_choice = bool(visitor.text(CHOICE))
    requested = in_query if has_choice else in_query or in_form
    offered = await offered_lists(visitor, requested)
    if not offered:
        return _nothingoffered_lists(visitor, requested)
    fields = Fields()
    if len(offered) == 1:
        visitor.default_language_of(offered[0])
        fields = await visitor.services.fields.recent(offered[0].name)
    if not visitor.is_post:
        return _form(visitor, offered, fields)
    # A form without a list does not mean all of several lists.
    must_choose = has_choice or (not requested and len(offered) > 1)
    chosen = [each for each in offered if each.name in in_form] if must_choose else offered
    chosen = chosen[:MOST_AT_ONCE]
    try:
        address = parse_address(visitor.text("email")[: LONGEST + 1], "email")
    except Invalid:
        address = None
    typed = typed_values(visitor, fields.public)
    attributes, problems = checked_values(fields, typed, visitor.gettext)
    if address is None or problems or not chosen:
        return _form(visitor, offered, fields, email=visitor.text("email"), typed=typed,
                     problems=problems, is_invalid=address is None, chosen=chosen)  # fmt: skip
    work = _sign_up(visitor, address, chosen, attributes)
    delay = asyncio.sleep(_RESPONSE_SECONDS + _SECONDS_PER_LIST * len(chosen))
    await asyncio.gather(work, delay)
    return _check_your_email(visitor, address, chosen)


async def _sign_up(
    visitor: Visitor, address: str, chosen: list[MailingList], attributes: Mapping[str, Any]
) -> None:
    if visitor.text(HONEYPOT):
        return
    place = network_for_limits(visitor.visit.place)
    for each in chosen:
        try:
            await visitor.services.subscriptions.subscribe(
                each.name,
                address,
                attributes=attributes,
                language=visitor.chosen_language,
                place=place,
            )
        except (Invalid, NoSuch):
            continue  # deleted, or its fields were changed, at this moment


async def offered_lists(visitor: Visitor, names: list[str]) -> list[MailingList]:
    """Return the requested lists, or all lists, as far as they are public. Among several, there are
    none with required fields: their own pages ask for these."""
    if names:
        lists = await asyncio.gather(*(_find(visitor, each) for each in names[:_MOST_LISTS]))
        by_name = {each.name: each for each in lists if each is not None}
        found = list(by_name.values())
    else:
        found = (await visitor.services.lists.page(limit=_LISTS_SEARCHED)).lists
    public_ones = [each for each in found if each.public][:_MOST_LISTS]
    if len(public_ones) <= 1:
        return public_ones
    fields = await asyncio.gather(
        *(visitor.services.fields.recent(each.name) for each in public_ones)
    )
    return [
        each
        for each, its_fields in zip(public_ones, fields, strict=True)
        if not any(field.required for field in its_fields.public)
    ]


async def _find(visitor: Visitor, name: str) -> MailingList | None:
    try:
        return await visitor.services.lists.get(name)
    except (NoSuch, Invalid):
        return None


def _form(
    visitor: Visitor,
    offered: list[MailingList],
    fields: Fields,
    *,
    email: str = "",
    typed: Mapping[str, Any] = {},
    problems: Mapping[str, str] = {},
    is_invalid: bool = False,
    chosen: list[MailingList] | None = None,
) -> Response:
    shown = shown_fields(offered[0], fields) if len(offered) == 1 else []
    return visitor.render(
        "subscribe.html",
        status=200 if chosen is None else 422,
        mailing_list=offered[0] if len(offered) == 1 else None,
        offered=offered,
        chosen=[] if chosen is None else [each.name for each in chosen],
        email=printable(email)[:LONGEST],
        inputs=shown_inputs(shown, typed, visitor.gettext, problems),
        is_invalid=is_invalid,
        is_nothing_chosen=chosen == [],
        honeypot=HONEYPOT,
        choice=CHOICE,
    )


def _nothingoffered_lists(visitor: Visitor, requested: list[str]) -> Response:
    _ = visitor.gettext
    if requested:
        return visitor.message(
            _("List not found"),
            _("It may have been removed, or the link is incomplete."),
            status=404,
        )
    return visitor.message(
        _("Nothing to sign up for"),
        _("No lists are open for sign-up at the moment."),
        picture="list",
    )


def _check_your_email(visitor: Visitor, address: str, chosen: list[MailingList]) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("Check your email"),
        _("We’ve sent an email to %(email)s. Open the link in it to confirm your subscription.",
          email=address),
        mailing_list=chosen[0] if len(chosen) == 1 else None,
        picture="mail",
        small=_("No email after a few minutes? Check your spam folder. If you are already"
                " subscribed, we don’t send another one."),
    )  # fmt: skip


VIEWS = (
    View(
        "/subscribe",
        public(subscribe),
        role=None,
        methods=("GET", "POST"),
        protected=False,
        audited=False,
        max_body=LARGEST_FORM,
    ),
)
