"""The sign-up page, for one list or a choice of lists.

The response is the same, and takes about as long, whether an address is already on the list, is
new, or was tried too often: nobody can find out who subscribes to what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import JSONResponse, Response

from postroom import clock
from postroom.domain.audience.addresses import LONGEST, Address, parse_address
from postroom.domain.audience.consent import FORM_PREFIX
from postroom.domain.audience.lists.form_properties import consent_given, consent_version
from postroom.domain.audience.lists.lists import ListName, MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.audience.signup.signup_limits import network_for_limits
from postroom.translations import Translator
from postroom.web.public.field_inputs import (
    FieldInput,
    checked_values,
    shown_inputs,
    typed_values,
)
from postroom.web.public.signup.embedding import (
    foreign_origin,
    is_allowed,
    own_page,
    with_policy,
)
from postroom.web.public.signup.offers import Offer, OfferedList, Questions
from postroom.web.public.signup.snippets import (
    CHOICE,
    CONSENT,
    EMBED,
    HONEYPOT,
    TRACKING,
    tracking_text,
)
from postroom.web.public.visitor import LARGEST_FORM, Visitor, printable, public
from postroom.web.requests.views import View

PROOF: Final = "altcha"
MOST_AT_ONCE: Final = 10  # a mailbox gets no more confirmation emails in a day

# Longer than signing up takes, so that the time of the response reveals nothing.
_RESPONSE_SECONDS = 0.25
_SECONDS_PER_LIST = 0.1
_MOST_LISTS = 50
_LISTS_SEARCHED = 200  # for public ones


class _Problems(msgspec.Struct, frozen=True):
    """The problems of a form: `fields` by the names of its inputs, and `consents`, the texts that
    were not agreed to."""

    email: str = ""
    lists: str = ""
    consents: tuple[str, ...] = ()
    proof: str = ""
    fields: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return any((self.email, self.lists, self.consents, self.proof, self.fields))


_NO_PROBLEMS: Final = _Problems()


class _Asked(msgspec.Struct, frozen=True):
    """What a part of the form shows: inputs, and consents as version and text."""

    inputs: list[FieldInput]
    consents: list[tuple[str, str]]
    privacy_url: str

    def __bool__(self) -> bool:
        return bool(self.inputs or self.consents or self.privacy_url)


class _SignUp:
    """One visit to the form."""

    def __init__(self, visitor: Visitor, offer: Offer) -> None:
        self.visitor = visitor
        self._offer = offer
        self._agreed = visitor.form_values(CONSENT)
        self._typed = {
            each.name: typed_values(visitor, each.fields.public, named=offer.naming(each.name))
            for each in offer.lists
        }

    def render(
        self, problems: _Problems = _NO_PROBLEMS, chosen: Sequence[OfferedList] = ()
    ) -> Response:
        visitor, offer = self.visitor, self._offer
        return visitor.render(
            "subscribe.html",
            status=422 if problems else 200,
            mailing_list=offer.only,
            offered=[
                (each.mailing_list, self._asked(each.alone, each, problems)) for each in offer.lists
            ],
            together=self._asked(offer.together, None, problems),
            chosen=[each.name for each in chosen],
            email=printable(visitor.text("email"))[:LONGEST],
            problems=problems,
            agreed=self._agreed,
            consent_name=CONSENT,
            asks_tracking=offer.asks_tracking,
            tracking_name=TRACKING,
            tracking_text=tracking_text(visitor.gettext),
            tracking=bool(visitor.text(TRACKING)),
            honeypot=HONEYPOT,
            choice=CHOICE,
            challenge_url=_challenge_url(offer.with_proof),
            proof=PROOF,
            proof_texts=_proof_texts(visitor.gettext),
            is_embedded=bool(visitor.parameter(EMBED)),
            has_own_page=bool(offer.thank_you_url),
        )

    def _asked(
        self, questions: Questions, offered: OfferedList | None, problems: _Problems
    ) -> _Asked:
        """Return what is asked for one list, or for several together."""
        typed: dict[str, Any] = {}
        for name, values in self._typed.items():
            typed |= values if offered is None or name == offered.name else {}
        first = self._offer.lists[0] if offered is None else offered
        inputs = shown_inputs(
            questions.fields,
            typed,
            self.visitor.gettext,
            problems.fields,
            named=self._offer.naming(first.name),
            is_needed=self._offer.is_needed,
        )
        consents = [(consent_version(text), text) for text in questions.consents]
        return _Asked(inputs, consents, questions.privacy_url)

    async def send(self, chosen: Sequence[OfferedList]) -> Response:
        """Sign up, or show the form with what is wrong."""
        visitor, url, _ = self.visitor, self._offer.thank_you_url, self.visitor.gettext
        address, attributes, problems = self._read(chosen)
        # Last, because each solution can be used once only.
        if not problems and not await self._has_proof(chosen):
            problems = _Problems(proof=_("Please confirm that you are not a robot."))
        if address is None or problems:
            return self.render(problems, chosen)
        delay = asyncio.sleep(_RESPONSE_SECONDS + _SECONDS_PER_LIST * len(chosen))
        await asyncio.gather(self._subscribe(address, chosen, attributes), delay)
        if url:
            return own_page(url)
        return _check_your_email(visitor, address, [each.mailing_list for each in chosen])

    def _read(
        self, chosen: Sequence[OfferedList]
    ) -> tuple[Address | None, dict[ListName, dict[str, Any]], _Problems]:
        """Return address, attributes by list, and what is wrong."""
        visitor, _ = self.visitor, self.visitor.gettext
        email = lists = ""
        address = None
        try:
            address = parse_address(visitor.text("email")[: LONGEST + 1], "email")
        except Invalid:
            email = _("Please enter a valid email address.")
        if not chosen:
            lists = _("Choose at least one.")
        elif len(chosen) > MOST_AT_ONCE:
            lists = _("Choose at most %(count)s.", count=str(MOST_AT_ONCE))
        attributes: dict[ListName, dict[str, Any]] = {}
        by_field: dict[str, str] = {}
        for each in chosen:
            naming = self._offer.naming(each.name)
            attributes[each.name], wrong = checked_values(
                each.fields, self._typed[each.name], _, named=naming
            )
            by_field |= wrong
        texts = {each.mailing_list.consent_text: "" for each in chosen}
        consents = [t for t in texts if t and consent_version(t) not in self._agreed]
        return address, attributes, _Problems(email, lists, tuple(consents), fields=by_field)

    async def _has_proof(self, chosen: Sequence[OfferedList]) -> bool:
        """Return whether the browser has done the work that the chosen lists ask for."""
        names = [each.name for each in chosen if each.mailing_list.proof_of_work]
        proofs = self.visitor.services.proofs
        return not names or await proofs.accept(names, self.visitor.text(PROOF))

    async def _subscribe(
        self,
        address: Address,
        chosen: Sequence[OfferedList],
        attributes: Mapping[ListName, Mapping[str, Any]],
    ) -> None:
        visitor = self.visitor
        if visitor.text(HONEYPOT):
            return
        place = network_for_limits(visitor.visit.place)
        website = foreign_origin(visitor)
        origin = f"{FORM_PREFIX}{website}" if website else "sign-up page"
        for each in chosen:
            text = each.mailing_list.consent_text
            try:
                await visitor.services.subscriptions.subscribe(
                    each.name,
                    address,
                    attributes=attributes[each.name],
                    consent=text and consent_given(text, clock.now(), website),
                    tracking=each.mailing_list.ask_tracking and bool(visitor.text(TRACKING)),
                    language=visitor.chosen_language,
                    place=place,
                    source=visitor.source(origin, text),
                    may_change=True,
                )
            except (Invalid, NoSuch):
                continue  # deleted, or its fields were changed, at this moment


async def subscribe(visitor: Visitor) -> Response:
    in_query, in_form = visitor.query_values("list"), visitor.form_values("list")
    # Our own form for several lists has this field: without a selected list, none is meant.
    has_choice = bool(visitor.text(CHOICE))
    requested = in_query if has_choice else in_query or in_form
    lists = await _offered(visitor, requested)
    if not lists:
        return _nothing_offered(visitor, requested)
    offer = await offer_of(visitor, lists)
    if offer.language:
        visitor.default_language_of(lists[0])
    sign_up = _SignUp(visitor, offer)
    if not visitor.is_post:
        return with_policy(visitor, sign_up.render(), lists)
    # A form without a list does not mean all of several lists.
    must_choose = has_choice or (not requested and len(lists) > 1)
    chosen = [each for each in offer.lists if not must_choose or each.name in in_form]
    if not is_allowed(visitor, [each.mailing_list for each in chosen]):
        return _site_not_allowed(visitor, offer.only)
    return with_policy(visitor, await sign_up.send(chosen), lists)


async def challenge(visitor: Visitor) -> Response:
    """Return a task for the browser, as the widget of ALTCHA asks for it."""
    names = visitor.query_values("list")[:_MOST_LISTS]
    found = await asyncio.gather(*(_find(visitor, each) for each in names))
    known = [each.name for each in found if each and each.public and each.proof_of_work]
    if not known:
        return JSONResponse({}, 404)
    return JSONResponse(visitor.services.proofs.challenge(known))


async def offer_of(visitor: Visitor, lists: Sequence[MailingList]) -> Offer:
    """Return what a form for these lists asks for."""
    fields = await asyncio.gather(*(visitor.services.fields.recent(each.name) for each in lists))
    return Offer(list(zip(lists, fields, strict=True)))


async def _offered(visitor: Visitor, names: list[str]) -> list[MailingList]:
    """Return the requested lists, or all lists, as far as they are public."""
    if not names:
        lists = (await visitor.services.lists.slice(limit=_LISTS_SEARCHED)).lists
    else:
        found = await asyncio.gather(*(_find(visitor, each) for each in names[:_MOST_LISTS]))
        lists = list({each.name: each for each in found if each is not None}.values())
    return [each for each in lists if each.public][:_MOST_LISTS]


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
        _("The website that you came from is not allowed to sign people up for this list."
          " Nothing was changed."),
        status=403,
        mailing_list=mailing_list,
        action=(_("Sign up"), visitor.link("/subscribe", **name)),
    )  # fmt: skip


def _challenge_url(names: Sequence[ListName]) -> str:
    return f"/subscribe/challenge?{urlencode([('list', each) for each in names])}" if names else ""


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
