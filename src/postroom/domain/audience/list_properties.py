"""The properties of a list, each defined once.

The store, the API, the command line and the form for lists are derived from this table. To add a
property, add it here and to `MailingList`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final

import msgspec

from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.appearance import parse_colour
from postroom.domain.languages import LANGUAGES, known_language, parse_list_language
from postroom.domain.plain_text import one_line, some_lines

REQUIRED: Final = None


class Input(Enum):
    """How a value is entered."""

    LINE = auto()
    LINES = auto()
    ADDRESS = auto()
    CHOICE = auto()
    FLAG = auto()


class ListProperty(msgspec.Struct, frozen=True):
    """One property of a list.

    `check` returns the value as it is kept or raises `Invalid`; `restore` turns a stored value into
    one that is still known. `in_form` says whether the form for lists has it: the others are on the
    sign-up page's form. `in_api` covers the command line, too.
    """

    name: str
    stored_as: str
    label: str
    help: str
    check: Callable[[Any], Any]
    default: str | bool | None = ""
    input: Input = Input.LINE
    longest: int = 0
    example: str = ""
    choices: tuple[str, ...] = ()
    restore: Callable[[Any], Any] = lambda value: value
    in_form: bool = True
    in_api: bool = True

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def type(self) -> type[str] | type[bool]:
        return bool if self.input is Input.FLAG else str


def _line(name: str, longest: int, **others: Any) -> ListProperty:
    check = partial(one_line, name, longest=longest)
    return ListProperty(name=name, check=check, longest=longest, **others)


def _lines(name: str, longest: int, **others: Any) -> ListProperty:
    check = partial(some_lines, name, longest=longest)
    return ListProperty(name=name, check=check, longest=longest, input=Input.LINES, **others)


_ALL: Final = (
    _line(
        "description",
        200,
        stored_as="Description",
        label="Description",
        help="Subscribers see it as the sender\u2019s name, and in the line that says why they"
        " receive an email.",
        default=REQUIRED,
        example="Contoso news",
    ),
    ListProperty(
        name="from_address",
        stored_as="FromEmailAddress",
        label="From address",
        help="The address that emails come from and that replies go to.",
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
        in_form=False,
    ),
    ListProperty(
        name="language",
        stored_as="Language",
        label="Language",
        help="Used in email footers and confirmation emails, and on the sign-up page when the"
        " visitor\u2019s language is unknown.",
        check=parse_list_language,
        # Rows without a language were written before lists had one, when all emails were English.
        default=LANGUAGES[0],
        input=Input.CHOICE,
        choices=LANGUAGES,
        example="fr",
        restore=lambda code: known_language(code) or LANGUAGES[0],
    ),
    _lines(
        "postal_address",
        500,
        stored_as="PostalAddress",
        label="Postal address",
        help="Shown at the end of every email; many countries require it. Leave empty if your own"
        " design already shows it.",
        example="Contoso Ltd\n1 Main Street\nDublin",
    ),
    _lines(
        "signup_text",
        2000,
        stored_as="SignupText",
        label="Text on the sign-up page",
        help="",
        in_form=False,
        in_api=False,
    ),
    _lines(
        "welcome_text",
        2000,
        stored_as="WelcomeText",
        label="Text on the welcome page",
        help="",
        in_form=False,
        in_api=False,
    ),
    ListProperty(
        name="colour",
        stored_as="Colour",
        label="Colour",
        help="",
        check=parse_colour,
        in_form=False,
        in_api=False,
    ),
    ListProperty(
        name="logo",
        stored_as="Logo",
        label="Logo",
        help="",
        check=str,
        in_form=False,
        in_api=False,
    ),
)

PROPERTIES: Final[Mapping[str, ListProperty]] = {each.name: each for each in _ALL}


def checked_properties(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the given values (not None) as a list keeps them. `Invalid`."""
    return {
        name: PROPERTIES[name].check(value) for name, value in given.items() if value is not None
    }
