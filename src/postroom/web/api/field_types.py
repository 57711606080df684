"""The types of fields and parameters: what they accept, and how the OpenAPI document shows them.

The two agree wherever a schema can express it; a test sends what the document allows and what it
forbids. What only code can decide (an address, a merge field) is left to the services.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from postroom.domain.audience.addresses import LONGEST as LONGEST_ADDRESS
from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.lists.lists import parse_list_name, parse_new_list_name
from postroom.domain.audience.segments import parse_segment_name
from postroom.domain.audience.suppressions import LONGEST_REASON
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.languages import parse_language
from postroom.domain.messages.messages import (
    LONGEST_FROM_NAME,
    LONGEST_PREHEADER,
    LONGEST_SUBJECT,
)
from postroom.domain.messages.pictures import LONGEST_ALT
from postroom.domain.messages.refs import parse_ref
from postroom.domain.plain_text import one_line, some_lines
from postroom.services.messages.drafts.templates import LONGEST_DESCRIPTION, LONGEST_TITLE

# -- request bodies -------------------------------------------------------------------------------


class Body(BaseModel):
    """Exactly these fields with exactly these types: nothing is converted."""

    model_config = ConfigDict(strict=True, extra="forbid")


Attributes = Annotated[
    dict[str, Any], Field(description="Values of the list's fields.", examples=[{"city": "Bern"}])
]

InactiveDays = Annotated[
    Literal[90, 180, 365],
    Field(description="For how many days they have neither opened nor clicked an email."),
]


def without_null(schema: dict[str, Any], model: type[Any]) -> None:
    """Describe a change: each field may be left out, and only some may be null."""
    for name, each in schema["properties"].items():
        each.pop("default", None)
        if name not in model.nullable:
            [only] = [some for some in each.pop("anyOf") if some.get("type") != "null"]
            each.update({**only, **each})


class Change(Body):
    """Fields that are left out stay as they are. Null is refused, except where it has a meaning."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=without_null)
    nullable: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="before")
    @classmethod
    def _no_null(cls, value: object, info: ValidationInfo) -> object:
        if value is None and info.field_name not in cls.nullable:
            raise ValueError("must not be null: leave it out to keep its value")
        return value


WITHOUT_NUL = {"type": "string", "pattern": "^[^\\u0000]*$"}


_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """Refuse NUL, which no email and not every store can contain, and half of a surrogate pair,
    which JSON can write as `\\ud800` but UTF-8 cannot."""
    if "\0" in text:
        raise ValueError("must not contain NUL")
    if (found := _SURROGATE.search(text)) is not None:
        raise ValueError(f"contains a character that is not allowed: U+{ord(found[0]):04X}")
    return text


def same_name(given: str | None, name: str) -> None:
    """Raise `Invalid` if the body of a `PUT` has another name than the path."""
    if given is not None and given != name:
        raise Invalid("name", f"must be {name}, as in the path, or left out, not {given}")


Text = Annotated[str, AfterValidator(storable), WithJsonSchema(WITHOUT_NUL)]


