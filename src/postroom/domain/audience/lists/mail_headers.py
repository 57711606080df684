"""Headers that a list adds to its emails: Reply-To, and lines that begin with `X-`."""

from __future__ import annotations

import re
from typing import Final

from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.lists.list_property import Input, ListProperty
from postroom.domain.errors import Invalid
from postroom.domain.plain_text import one_line, some_lines

MOST_HEADERS: Final = 10
_LONGEST_NAME: Final = 60
_LONGEST_VALUE: Final = 200
_LONGEST: Final = MOST_HEADERS * (_LONGEST_NAME + _LONGEST_VALUE + 2)
_NAME: Final = re.compile(r"X-[A-Za-z0-9][A-Za-z0-9-]*", re.IGNORECASE)
# How names begin: those that Postroom adds to recognise bounces, and those that providers obey.
_OURS: Final = ("x-postroom", "x-ses-message-tags", "x-pm-metadata-", "x-mailin-custom")
_ORDERS: Final = ("x-smtpapi", "x-msys-api", "x-mailgun-")


def parse_headers(text: str) -> str:
    """Return the lines `X-Name: value` as a list keeps them. `Invalid`."""
    names: set[str] = set()
    lines = []
    for line in filter(str.strip, some_lines("headers", text, longest=_LONGEST).split("\n")):
        name, colon, value = (each.strip() for each in line.partition(":"))
        if not colon or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise Invalid("headers", f"must have lines such as X-Campaign: spring, not {line!r}")
        if name.lower().startswith(_OURS):
            raise Invalid("headers", f"must not contain {name}, which Postroom sets itself")
        if name.lower().startswith(_ORDERS):
            problem = "it can tell the email provider who gets the email"
            raise Invalid("headers", f"must not contain {name}: {problem}")
        if name.lower() in names:
            raise Invalid("headers", f"must have {name} only once")
        names.add(name.lower())
        lines.append(f"{name}: {one_line('headers', value, longest=_LONGEST_VALUE)}")
    if len(lines) > MOST_HEADERS:
        raise Invalid("headers", f"must have at most {MOST_HEADERS} lines, not {len(lines)}")
    return "\n".join(lines)


def header_pairs(headers: str) -> list[tuple[str, str]]:
    """Return the names and values of a list's headers."""
    pairs = (line.partition(": ") for line in headers.splitlines())
    return [(name, value) for name, _, value in pairs]


def _reply_to(text: str) -> str:
    return parse_address(text, "reply_to") if text.strip() else ""


MAIL_PROPERTIES: Final = (
    ListProperty(
        name="reply_to",
        stored_as="ReplyTo",
        label="Reply-To",
        help="Where replies go. Leave empty for the From address.",
        check=_reply_to,
        input=Input.ADDRESS,
        longest=254,
        example="office@example.com",
    ),
    ListProperty(
        name="headers",
        stored_as="Headers",
        label="Additional headers",
        help=f"Headers that begin with X-, one per line, up to {MOST_HEADERS}: for a mail server or"
        " provider that asks for them.",
        check=parse_headers,
        input=Input.LINES,
        longest=_LONGEST,
        example="X-SES-CONFIGURATION-SET: newsletter",
    ),
)
