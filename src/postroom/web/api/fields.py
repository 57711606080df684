"""The types of fields and parameters: what they accept, and how the document describes them.

The two agree exactly where a schema can say it: a test compares them by sending what the document
allows and what it forbids. What only code can decide (an address, a merge field) the services do.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from postroom.domain.audience.addresses import LONGEST as LONGEST_ADDRESS
from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.lists import (
    LONGEST_DESCRIPTION,
    LONGEST_POSTAL_ADDRESS,
    parse_list_name,
    parse_new_list_name,
)
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.languages import LANGUAGES, parse_language, parse_list_language
from postroom.domain.messages.messages import LONGEST_SUBJECT
from postroom.domain.messages.refs import parse_ref
from postroom.domain.plain_text import one_line, some_lines

# -- text of one line ----------------------------------------------------------------------------

# As `domain.texts.one_line` has it: control characters, line breaks, overrides of the direction,
# and code points that are no characters (those of the first plane: the others never occur).
_NOT_IN_A_LINE = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff"
_LINE = f"^[^{_NOT_IN_A_LINE}]*[^{_NOT_IN_A_LINE}\\s][^{_NOT_IN_A_LINE}]*$"
_IS_LINE = re.compile(_LINE.removesuffix("$"))


def _line(longest: int) -> Any:
    def check(text: str) -> str:
        if len(text) > longest:
            raise ValueError(f"has {len(text)} characters; {longest} are allowed")
        if not _IS_LINE.fullmatch(text):
            one_line("", text, longest=longest)
            raise ValueError("must not begin or end with a control character")
        return text

    return check


def _line_schema(longest: int, description: str, example: str) -> dict[str, Any]:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": longest,
        "pattern": _LINE,
        "description": description,
        "examples": [example],
    }


Description = Annotated[
    str,
    AfterValidator(_line(LONGEST_DESCRIPTION)),
    WithJsonSchema(
        _line_schema(LONGEST_DESCRIPTION, "What subscribers see in the From field.", "Contoso news")
    ),
]
Subject = Annotated[
    str,
    AfterValidator(_line(LONGEST_SUBJECT)),
    WithJsonSchema(
        _line_schema(
            LONGEST_SUBJECT,
            "May hold the merge fields {{email}} and {{list_description}}.",
            "What is new in November",
        )
    ),
]
Reason = Annotated[
    str,
    AfterValidator(_line(200)),
    WithJsonSchema(_line_schema(200, "Why nothing is sent to it; null unblocks.", "bounced")),
]

# -- lists, addresses, references ----------------------------------------------------------------

_LIST_NAME = {
    "type": "string",
    "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}$",
    "description": "1 to 100 letters, digits, `_`, `-` or `.`.",
    "examples": ["contoso1"],
}
_NEW_LIST_NAME = {
    **_LIST_NAME,
    "pattern": r"^(?!(\.{1,2}|new)$)[A-Za-z0-9_.-]{1,100}$",
    "description": "1 to 100 letters, digits, `_`, `-` or `.`; not `new`.",
}
_ADDRESS = {
    "type": "string",
    "format": "email",
    "minLength": 3,
    "maxLength": LONGEST_ADDRESS,
    "examples": ["ann@example.com"],
}
_REF = {"type": "string", "pattern": "^[0-9]{18}$", "examples": ["639000000000000000"]}

ListName = Annotated[str, AfterValidator(parse_list_name), WithJsonSchema(_LIST_NAME)]
NewListName = Annotated[str, AfterValidator(parse_new_list_name), WithJsonSchema(_NEW_LIST_NAME)]


def _address(text: str) -> str:
    if len(text) > LONGEST_ADDRESS:
        raise ValueError(f"has {len(text)} characters; {LONGEST_ADDRESS} are allowed")
    return parse_address(text)


Address = Annotated[str, AfterValidator(_address), WithJsonSchema(_ADDRESS)]


def _in_path(kind: str, parse: Any) -> Any:
    """What can be no name of a thing names nothing: it is not found, and not the field's fault."""

    def check(text: str) -> str:
        try:
            return str(parse(text))
        except Invalid as exc:
            raise NoSuch(kind, text) from exc

    return check


