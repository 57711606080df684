"""The sign-up page, for one list or a choice of lists.

The response is the same, and takes about as long, whether an address is already on the list, is
new, or was tried too often: nobody can find out who subscribes to what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import JSONResponse, Response

from postroom import clock
from postroom.domain.audience.addresses import LONGEST, Address, parse_address
from postroom.domain.audience.consent import FORM_PREFIX, ConsentSource
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.form_properties import consent_given, consent_version
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.audience.signup.signup_limits import network_for_limits
from postroom.translations import Translator
from postroom.web.public.embedding import (
    CONSENT,
    EMBED,
    HONEYPOT,
    TRACKING,
    foreign_origin,
    is_allowed,
    own_page,
    tracking_text,
    with_policy,
)
from postroom.web.public.field_inputs import (
    checked_values,
    shown_fields,
    shown_inputs,
    typed_values,
)
from postroom.web.public.visitor import LARGEST_FORM, Visitor, printable, public
from postroom.web.requests.views import View

CHOICE: Final = "choice"
PROOF: Final = "altcha"
MOST_AT_ONCE: Final = 10  # a mailbox gets no more confirmation emails in a day

# Longer than signing up takes, so that the time of the response reveals nothing.
_RESPONSE_SECONDS = 0.25
_SECONDS_PER_LIST = 0.1
_MOST_LISTS = 50
_LISTS_SEARCHED = 200  # for public ones


class _Problems(msgspec.Struct, frozen=True):
    """What is wrong with a form; `fields` by the names of its inputs."""

    email: str = ""
    lists: str = ""
    consent: str = ""
    proof: str = ""
    fields: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return any((self.email, self.lists, self.consent, self.proof, self.fields))


class _SignUp:
    """One visit to the form. `only` is the list, unless there is a choice of several."""

    def __init__(self, visitor: Visitor, offered: list[MailingList], fields: Fields) -> None:
        self.visitor = visitor
        self._offered = offered
        self.only = offered[0] if len(offered) == 1 else None
        self._fields = fields
        self._typed = typed_values(visitor, fields.public)

    def render(
        self, problems: _Problems | None = None, chosen: list[str] | None = None
    ) -> Response:
        visitor, only = self.visitor, self.only
        shown = [] if only is None else shown_fields(only, self._fields)
        by_field = {} if problems is None else problems.fields
        return visitor.render(
            "subscribe.html",
            status=422 if problems else 200,
            mailing_list=only,
            offered=self._offered,
            chosen=chosen or [],
            email=printable(visitor.text("email"))[:LONGEST],
            inputs=shown_inputs(shown, self._typed, visitor.gettext, by_field),
            problems=problems or _Problems(),
            consent_name=CONSENT,
            consent_version="" if only is None else consent_version(only.consent_text),
            tracking_name=TRACKING,
            tracking_text=tracking_text(visitor.gettext),
            tracking=bool(visitor.text(TRACKING)),
            honeypot=HONEYPOT,
            choice=CHOICE,
            proof=PROOF,
            proof_texts=_proof_texts(visitor.gettext),
            is_embedded=bool(visitor.parameter(EMBED)),
        )

    async def send(self, chosen: list[MailingList]) -> Response:
        """Sign up, or show the form with what is wrong."""
        visitor, only = self.visitor, self.only
        attributes, by_field = checked_values(self._fields, self._typed, visitor.gettext)
        address, problems = await self._checked(chosen, by_field)
        if address is None or problems:
            return self.render(problems, [each.name for each in chosen])
        delay = asyncio.sleep(_RESPONSE_SECONDS + _SECONDS_PER_LIST * len(chosen))
        await asyncio.gather(self._subscribe(address, chosen, attributes), delay)
        if only is not None and only.thank_you_url:
            return own_page(only.thank_you_url)
        return _check_your_email(visitor, address, chosen)

    async def _checked(
        self, chosen: list[MailingList], by_field: Mapping[str, str]
    ) -> tuple[Address | None, _Problems]:
        visitor, only, _ = self.visitor, self.only, self.visitor.gettext
        email = lists = consent = proof = ""
        address = None
        try:
            address = parse_address(visitor.text("email")[: LONGEST + 1], "email")
        except Invalid:
            email = _("Please enter a valid email address.")
        if not chosen:
            lists = _("Choose at least one.")
        if only is not None and only.consent_text:
            agreed = visitor.text(CONSENT) == consent_version(only.consent_text)
            consent = "" if agreed else _("Please tick this box.")
        problems = _Problems(email, lists, consent, proof, by_field)
        # Last, because each solution can be used once only.
        if not problems and only is not None and only.proof_of_work:
            proofs = visitor.services.proofs
            if not await proofs.accept(only.name, visitor.text(PROOF)):
                proof = _("Please confirm that you are not a robot.")
        return address, msgspec.structs.replace(problems, proof=proof)

    async def _subscribe(
        self, address: Address, chosen: list[MailingList], attributes: Mapping[str, Any]
    ) -> None:
        visitor = self.visitor
        if visitor.text(HONEYPOT):
            return
        place = network_for_limits(visitor.visit.place)
        for each in chosen:
            try:
                await visitor.services.subscriptions.subscribe(
                    each.name,
                    address,
                    attributes=attributes,
                    consent=self._consent(),
                    tracking=each.ask_tracking and bool(visitor.text(TRACKING)),
                    language=visitor.chosen_language,
                    place=place,
                    source=self._source(),
                    may_change=True,
                )
            except (Invalid, NoSuch):
                continue  # deleted, or its fields were changed, at this moment

    def _source(self) -> ConsentSource:
        website = foreign_origin(self.visitor)
        text = "" if self.only is None else self.only.consent_text
        return self.visitor.source(f"{FORM_PREFIX}{website}" if website else "sign-up page", text)

    def _consent(self) -> str:
        text = "" if self.only is None else self.only.consent_text
        return text and consent_given(text, clock.now(), foreign_origin(self.visitor))


async def subscribe(visitor: Visitor) -> Response:
    in_query, in_form = visitor.query_values("list"), visitor.form_values("list")
    # Our own form for several lists has this field: without a selected list, none is meant.
    has_choice = bool(visitor.text(CHOICE))
    requested = in_query if has_choice else in_query or in_form
    offered = await _offered(visitor, requested)
    if not offered:
        return _nothing_offered(visitor, requested)
    fields = Fields()
    if len(offered) == 1:
        visitor.default_language_of(offered[0])
        fields = await visitor.services.fields.recent(offered[0].name)
    sign_up = _SignUp(visitor, offered, fields)
    if not visitor.is_post:
        return with_policy(visitor, sign_up.render(), sign_up.only)
    if not is_allowed(visitor, offered):
        return _site_not_allowed(visitor, sign_up.only)
    # A form without a list does not mean all of several lists.
    must_choose = has_choice or (not requested and len(offered) > 1)
    chosen = [each for each in offered if each.name in in_form] if must_choose else offered
    response = await sign_up.send(chosen[:MOST_AT_ONCE])
    return with_policy(visitor, response, sign_up.only)


async def challenge(visitor: Visitor) -> Response:
    """Return a task for the browser, as the widget of ALTCHA asks for it."""
    found = await _find(visitor, visitor.parameter("list"))
    if found is None or not found.public or not found.proof_of_work:
        return JSONResponse({}, 404)
    return JSONResponse(visitor.services.proofs.challenge(found.name))


async def simple_lists(visitor: Visitor, lists: list[MailingList]) -> list[MailingList]:
    """Return those of the lists that are public and for which an address is all that is needed: no
    required field, no consent, no proof of work."""
    simple = [
        each for each in lists if each.public and not each.consent_text and not each.proof_of_work
    ][:_MOST_LISTS]
    fields = await asyncio.gather(*(visitor.services.fields.recent(each.name) for each in simple))
    return [
        each
        for each, its_fields in zip(simple, fields, strict=True)
        if not any(field.required for field in its_fields.public)
    ]


async def _offered(visitor: Visitor, names: list[str]) -> list[MailingList]:
    """Return the requested lists, or all lists, as far as they are public. Several are offered
    together only if they need no more than an address."""
    if not names:
        lists = (await visitor.services.lists.page(limit=_LISTS_SEARCHED)).lists
    else:
        found = await asyncio.gather(*(_find(visitor, each) for each in names[:_MOST_LISTS]))
        lists = list({each.name: each for each in found if each is not None}.values())
    open_lists = [each for each in lists if each.public]
    return open_lists if len(open_lists) <= 1 else await simple_lists(visitor, open_lists)


async def _find(visitor: Visitor, name: str) -> MailingList | None:
    try:
        return await visitor.services.lists.get(name)
    except (NoSuch, Invalid):
        return None


def _nothing_offered(visitor: Visitor, requested: list[str]) -> Response:
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


def _site_not_allowed(visitor: Visitor, mailing_list: MailingList | None) -> Response:
    _ = visitor.gettext
    name = {} if mailing_list is None else {"list": mailing_list.name}
    return visitor.message(
        _("This form cannot be used here"),
        _("The website that you came from may not sign up people for this list. Nothing was"
          " changed."),
        status=403,
        mailing_list=mailing_list,
        action=(_("Sign up"), visitor.link("/subscribe", **name)),
    )  # fmt: skip


def _proof_texts(_: Translator) -> str:
    """Return the texts of the widget of ALTCHA as JSON, by the names that it gives them."""
    texts = {
        "label": _("I am not a robot"),
        "verifying": _("Checking…"),
        "verified": _("Checked"),
        "error": _("That did not work. Please try again."),
        "expired": _("Too much time has passed. Please try again."),
        "waitAlert": _("Please wait until the check has finished."),
        "verificationRequired": _("Please confirm that you are not a robot."),
    }
    return msgspec.json.encode(texts).decode()


def _check_your_email(visitor: Visitor, address: str, chosen: list[MailingList]) -> Response:
    _ = visitor.gettext
    return visitor.message(
        _("Check your email"),
        _("We’ve sent an email to %(email)s. Open the link in it to confirm your subscription.",
          email=address),
        mailing_list=chosen[0] if len(chosen) == 1 else None,
        picture="mail",
        small=_("No email after a few minutes? Check your spam folder. If you are already"
                " subscribed, we only send one to confirm changes."),
    )  # fmt: skip


VIEWS = (
    View(
        "/subscribe",
        public(subscribe),
        is_public=True,
        methods=("GET", "POST"),
        protected=False,
        audited=False,
        max_body=LARGEST_FORM,
    ),
    View("/subscribe/challenge", public(challenge), is_public=True, protected=False),
)
