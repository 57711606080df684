"""Mailing lists, their properties and their subscribers.

Each property of a list is defined once, in the table `PROPERTIES`: the store, the API, the command
line and the form for lists are derived from it. To add a property, add it there and to
`MailingList`. Some properties are defined next to their rules, such as those of the brand in
`brand.py`.
"""

from __future__ import annotations

import os
import re
import secrets
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, NewType

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key, parse_address
from postroom.domain.audience.lists.appearance import Colour
from postroom.domain.audience.lists.brand import BRAND_PROPERTIES, DEFAULT_FONT, Brand
from postroom.domain.audience.lists.form_properties import FORM_PROPERTIES
from postroom.domain.audience.lists.list_emails import (
    EMAIL_PROPERTIES,
    ListEmail,
    ListEmailKind,
    emails_from,
)
from postroom.domain.audience.lists.list_property import (
    REQUIRED,
    Input,
    ListForm,
    ListProperty,
    line,
    lines,
)
from postroom.domain.audience.lists.mail_headers import MAIL_PROPERTIES
from postroom.domain.audience.time_zones import DEFAULT_ZONE, ZONE_PROPERTY
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES, known_language, parse_list_language
from postroom.domain.messages.tracking import Track, parse_track

ListName = NewType("ListName", str)
EVERY_LIST: Final = ListName("*")
"""Stands for all lists: fields that are declared here apply to each of them."""
SubscriberGuid = NewType("SubscriberGuid", str)

_LIST_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")

# RFC 9562 5.4: the version in the first half of byte 6, the variant in two bits of byte 8.
_RANDOM_BITS = bytes.fromhex("ffffffffffff0fff3fffffffffffffff")
_FIXED_BITS = bytes.fromhex("00000000000040008000000000000000")


class MailingList(msgspec.Struct, frozen=True):
    """A list, as the store keeps it. The ETag guards an edit.

    `PROPERTIES` describes the properties. If the list is not `public`, only administrators and
    programs with a key can add subscribers. `logo` names the picture on the list's public pages.
    `confirmation_emails` and `welcome_emails` are its own texts of these (`list_emails.py`).
    """

    name: ListName
    description: str
    from_address: Address
    created_at: datetime
    etag: str = ""
    public: bool = True
    signup_text: str = ""
    welcome_text: str = ""
    colour: Colour = Colour("")
    button_colour: Colour = Colour("")
    logo: str = ""
    language: str = LANGUAGES[0]
    postal_address: str = ""
    reply_to: str = ""
    headers: str = ""
    font: str = DEFAULT_FONT
    website: str = ""
    social_links: str = ""
    footer_text: str = ""
    footer_text_en: str = ""
    footer_text_fr: str = ""
    footer_text_de: str = ""
    footer_text_ko: str = ""
    footer_text_ru: str = ""
    noindex: bool = False
    ask_name: bool = False
    consent_text: str = ""
    ask_tracking: bool = False
    privacy_url: str = ""
    proof_of_work: bool = False
    allowed_origins: str = ""
    thank_you_url: str = ""
    confirmed_url: str = ""
    welcome_email: bool = False
    track: str = Track.OFF.value
    time_zone: str = DEFAULT_ZONE
    utm_source: str = ""
    confirmation_emails: str = ""
    welcome_emails: str = ""

    @property
    def origins(self) -> list[str]:
        """The sites that may show the sign-up form."""
        return self.allowed_origins.split()

    def own_emails(self, kind: ListEmailKind) -> dict[str, ListEmail]:
        """Return the texts that the list has for its emails, by language."""
        return emails_from(str(getattr(self, f"{kind}_emails")))

    @property
    def brand(self) -> Brand:
        """How the list's public pages and its emails look."""
        return Brand(**{name: getattr(self, name) for name in Brand.__struct_fields__})