ListPath = Annotated[
    str,
    Path(description="The list's name."),
    AfterValidator(_in_path("list", parse_list_name)),
    WithJsonSchema(_LIST_NAME),
]
AddressPath = Annotated[
    str,
    Path(description="The address, percent-encoded."),
    AfterValidator(_in_path("subscriber", parse_address)),
    WithJsonSchema(_ADDRESS),
]
RefPath = Annotated[
    str,
    Path(description="The message's reference."),
    AfterValidator(_in_path("message", parse_ref)),
    WithJsonSchema(_REF),
]

Language = Annotated[
    str,
    AfterValidator(partial(parse_language, field="language")),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": "^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,4}$",
            "examples": ["fr"],
        }
    ),
]

ListLanguage = Annotated[
    str,
    AfterValidator(parse_list_language),
    WithJsonSchema(
        {
            "type": "string",
            "enum": list(LANGUAGES),
            "description": "What emails say that is not the author's: footer and confirmation."
            " Also what the public pages speak to visitors whose language is unknown.",
            "examples": ["fr"],
        }
    ),
]

# -- text of several lines -----------------------------------------------------------------------

_NOT_IN_LINES = _NOT_IN_A_LINE.replace(r"\u0000-\u001f", r"\u0000-\u0008\u000b\u000c\u000e-\u001f")


def _lines(text: str) -> str:
    if len(text) > LONGEST_POSTAL_ADDRESS:
        raise ValueError(f"has {len(text)} characters; {LONGEST_POSTAL_ADDRESS} are allowed")
    checked = some_lines("", text, longest=LONGEST_POSTAL_ADDRESS)
    if re.search(f"[{_NOT_IN_LINES}]", text):
        raise ValueError("must not begin or end with a control character")
    return checked


PostalAddress = Annotated[
    str,
    AfterValidator(_lines),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": LONGEST_POSTAL_ADDRESS,
            "pattern": f"^[^{_NOT_IN_LINES}]*$",
            "description": "Shown at the end of every email; lines are separated by line feeds.",
            "examples": ["Contoso Ltd\n1 Main Street\nDublin"],
        }
    ),
]

# -- times ---------------------------------------------------------------------------------------

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)", re.ASCII | re.IGNORECASE
)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def _moment(value: object) -> object:
    """ISO 8601 with a zone; beyond the years that can be told in UTC it is the last of them."""
    if value is None:
        return None
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError("is a time with its zone, as in 2026-11-15T09:00:00+01:00")
    try:
        moment = datetime.fromisoformat(value.upper())
    except ValueError as exc:
        raise ValueError(f"is no time: {exc}") from exc
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _LATEST if moment.year == _LATEST.year else datetime.min.replace(tzinfo=UTC)


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema(
        {
            "type": "string",
            "format": "date-time",
            "description": "ISO 8601 with its zone. A time that has passed means now.",
            "examples": ["2026-11-15T09:00:00+01:00"],
        }
    ),
]

# -- queries and headers -------------------------------------------------------------------------


def _whole(value: object) -> object:
    """Digits only: `1_0`, ` 1` and `1.0` are no numbers of a query."""
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
        raise ValueError("is a whole number")
    return value


def _truth(value: object) -> object:
    if isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise ValueError("is true or false")
        return value.lower() == "true"
    return value


# What `storage.tokens` makes: base64 of a JSON array of text.
_NEXT = r"^Wy[IJKL][A-Za-z0-9_-]{1,4000}$"


def _token(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(_NEXT, value, re.ASCII):
        raise ValueError("is not the 'next' of an earlier answer")
    return value


Limit = Annotated[
    int,
    BeforeValidator(_whole),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
    Query(ge=1, le=1000, description="How many at most. There may be fewer although more follow."),
]
After = Annotated[
    str | None,
    AfterValidator(_token),
    WithJsonSchema({"type": "string", "pattern": _NEXT}),
    Query(description="Go on: `next` of the answer before, of this same index."),
]
IsVerified = Annotated[
    bool | None,
    BeforeValidator(_truth),
    WithJsonSchema({"type": "boolean"}),
    Query(description="Only those that are verified, or only those that are not."),
]