def whole_number(value: object) -> object:
    """Accept 3.0 as 3: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# -- text of one line and of several --------------------------------------------------------------

# As `plain_text.one_line` has it: control characters, line breaks, overrides of the direction,
# and code points that are not characters (those of the first plane: the others never occur).
_NOT_IN_A_LINE = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff"
_LINE = f"^[^{_NOT_IN_A_LINE}]*[^{_NOT_IN_A_LINE}\\s][^{_NOT_IN_A_LINE}]*$"
_IS_LINE = re.compile(_LINE.removesuffix("$"))
_NOT_IN_LINES = _NOT_IN_A_LINE.replace(r"\u0000-\u001f", r"\u0000-\u0008\u000b\u000c\u000e-\u001f")
_CONTROL_CHARACTER = "must not begin or end with a control character"


def line(longest: int, description: str, example: str) -> Any:
    """Return the type of a text of one line."""

    def check(text: str) -> str:
        _check_length(text, longest)
        if not _IS_LINE.fullmatch(text):
            one_line("", text, longest=longest)
            raise ValueError(_CONTROL_CHARACTER)
        return text

    schema = {"minLength": 1, "maxLength": longest, "pattern": _LINE}
    return _text(check, {**schema, "description": description, "examples": [example]})


def lines(longest: int, description: str, example: str) -> Any:
    """Return the type of a text of several lines, which may be empty."""

    def check(text: str) -> str:
        _check_length(text, longest)
        checked = some_lines("", text, longest=longest)
        if re.search(f"[{_NOT_IN_LINES}]", text):
            raise ValueError(_CONTROL_CHARACTER)
        return checked

    schema = {"maxLength": longest, "pattern": f"^[^{_NOT_IN_LINES}]*$"}
    return _text(check, {**schema, "description": description, "examples": [example]})


def checked_text(
    parse: Callable[[str], str], longest: int, description: str, example: str, pattern: str = ""
) -> Any:
    """Return the type of a text that `parse` checks; the document shows its length and pattern."""
    is_match = re.compile(pattern or "(?s:.*)").fullmatch

    def check(text: str) -> str:
        _check_length(text, longest)
        parsed = parse(text)
        if not is_match(text):
            raise ValueError(f"must match {pattern}")
        return parsed

    schema = {"maxLength": longest, **({"pattern": pattern} if pattern else {})}
    return _text(check, {**schema, "description": description, "examples": [example]})


def _text(check: Callable[[str], str], schema: dict[str, Any]) -> Any:
    return Annotated[str, AfterValidator(check), WithJsonSchema({"type": "string", **schema})]


def _check_length(text: str, longest: int) -> None:
    if len(text) > longest:
        raise ValueError(f"must have at most {longest} characters, not {len(text)}")


Subject = line(
    LONGEST_SUBJECT,
    "May contain the merge fields {{email}}, {{list_description}} and the list's fields.",
    "What is new in November",
)
Preheader = line(
    LONGEST_PREHEADER, "What an inbox shows after the subject.", "The shop opens on Monday"
)
FromName = line(
    LONGEST_FROM_NAME, "The sender's name, instead of the list's description.", "Ann of Contoso"
)
TemplateTitle = line(LONGEST_TITLE, "Shown in the gallery.", "Spring letter")
TemplateDescription = lines(LONGEST_DESCRIPTION, "What it is for.", "For the spring campaign")
AltText = line(LONGEST_ALT, "What it shows, for people who cannot see it.", "A red cat")
Note = lines(2000, "A note for the team; subscribers do not see it.", "Met at the fair")
WhySuppressed = line(LONGEST_REASON, "Why the address must not receive email.", "request")
Reason = line(200, "Why nothing is sent to this address; null unblocks.", "bounced")

# -- lists, addresses, references -----------------------------------------------------------------

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
    _check_length(text, LONGEST_ADDRESS)
    return parse_address(text)


Address = Annotated[str, AfterValidator(_address), WithJsonSchema(_ADDRESS)]


def in_path(kind: str, parse: Callable[[str], str]) -> Callable[[str], str]:
    """Return a check of a name in a path: one that cannot exist is not found, not invalid."""

    def check(text: str) -> str:
        try:
            return str(parse(text))
        except Invalid as exc:
            raise NoSuch(kind, text) from exc

    return check


ListPath = Annotated[
    str,
    Path(description="The list's name."),
    AfterValidator(in_path("list", parse_list_name)),
    WithJsonSchema(_LIST_NAME),
]
AddressPath = Annotated[
    str,
    Path(description="The address, percent-encoded."),
    AfterValidator(in_path("subscriber", parse_address)),
    WithJsonSchema(_ADDRESS),
]
SuppressedPath = Annotated[
    str,
    Path(description="The address, percent-encoded."),
    AfterValidator(in_path("suppression", parse_address)),
    WithJsonSchema(_ADDRESS),
]
RefPath = Annotated[
    str,
    Path(description="The message's reference."),
    AfterValidator(in_path("message", parse_ref)),
    WithJsonSchema(_REF),
]

_SEGMENT_NAME = {
    "type": "string",
    "pattern": r"^(?!(\.{1,2}|preview)$)[A-Za-z0-9_.-]{1,100}$",
    "description": "1 to 100 letters, digits, `_`, `-` or `.`; not `preview`.",
    "examples": ["berlin"],
}
SegmentName = Annotated[str, AfterValidator(parse_segment_name), WithJsonSchema(_SEGMENT_NAME)]
SegmentPath = Annotated[
    str,
    Path(description="The segment's name."),
    AfterValidator(in_path("segment", parse_segment_name)),
    WithJsonSchema(_SEGMENT_NAME),
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

# -- times ----------------------------------------------------------------------------------------

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)", re.ASCII | re.IGNORECASE
)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def _moment(value: object) -> object:
    """Return ISO 8601 with a zone as a time in UTC, at the latest the end of the year 9999."""
    if value is None:
        return None
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError("must be a time with its zone, such as 2026-11-15T09:00:00+01:00")
    try:
        moment = datetime.fromisoformat(value.upper())
    except ValueError as exc:
        raise ValueError(f"is not a valid time: {exc}") from exc
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
            "description": "ISO 8601 with its zone. A time in the past means now.",
            "examples": ["2026-11-15T09:00:00+01:00"],
        }
    ),
]

# -- queries --------------------------------------------------------------------------------------


def _digits(value: object) -> object:
    """Refuse `1_0`, ` 1` and `1.0`, which Python would read as numbers."""
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
        raise ValueError(f"must be a whole number, not {value[:40]!r}")
    return value


def _truth(value: object) -> object:
    if isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"must be true or false, not {value[:40]!r}")
        return value.lower() == "true"
    return value


# What `storage.codec.encode_token` returns: base64 of a JSON array of text.
_NEXT = r"^Wy[IJKL][A-Za-z0-9_-]{1,4000}$"


def _token(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(_NEXT, value, re.ASCII):
        raise ValueError("must be the 'next' of an earlier response")
    return value


Limit = Annotated[
    int,
    BeforeValidator(_digits),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
    Query(ge=1, le=1000, description="Maximum number of items to return. There may be fewer."),
]
After = Annotated[
    str | None,
    AfterValidator(_token),
    WithJsonSchema({"type": "string", "pattern": _NEXT}),
    Query(description="Pass the `next` of the previous response of the same collection."),
]
Flag = Annotated[bool | None, BeforeValidator(_truth), WithJsonSchema({"type": "boolean"})]
