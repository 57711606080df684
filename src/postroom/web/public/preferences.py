"""The preferences page, which every email links to, and the confirmation of a new address.

The link is the proof: its GUID is in emails to the subscriber only. Someone who was
forwarded an email has it as well, so the page shows the address masked, and nothing about private
lists; another list or address counts only after a confirmation email. GET changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from postroom import clock
from postroom.domain.audience.addresses import LONGEST, Address, masked, parse_address
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.lists import ListName, MailingList, Subscriber, parse_list_name
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow
from postroom.domain.languages import known_language
from postroom.domain.rate_limits import RateLimit, RateLimiter
from postroom.services.audience.signup.signup_limits import network_for_limits
from postroom.services.resources.personal_data import describe_personal_data
from postroom.web.public.field_inputs import (
    checked_values,
    shown_fields,
    shown_inputs,
    too_large,
    typed_values,
)
from postroom.web.public.links import broken_link, message_named, read_link, without_spaces
from postroom.web.public.signup.snippets import TRACKING, tracking_text
from postroom.web.public.signup.subscribe import MOST_AT_ONCE
from postroom.web.public.visitor import (
    LANGUAGE_NAMES,
    Visitor,
    link_view,
    printable,
    shown_day,
)

_LONGEST_TOKEN: Final = 2000
_ORIGIN: Final = "preferences page"
# Making a file means looking into every message of the list.
_DOWNLOADS: Final = RateLimiter(RateLimit(burst=3, interval=60.0))
_LISTS_AT_ONCE: Final = 100
_MOST_TO_JOIN: Final = 50
"""The most lists of each kind that are offered. All those that someone is on are shown."""


class _PreferencesForm:
    """The page of one subscriber, and what its forms do."""

    def __init__(
        self,
        visitor: Visitor,
        mailing_list: MailingList,
        subscriber: Subscriber,
        fields: Fields,
        others: OtherLists,
    ) -> None:
        self.visitor = visitor
        self._list = mailing_list
        self._subscriber = subscriber
        self._fields = fields
        self._others = others
        self._shown = shown_fields(mailing_list, fields, subscriber.attributes)
        self._source = visitor.source(_ORIGIN)

    async def render(
        self,
        notice: str = "",
        *,
        typed: Mapping[str, Any] | None = None,
        problems: Mapping[str, str] = {},
        new_address: str | None = None,
    ) -> Response:
        subscriber, visitor = self._subscriber, self.visitor
        values = subscriber.attributes if typed is None else typed
        paused = subscriber.paused_until
        link = {"id": subscriber.guid, "listName": subscriber.list_name}
        if ref := message_named(visitor):
            link["ref"] = ref
        return visitor.render(
            "preferences.html",
            status=422 if problems or new_address is not None else 200,
            mailing_list=self._list,
            email=masked(subscriber.address),
            notice=notice,
            inputs=shown_inputs(self._shown, values, visitor.gettext, problems),
            language_names=LANGUAGE_NAMES,
            chosen_language=subscriber.attributes.get("language", ""),
            others=self._others.ticked,
            subscribed=self._others.joined,
            with_form=[
                (each.description, visitor.link("/subscribe", list=each.name))
                for each in self._others.with_form
            ],
            paused_until=shown_day(paused, visitor.language)
            if paused and paused > clock.now()
            else "",
            new_address=printable(new_address or "")[:LONGEST],
            is_invalid_address=new_address is not None,
            asks_tracking=self._asks_tracking,
            tracking_name=TRACKING,
            tracking_text=tracking_text(visitor.gettext),
            tracking=subscriber.tracking,
            unsubscribe_url=visitor.link("/unsubscribe", **link),
        )

    @property
    def _asks_tracking(self) -> bool:
        """Whether the page asks for consent to tracking; what was given can always be withdrawn."""
        return self._list.ask_tracking or self._subscriber.tracking

    async def save(self) -> Response:
        """Save fields, language, consent to tracking, and lists."""
        visitor, _ = self.visitor, self.visitor.gettext
        typed = typed_values(visitor, self._shown, missing_means_no=True)
        attributes, problems = checked_values(self._fields, typed, _)
        if problems:
            return await self.render(typed=typed, problems=problems)
        language = known_language(visitor.text("language"))
        preferences = visitor.services.preferences
        try:
            self._subscriber = await preferences.save(
                self._subscriber,
                attributes,
                language,
                self._source,
                tracking=bool(visitor.text(TRACKING)) if self._asks_tracking else None,
            )
        except Invalid:
            if not typed:
                raise
            # No room left by the fields that are not public.
            return await self.render(typed=typed, problems=too_large(typed, _))
        is_asked = await self._change_lists(set(visitor.form_values("list")))
        self._others = await _other_lists(visitor, self._subscriber.address, self._list.name)
        more = _("To confirm the new list, open the link in the email we’ve sent you.")
        return await self.render(f"{_('Saved.')} {more}" if is_asked else _("Saved."))

    async def pause(self) -> Response:
        preferences = self.visitor.services.preferences
        self._subscriber = await preferences.pause(self._subscriber, self._source)
        _ = self.visitor.gettext
        return await self.render(_("Paused. You won’t receive anything for the next 30 days."))

    async def resume(self) -> Response:
        preferences = self.visitor.services.preferences
        self._subscriber = await preferences.resume(self._subscriber, self._source)
        return await self.render(self.visitor.gettext("You will receive emails again."))

    async def change_address(self) -> Response:
        visitor, typed = self.visitor, self.visitor.text("email")
        try:
            address = parse_address(typed[: LONGEST + 1], "email")
        except Invalid:
            return await self.render(new_address=typed)
        place = network_for_limits(visitor.visit.place)
        if address != self._subscriber.address:
            await visitor.services.preferences.request_address(
                self._subscriber, address, language=visitor.chosen_language, place=place
            )
        _ = visitor.gettext
        return await self.render(
            _("We’ve sent an email to %(email)s. Open the link in it to confirm your new address.",
              email=address)
        )  # fmt: skip

    async def download(self) -> Response:
        """Return everything about this subscription as a file."""
        visitor, subscriber = self.visitor, self._subscriber
        if _DOWNLOADS.wait(subscriber.guid):
            limited = await self.render(visitor.gettext("Please wait a minute and try again."))
            limited.status_code = 429
            limited.headers["Retry-After"] = "60"
            return limited
        _DOWNLOADS.count(subscriber.guid)
        emails = await visitor.services.tracing.emails_of_list(subscriber)
        engagement = await visitor.services.tracing.engagement(subscriber.address, emails)
        history = await visitor.services.ledger.of_subscriber(subscriber)
        ids = await visitor.services.tracing.foreign_ids_of(subscriber)
        described = describe_personal_data(subscriber, history, emails, engagement, ids)
        data = msgspec.json.encode(described)
        name = f"{subscriber.list_name}.json"
        return Response(
            msgspec.json.format(data, indent=2),
            media_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    # -- other lists -------------------------------------------------------------------------

    async def _change_lists(self, wanted: set[str]) -> bool:
        """Leave lists that are no longer wanted, and ask for a confirmation of new ones; return
        whether there are new ones. Lists that the page did not show are not left."""
        subscriptions, joined = self.visitor.services.subscriptions, self._others.joined
        shown = set(self.visitor.form_values("shown"))
        for name, subscriber in joined.items():
            if name in shown - wanted:
                await subscriptions.unsubscribe(name, subscriber.guid, self._source)
        new = [e for e in self._others.ticked if e.name in wanted - joined.keys()][:MOST_AT_ONCE]
        place = network_for_limits(self.visitor.visit.place)
        for each in new:
            await subscriptions.subscribe(
                each.name,
                self._subscriber.address,
                language=self.visitor.chosen_language,
                place=place,
                source=self._source,
            )
        return bool(new)


_ACTIONS: Final[Mapping[str, Callable[[_PreferencesForm], Awaitable[Response]]]] = {
    "save": _PreferencesForm.save,
    "pause": _PreferencesForm.pause,
    "resume": _PreferencesForm.resume,
    "address": _PreferencesForm.change_address,
    "download": _PreferencesForm.download,
}


async def preferences(visitor: Visitor) -> Response:
    link = await read_link(visitor)
    if link is None:
        return broken_link(visitor)
    mailing_list, guid = link
    subscriber = await visitor.services.subscriptions.by_guid(mailing_list.name, guid)
    if subscriber is None:
        return broken_link(visitor)
    visitor.default_language_of(mailing_list)
    if not subscriber.verified:
        address = visitor.link("/confirm", id=guid, listName=mailing_list.name)
        return RedirectResponse(address, 303)
    declared, others = await asyncio.gather(
        visitor.services.fields.of(mailing_list.name),
        _other_lists(visitor, subscriber.address, mailing_list.name),
    )
    fields = declared.fields.keeping_choices(subscriber.attributes)
    page = _PreferencesForm(visitor, mailing_list, subscriber, fields, others)
    action = _ACTIONS.get(visitor.text("action")) if visitor.is_post else None
    try:
        return await (page.render() if action is None else action(page))
    except NoSuch:
        return broken_link(visitor)  # unsubscribed at this moment


async def confirm_address(visitor: Visitor) -> Response:
    """Show the new address with a button, which changes it."""
    preferences = visitor.services.preferences
    token = without_spaces(visitor.parameter("token"))[:_LONGEST_TOKEN]
    try:
        name = parse_list_name(without_spaces(visitor.parameter("listName")), "listName")
        mailing_list = await visitor.services.lists.get(name)
    except (Invalid, NoSuch):
        return broken_link(visitor)
    change = preferences.read_token(name, token)
    if change is None:
        return broken_link(visitor)
    visitor.default_language_of(mailing_list)
    if not visitor.is_post:
        email = masked(change.new)
        return visitor.render("confirm_address.html", mailing_list=mailing_list, email=email)
    _ = visitor.gettext
    try:
        changed = await preferences.change_address(name, change, visitor.source(_ORIGIN))
    except Exists:
        return visitor.message(
            _("This address is already subscribed"),
            _("Nothing was changed. You can unsubscribe your old address."),
            mailing_list=mailing_list,
        )
    except NotNow:
        return visitor.message(
            _("This address cannot be changed again"),
            _("Sign up with your new address, and unsubscribe the old one."),
            mailing_list=mailing_list,
        )
    if changed is None:
        return broken_link(visitor)
    return _address_changed(visitor, mailing_list, changed.address)


def _address_changed(visitor: Visitor, mailing_list: MailingList, address: Address) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("Address changed"),
        _(
            "%(email)s is subscribed to %(list)s.",
            email=masked(address),
            list=mailing_list.description,
        ),
        mailing_list=mailing_list,
    )


class OtherLists(msgspec.Struct, frozen=True):
    """Public lists by name: those with the address as a confirmed subscriber, those that need no
    more than the address, and those that have their own form."""

    joined: dict[ListName, Subscriber]
    ticked: list[MailingList]
    """The lists with a box: those that can be left, and those that can be joined with it."""
    with_form: list[MailingList]


async def _other_lists(visitor: Visitor, address: Address, but: ListName) -> OtherLists:
    """Return the public lists for an address, except for one."""
    public: list[MailingList] = []
    joined: dict[ListName, Subscriber] = {}
    after: str | None = None
    while True:
        part = await visitor.services.lists.slice(limit=_LISTS_AT_ONCE, after=after)
        found = [each for each in part.lists if each.public and each.name != but]
        subscribers = await asyncio.gather(
            *(visitor.services.subscriber_rows.find(each.name, address) for each in found)
        )
        joined |= {each.list_name: each for each in subscribers if each and each.verified}
        public += found
        if (after := part.next) is None:
            break
    others = [each for each in public if each.name not in joined]
    simple = await _simple_lists(visitor, others)
    names = joined.keys() | {each.name for each in simple}
    return OtherLists(
        joined,
        [each for each in public if each.name in names],
        [each for each in others if _has_form(each, simple)][:_MOST_TO_JOIN],
    )


async def _simple_lists(visitor: Visitor, lists: list[MailingList]) -> list[MailingList]:
    """Return those of the lists for which an address is all that is needed: no
    required field, no consent, no proof of work."""
    simple = [each for each in lists if not each.consent_text and not each.proof_of_work]
    simple = simple[:_MOST_TO_JOIN]
    fields = await asyncio.gather(*(visitor.services.fields.recent(each.name) for each in simple))
    return [
        each
        for each, its_fields in zip(simple, fields, strict=True)
        if not any(field.required for field in its_fields.public)
    ]


def _has_form(mailing_list: MailingList, simple: list[MailingList]) -> bool:
    return mailing_list.name not in {each.name for each in simple}


VIEWS = (
    link_view("/preferences", preferences),
    link_view("/preferences/address", confirm_address),
)
