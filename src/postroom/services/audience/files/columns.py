"""The columns of a CSV file of subscribers: what each means, and what other tools' statuses mean.

Case, spaces and punctuation of a column's name do not matter: `E-Mail_Address` is `email address`.

| column                               | meaning                                                  |
|--------------------------------------|----------------------------------------------------------|
| `email`, or another of `EMAIL_NAMES` | the address                                              |
| `verified`, `confirmed`              | true/false, yes/no, 1/0; empty says nothing              |
| `blocked`                            | why, or just true; empty says nothing                    |
| `status` and the like, `state`       | one of `STATUS_WORDS`; a `state` may also be a place, so |
|                                      | a word that is none of these says nothing there          |
| `unsubscribed`, `unsub_time`, …      | anything but a no: this address has unsubscribed         |
| `blocklisted`, `bounced`, …          | anything but a no: this address must not get mail        |
| the name or label of a field         | its value (`field_columns.py`); empty says nothing       |

Of several columns the strictest counts: blocked, unsubscribed, pending, confirmed, in this order. A
line with an unknown status is rejected: an unknown word verifies nobody.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from postroom.domain.audience.fields import Fields
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, squeezed
from postroom.services.audience.files.field_columns import FieldColumns

EMAIL, VERIFIED, BLOCKED = "email", "verified", "blocked"

# What spreadsheets, address books and other services call the column, the usual ones first.
EMAIL_NAMES: Final = (
    "email", "e-mail", "mail", "email address", "mail address", "e-mail-adresse", "adresse e-mail",
    "mailadresse", "adresse mail", "adresse email", "courriel", "correo electrónico",
    "e-mail 1 - value", "primary email", "subscriber email", "contact email",
    "이메일", "이메일 주소", "전자우편", "электронная почта", "эл. почта",
    "адрес электронной почты",
)  # fmt: skip
DELIMITERS: Final = ",;\t"
LONGEST_HEADER: Final = 64 * 1024  # characters
_NAMES_SHOWN: Final = 7
_LONGEST_FOUND: Final = 300


class Meaning(StrEnum):
    """What a column is used for."""

    ADDRESS = "address"
    VERIFIED = "verified"
    BLOCKED = "blocked"
    STATUS = "status"
    STATE = "state"
    HAS_UNSUBSCRIBED = "has_unsubscribed"
    IS_BLOCKED = "is_blocked"
    FIELD = "field"
    UNUSED = "unused"

    @property
    def text(self) -> str:
        """Return a label for a preview."""
        return _LABELS[self]


_LABELS: Final = {
    Meaning.ADDRESS: "Email address",
    Meaning.VERIFIED: "Confirmed: yes or no",
    Meaning.BLOCKED: "Reason for blocking",
    Meaning.STATUS: "Status",
    Meaning.STATE: "Status (if recognised)",
    Meaning.HAS_UNSUBSCRIBED: "Has unsubscribed",
    Meaning.IS_BLOCKED: "Is blocked",
    Meaning.FIELD: "Field",
    Meaning.UNUSED: "Not imported",
}


class Standing(IntEnum):
    """The state of an address in the tool that the file comes from; larger is stricter."""

    CONFIRMED = 1
    PENDING = 2
    UNSUBSCRIBED = 3
    BLOCKED = 4


class FileColumn(msgspec.Struct, frozen=True):
    """A column of a file, in its order, and what it is used for.

    `field` is the field that it fills; one that `is_new` is created by the import.
    """

    name: str
    meaning: Meaning
    field: str = ""
    is_new: bool = False

    @property
    def text(self) -> str:
        """Return what the column is used for, for a preview."""
        if self.meaning is not Meaning.FIELD:
            return self.meaning.text
        return f"New field {self.field}" if self.is_new else f"Field {self.field}"


# The words of Brevo, ConvertKit, listmonk, Mailchimp, MailerLite, Mailman, phpList and Sendy.
STATUS_WORDS: Final = {
    Standing.CONFIRMED: (
        "confirmed", "active", "enabled", "subscribed", "verified", "opted in", "double opt-in",
    ),
    Standing.PENDING: (
        "pending", "unconfirmed", "unverified", "not confirmed", "not verified", "inactive",
        "nonsubscribed", "not subscribed", "never subscribed", "transactional", "single opt-in",
    ),
    Standing.UNSUBSCRIBED: (
        "unsubscribed", "unsubscribe", "unsub", "opted out", "opt-out", "cancelled", "canceled",
        "removed", "left", "disabled", "archived", "by user",
    ),
    Standing.BLOCKED: (
        "blocklisted", "blacklisted", "blocked", "cleaned", "bounced", "hard bounce",
        "hard bounced", "soft bounced", "complained", "complaint", "spam", "spam complaint",
        "marked as spam", "abuse", "junk", "banned", "suppressed", "invalid", "by bounces",
        "by admin",
    ),
}  # fmt: skip

_COLUMN_NAMES: Final = {
    Meaning.STATUS: (
        "status", "subscription status", "subscriber status", "email status", "contact status",
        "member status", "marketing status", "opt-in status", "subscription state",
    ),
    Meaning.STATE: ("state",),
    Meaning.HAS_UNSUBSCRIBED: (
        "unsubscribed", "unsubscribed at", "unsubscribe date", "unsubscribe time", "unsub time",
        "opted out", "opt-out", "opted out at", "opt-out date", "opt-out time",
    ),
    Meaning.IS_BLOCKED: (
        "blocklisted", "blacklisted", "bounced", "bounced at", "complained", "cleaned",
        "clean time", "marked as spam", "suppressed",
    ),
}  # fmt: skip
_OF_AN_EXPORT: Final = frozenset({"createdat"})
"""Columns of our own exports that an import does not use."""
_NO: Final = frozenset({"", "0", "no", "n", "false", "f", "none", "null", "never", "nil", "na"})


_EMAIL_KEYS: Final = frozenset(map(squeezed, EMAIL_NAMES))
_MEANINGS: Final = {
    squeezed(name): meaning for meaning, names in _COLUMN_NAMES.items() for name in names
}
_STANDINGS: Final = {
    squeezed(word): standing for standing, words in STATUS_WORDS.items() for word in words
}


class Columns:
    """The parsed header line of a file. `Invalid` says what is wrong with it.

    `fields` are those of the list; with `create_fields`, other columns become fields, too.
    """

    def __init__(
        self, header: str, fields: Fields | None = None, *, create_fields: bool = False
    ) -> None:
        self.delimiter, self.names = _parse_header(header)
        names = list(map(str.lower, self.names))
        self.email = _email_column(self.names)
        self.verified = next(
            (names.index(each) for each in (VERIFIED, "confirmed") if each in names), None
        )
        self.blocked = names.index(BLOCKED) if BLOCKED in names else None
        taken = {self.email, self.verified, self.blocked}
        statuses = {
            place: _MEANINGS[squeezed(name)]
            for place, name in enumerate(names)
            if place not in taken and squeezed(name) in _MEANINGS
        }
        self.fields = FieldColumns(
            {
                place: name
                for place, name in enumerate(self.names)
                if place not in taken and squeezed(name) not in _OF_AN_EXPORT
            },
            fields or Fields(),
            create_from=set() if not create_fields else set(range(len(names))) - statuses.keys(),
        )
        # A column can be both. Then its words need not be those of a status.
        is_lenient = {Meaning.STATUS: Meaning.STATE}
        self._statuses = [
            (place, is_lenient.get(each, each) if place in self.fields.places else each)
            for place, each in statuses.items()
        ]

    @property
    def has_statuses(self) -> bool:
        return bool(self._statuses)

    @property
    def all(self) -> list[FileColumn]:
        """Return what each column is used for, in the file's order."""
        known = dict.fromkeys(self.fields.places, Meaning.FIELD)
        known.update(self._statuses)
        known[self.email] = Meaning.ADDRESS
        if self.verified is not None:
            known[self.verified] = Meaning.VERIFIED
        if self.blocked is not None:
            known[self.blocked] = Meaning.BLOCKED
        return [
            FileColumn(
                shown(name),
                known.get(place, Meaning.UNUSED),
                self.fields.places.get(place, ""),
                self.fields.places.get(place, "") in self.fields.new,
            )
            for place, name in enumerate(self.names)
        ]

    def standing(self, row: Sequence[str]) -> tuple[Standing | None, str]:
        """Return the state of a row's address in the other tool, and the word for it in the file.

        `Invalid` for an unknown status.
        """
        found: tuple[Standing | None, str] = None, ""
        for place, meaning in self._statuses:
            if place >= len(row):
                continue
            standing = _standing(meaning, row[place])
            if standing is not None and (found[0] is None or standing > found[0]):
                is_word = meaning in (Meaning.STATUS, Meaning.STATE)
                found = standing, row[place].strip() if is_word else self.names[place]
        return found


