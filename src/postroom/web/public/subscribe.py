"""The sign-up form, for one list or for a choice of lists.

The answer is the same for an address that is on the list, is not yet, or was asked too often, and
it takes about as long: nobody can find out who reads what.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import LONGEST, parse_address
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.audience.signup_limits import place_of
from postroom.web.public.visitor import LARGEST_FORM, Reader, for_readers, shown
from postroom.web.requests.routing import Page

# A field that people do not see and programs like to fill in.
TRAP: Final = "website"
CHOICE: Final = "choice"

# Longer than signing up takes: an answer does not come before, whatever there was to do.
_ANSWER_AFTER = 0.25
_AND_FOR_EACH_LIST = 0.1
_MOST_LISTS = 50
_LOOKED_AT = 200  # lists, for those of them that are open
_MOST_AT_ONCE = 10  # a mailbox gets no more confirmations in a day


async def subscribe(reader: Reader) -> Response:
    in_link, sent = reader.in_link("list"), reader.sent("list")
    # Our own form with a choice says so: where nothing is chosen, nothing is meant.
    has_choice = bool(reader.text(CHOICE))
    asked = in_link if has_choice else in_link or sent
    offered = await _offered(reader, asked)
    if not offered:
        return _nothing_to_offer(reader, asked)
    if len(offered) == 1:
        reader.meet(offered[0])
    if not reader.sends:
        return _form(reader, offered)
    # Whoever names none of several has not chosen all of them.
    must_choose = has_choice or (not asked and len(offered) > 1)
    chosen = [each for each in offered if each.name in sent] if must_choose else offered
    chosen = chosen[:_MOST_AT_ONCE]
    try:
        address = parse_address(reader.text("email")[: LONGEST + 1], "email")
    except Invalid:
        address = None
    if address is None or not chosen:
        return _form(reader, offered, email=reader.text("email"), is_wrong=address is None,
                     chosen=chosen)  # fmt: skip
    work = _sign_up(reader, address, chosen)
    await asyncio.gather(work, asyncio.sleep(_ANSWER_AFTER + _AND_FOR_EACH_LIST * len(chosen)))
    return _check_your_mail(reader, address, chosen)


async def _sign_up(reader: Reader, address: str, chosen: list[MailingList]) -> None:
    if reader.text(TRAP):
        return
    place = place_of(reader.visit.place)
    for each in chosen:
        try:
            await reader.services.subscriptions.subscribe(
                each.name, address, language=reader.chosen_language, place=place
            )
        except NoSuch:
            continue  # deleted at this moment


async def _offered(reader: Reader, names: list[str]) -> list[MailingList]:
    """The lists that were asked for, or all, as far as they are open to the public."""
    if names:
        found = await asyncio.gather(*(_find(reader, name.strip()) for name in names[:_MOST_LISTS]))
        known = {each.name: each for each in found if each is not None}
        return [each for each in known.values() if each.public]
    lists = (await reader.services.lists.page(limit=_LOOKED_AT)).lists
    return [each for each in lists if each.public][:_MOST_LISTS]


async def _find(reader: Reader, name: str) -> MailingList | None:
    try:
        return await reader.services.lists.get(name)
    except (NoSuch, Invalid):
        return None


def _form(
    reader: Reader,
    offered: list[MailingList],
    *,
    email: str = "",
    is_wrong: bool = False,
    chosen: list[MailingList] | None = None,
) -> Response:
    return reader.page(
        "subscribe.html",
        status=200 if chosen is None else 422,
        mailing_list=offered[0] if len(offered) == 1 else None,
        offered=offered,
        chosen=[] if chosen is None else [each.name for each in chosen],
        email=shown(email)[:LONGEST],
        is_wrong=is_wrong,
        is_nothing_chosen=chosen == [],
        trap=TRAP,
        choice=CHOICE,
    )


def _nothing_to_offer(reader: Reader, asked: list[str]) -> Response:
    _ = reader.gettext
    if asked:
        return reader.says(
            _("There is no such list"),
            _("Perhaps it is gone, or the link is not complete."),
            status=404,
        )
    return reader.says(
        _("Nothing to sign up for"), _("There is no list here that is open to everyone.")
    )


def _check_your_mail(reader: Reader, address: str, chosen: list[MailingList]) -> Response:
    _ = reader.gettext
    return reader.says(
        _("Check your mail"),
        _("We are writing to %(email)s. Open the link in that email to confirm, and you are in.",
          email=address),
        mailing_list=chosen[0] if len(chosen) == 1 else None,
        small=_("No email after a few minutes? Look in the spam folder. If you are already"
                " subscribed, we send nothing."),
    )  # fmt: skip


PAGES = (
    Page(
        "/subscribe",
        for_readers(subscribe),
        role=None,
        methods=("GET", "POST"),
        protected=False,
        audited=False,
        max_body=LARGEST_FORM,
    ),
)