class Subscriber(msgspec.Struct, frozen=True):
    """An address on a list. The GUID is the secret in its links.

    `merged_guids` belonged to subscribers whose addresses differed from this one only in case,
    before such addresses were one subscriber: their links still work. `attributes` are the values
    of the list's fields, as JSON has them. Nothing is sent until `paused_until`.
    `pending_attributes` were given at a later sign-up, and count once the owner has confirmed. The
    `note` is for the team. `consent` says what the owner agreed to at the sign-up, or how they
    signed up in the tool that they were imported from. With `is_suppressed` they are blocked by a
    suppression of the address, and not by hand. `tracking` says that they agreed that their opens
    and clicks are measured, as long as they do not withdraw it: since when, and the days of the
    last open and click (`opened_at`, `clicked_at`). `former_addresses` are those that they have
    changed (see `former_addresses.py`). `source` says how they came to the list, unless
    `attributes` have another one.
    """

    list_name: ListName
    address: Address
    guid: SubscriberGuid
    verified: bool
    created_at: datetime
    verified_at: datetime | None = None
    blocked: str = ""
    etag: str = ""
    merged_guids: tuple[SubscriberGuid, ...] = ()
    attributes: Mapping[str, Any] = {}
    paused_until: datetime | None = None
    pending_attributes: Mapping[str, Any] = {}
    note: str = ""
    consent: str = ""
    is_suppressed: bool = False
    tracking: bool = False
    tracking_since: datetime | None = None
    opened_at: datetime | None = None
    clicked_at: datetime | None = None
    former_addresses: tuple[AddressKey, ...] = ()
    source: str = ""

    @property
    def known(self) -> Mapping[str, Any]:
        """The values of all fields, including those that are filled in automatically."""
        return with_source(self.attributes, self.source)

    @property
    def guids(self) -> tuple[SubscriberGuid, ...]:
        """All GUIDs that lead to this subscriber."""
        return (self.guid, *self.merged_guids)

    @property
    def key(self) -> AddressKey:
        return address_key(self.address)

    @property
    def may_receive(self) -> bool:
        """Whether emails may be sent, apart from a pause, which ends automatically."""
        return self.verified and not self.blocked