def _standing(meaning: Meaning, cell: str) -> Standing | None:
    word = squeezed(cell)
    if meaning in (Meaning.HAS_UNSUBSCRIBED, Meaning.IS_BLOCKED):
        if word in _NO:
            return None
        is_blocked = meaning is Meaning.IS_BLOCKED
        return Standing.BLOCKED if is_blocked else Standing.UNSUBSCRIBED
    if not word or word in _STANDINGS or meaning is Meaning.STATE:
        return _STANDINGS.get(word)
    raise Invalid(
        "status",
        f"unknown status {shown(cell.strip())!r}: use confirmed, pending, unsubscribed or blocked",
    )


# -- header ---------------------------------------------------------------------------------------


def _parse_header(line: str) -> tuple[str, list[str]]:
    """Return the delimiter and the names of the columns."""
    if len(line) == LONGEST_HEADER and line[-1] not in "\r\n":
        raise Invalid("file", f"the first line has more than {LONGEST_HEADER:,} characters")
    header = line.removeprefix("\ufeff").rstrip("\r\n")
    if not header.strip():
        raise Invalid("file", "has no header line: the first line must name a column 'email'")
    # The delimiter with the most columns first; a comma if there is only one column.
    for delimiter in sorted(DELIMITERS, key=header.count, reverse=True):
        columns = [cell.strip() for cell in next(csv.reader([header], delimiter=delimiter))]
        if any(squeezed(each) in _EMAIL_KEYS for each in columns):
            _check_named_once(columns)
            return delimiter, columns
    if "@" in header:
        raise Invalid("file", "has no header line: add a first line with the column 'email'")
    most_used = max(DELIMITERS, key=header.count)
    found = ", ".join(repr(shown(each.strip())) for each in header.split(most_used))
    raise Invalid(
        "file",
        f"has no column 'email', only {shown(found, longest=_LONGEST_FOUND)}. Name the column of"
        f" addresses {', '.join(EMAIL_NAMES[:_NAMES_SHOWN])} or similar",
    )


def _email_column(columns: list[str]) -> int:
    """Return the column `email`; without it, the only one with a similar name."""
    names = list(map(str.lower, columns))
    if EMAIL in names:
        return names.index(EMAIL)
    fitting = [at for at, name in enumerate(names) if squeezed(name) in _EMAIL_KEYS]
    if len(fitting) > 1:
        found = " and ".join(repr(shown(columns[at])) for at in fitting)
        raise Invalid("file", f"has addresses in the columns {found}: name one of them 'email'")
    return fitting[0]


def _check_named_once(columns: list[str]) -> None:
    for name in (EMAIL, VERIFIED, BLOCKED):
        if list(map(str.lower, columns)).count(name) > 1:
            raise Invalid("file", f"has the column {name!r} twice")
