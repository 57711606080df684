"""The emails that Postroom sends automatically to subscribers of a list, in the list's own words.

A list has a text for each kind and language, as far as someone has written one; otherwise the
standard text counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.audience.lists.list_property import Input, ListForm, ListProperty
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES
from postroom.domain.plain_text import one_line, some_lines

LONGEST_SUBJECT: Final = 200
LONGEST_TEXT: Final = 4000
"""Characters: the texts of one kind in all languages are one property of the list's row."""


class ListEmailKind(StrEnum):
    CONFIRMATION = "confirmation"
    """Asks a new subscriber to confirm."""
    WELCOME = "welcome"
    """Greets a subscriber who has confirmed, if the list is set to."""


class ListEmail(msgspec.Struct, frozen=True):
    """A subject, and a text in Markdown; both may have merge fields."""

    subject: str
    text: str


class WrittenEmail(msgspec.Struct, frozen=True):
    """The text of a list's email in one language; `is_own` unless it is the standard text."""

    kind: ListEmailKind
    language: str
    email: ListEmail
    is_own: bool


def parse_list_email(subject: str, text: str) -> ListEmail:
    """Return a text as it is stored. `Invalid`."""
    return ListEmail(
        one_line("subject", subject, longest=LONGEST_SUBJECT),
        _required("text", some_lines("text", text, longest=LONGEST_TEXT)),
    )


def _required(field: str, text: str) -> str:
    if not text:
        raise Invalid(field, "must not be empty")
    return text


def parse_email_kind(text: str) -> ListEmailKind:
    """Return the kind that a text names. `Invalid`."""
    if text not in set(ListEmailKind):
        raise Invalid("kind", f"must be one of {', '.join(ListEmailKind)}, not {text[:20]!r}")
    return ListEmailKind(text)


def stored_emails(emails: Mapping[str, ListEmail]) -> str:
    """Return texts by language as one text for the store; "" for none."""
    return msgspec.json.encode(emails).decode() if emails else ""


def emails_from(stored: str) -> dict[str, ListEmail]:
    """Return what `stored_emails` has stored, in languages that are still known."""
    if not stored:
        return {}
    found = msgspec.json.decode(stored, type=dict[str, ListEmail])
    return {language: each for language, each in found.items() if language in LANGUAGES}


EMAIL_PROPERTIES: Final = (
    ListProperty(
        name="welcome_email",
        stored_as="WelcomeEmail",
        label="Welcome email",
        help="Whether people who confirm their subscription get a welcome email.",
        check=bool,
        default=False,
        input=Input.FLAG,
        form=ListForm.NONE,
    ),
    *(
        ListProperty(
            name=f"{kind}_emails",
            stored_as=f"{kind.capitalize()}Emails",
            label="",
            help="",
            check=str,
            form=ListForm.NONE,
            in_api=False,
        )
        for kind in ListEmailKind
    ),
)