def with_source(attributes: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """Return attributes with how a subscriber came to the list, unless they say it themselves."""
    return {"source": source} | dict(attributes) if source else attributes


def parse_list_name(text: str, field: str = "list") -> ListName:
    if not isinstance(text, str) or not _LIST_NAME.fullmatch(text):
        raise Invalid(field, "must have 1 to 100 letters, digits, '_', '-' or '.'")
    if text in (".", ".."):
        raise Invalid(field, f"must not be {text!r}")
    return ListName(text)


def parse_new_list_name(text: str, field: str = "name") -> ListName:
    """Parse the name of a list to be created; `new` is reserved for the form `/lists/new`."""
    if text == "new":
        raise Invalid(field, "must not be 'new', which is reserved")
    return parse_list_name(text, field)


def new_guid() -> SubscriberGuid:
    """Return an unguessable GUID (version 4)."""
    try:
        g = _unused_guids.pop()
    except IndexError:
        [g, *more] = _guid_digits(_GUIDS_AT_ONCE)
        _unused_guids.extend(more)
    return SubscriberGuid(f"{g[:8]}-{g[8:12]}-{g[12:16]}-{g[16:20]}-{g[20:]}")


_GUIDS_AT_ONCE: Final = 256  # the system's random numbers cost more per call than per byte
_unused_guids: list[str] = []
os.register_at_fork(after_in_child=_unused_guids.clear)  # two processes must not use the same


def new_guids(count: int) -> list[SubscriberGuid]:
    """Return many GUIDs in order, in a tenth of the time that one by one takes.

    They share their first 16 random bits, so that rows written together are stored together: a list
    of a million grows nearly twice as fast. Each has 106 more random bits.
    """
    begin = secrets.token_hex(2)
    ends = sorted(digits[4:] for digits in _guid_digits(count))
    return [SubscriberGuid(f"{begin}{g[:4]}-{g[4:8]}-{g[8:12]}-{g[12:16]}-{g[16:]}") for g in ends]


def _guid_digits(count: int) -> list[str]:
    """Return the hexadecimal digits of random GUIDs."""
    number = int.from_bytes(secrets.token_bytes(16 * count))
    number &= int.from_bytes(_RANDOM_BITS * count)
    number |= int.from_bytes(_FIXED_BITS * count)
    digits = number.to_bytes(16 * count).hex()
    return [digits[start : start + 32] for start in range(0, 32 * count, 32)]


def parse_guid(text: str, field: str = "id") -> SubscriberGuid:
    try:
        return SubscriberGuid(str(uuid.UUID(text)))
    except (ValueError, AttributeError, TypeError) as exc:
        raise Invalid(field, "is not a valid identifier") from exc


_ALL: Final = (
    line(
        "description",
        200,
        stored_as="Description",
        label="Description",
        help="Subscribers see it as the sender’s name, and in the line that says why they"
        " receive an email.",
        default=REQUIRED,
        example="Contoso news",
    ),
    ListProperty(
        name="from_address",
        stored_as="FromEmailAddress",
        label="From address",
        help="The address that emails come from.",
        check=partial(parse_address, field="from_address"),
        default=REQUIRED,
        input=Input.ADDRESS,
        example="news@example.com",
    ),
    ListProperty(
        name="public",
        stored_as="Public",
        label="Public",
        help="Whether anyone can sign up on the sign-up page.",
        check=bool,
        default=True,
        input=Input.FLAG,
        form=ListForm.SIGNUP_PAGE,
    ),
    ListProperty(
        name="language",
        stored_as="Language",
        label="Language",
        help="Used in email footers and confirmation emails, and on the sign-up page when the"
        " visitor’s language is unknown.",
        check=parse_list_language,
        # Rows without a language were written before lists had one, when all emails were English.
        default=LANGUAGES[0],
        input=Input.CHOICE,
        choices=LANGUAGES,
        example="fr",
        restore=lambda code: known_language(code) or LANGUAGES[0],
    ),
    lines(
        "signup_text",
        2000,
        stored_as="SignupText",
        label="Sign-up text",
        help="What people will receive, and how often. Leave empty for a standard text.",
        form=ListForm.SIGNUP_PAGE,
        in_api=False,
    ),
    lines(
        "welcome_text",
        2000,
        stored_as="WelcomeText",
        label="Welcome text",
        help="Shown after someone confirms their subscription.",
        form=ListForm.SIGNUP_PAGE,
        in_api=False,
    ),
    *BRAND_PROPERTIES,
    ListProperty(
        name="noindex",
        stored_as="NoIndex",
        label="Hidden from search engines",
        help="Whether search engines are asked not to list the web archive.",
        check=bool,
        default=False,
        input=Input.FLAG,
        form=ListForm.SIGNUP_PAGE,
    ),
    ListProperty(
        name="logo",
        stored_as="Logo",
        label="Logo",
        help="",
        check=str,
        form=ListForm.NONE,
        in_api=False,
    ),
    *MAIL_PROPERTIES,
    ListProperty(
        name="track",
        stored_as="Track",
        label="Opens and clicks",
        help="Whether messages to this list measure opens and clicks, unless a message says"
        " otherwise. Aggregate counts them without identifying anyone. Personal also records who,"
        " but only for subscribers who agreed to it and have not withdrawn their consent.",
        check=lambda text: parse_track(text).value,
        default=Track.OFF.value,
        input=Input.CHOICE,
        choices=tuple(map(str, Track)),
        example="aggregate",
        restore=lambda stored: stored if stored in set(Track) else Track.OFF.value,
    ),
    ZONE_PROPERTY,
    line(
        "utm_source",
        100,
        required=False,
        stored_as="UtmSource",
        label="UTM source",
        help="The source in links to websites, for web analytics. The medium is email, and the"
        " campaign is the day and the subject. Links that have UTM parameters stay as they are. If"
        " empty, none are added.",
        example="newsletter",
    ),
    *FORM_PROPERTIES,
    *EMAIL_PROPERTIES,
)

PROPERTIES: Final[Mapping[str, ListProperty]] = {each.name: each for each in _ALL}


def checked_properties(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the given values (not None) as a list keeps them. `Invalid`."""
    return {
        name: PROPERTIES[name].check(value) for name, value in given.items() if value is not None
    }


def properties_of(form: ListForm) -> tuple[ListProperty, ...]:
    """Return the properties that are edited in this form."""
    return tuple(each for each in PROPERTIES.values() if each.form is form)
