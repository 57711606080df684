"""Exports of other tools: how they are recognised, and what their columns mean.

A file belongs to a tool if it has all columns of one of the tool's signatures. What is the same in
every tool, such as a column `status`, is in `meanings.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from postroom.services.audience.files.cells import squeezed
from postroom.services.audience.files.meanings import Meaning, Standing


class Tool(msgspec.Struct, frozen=True):
    """A tool, by its name. `default` is the state of addresses of which a row says nothing."""

    name: str
    signatures: tuple[frozenset[str], ...]
    columns: Mapping[str, Meaning]
    default: Standing | None = None


def _tool(
    name: str,
    *signatures: tuple[str, ...],
    default: Standing | None = None,
    columns: Mapping[str, Meaning],
) -> Tool:
    return Tool(
        name,
        tuple(frozenset(map(squeezed, each)) for each in signatures),
        {squeezed(each): meaning for each, meaning in columns.items()},
        default,
    )


TOOLS: Final = (
    _tool(
        "Mailchimp",
        ("Email Address", "LEID", "EUID"),
        default=Standing.CONFIRMED,
        columns={
            "OPTIN_TIME": Meaning.JOINED,
            "OPTIN_IP": Meaning.JOINED_FROM,
            "CONFIRM_TIME": Meaning.CONFIRMED_AT,
            "CONFIRM_IP": Meaning.CONFIRMED_FROM,
            "NOTES": Meaning.NOTE,
            "LEID": Meaning.UNUSED,
            "EUID": Meaning.UNUSED,
        },
    ),
    _tool(
        "listmonk",
        ("uuid", "email", "name", "attributes", "status"),
        ("uuid", "email", "name", "attribs", "status"),
        columns={
            "created_at": Meaning.JOINED,
            "name": Meaning.NAME,
            "attributes": Meaning.ATTRIBUTES,
            "attribs": Meaning.ATTRIBUTES,
            "id": Meaning.UNUSED,
            "uuid": Meaning.FOREIGN_ID,
            "updated_at": Meaning.UNUSED,
        },
    ),
    _tool(
        "Substack",
        ("email", "active_subscription", "email_disabled"),
        default=Standing.CONFIRMED,
        columns={"email_disabled": Meaning.HAS_UNSUBSCRIBED, "created_at": Meaning.JOINED},
    ),
    _tool(
        "Ghost",
        ("email", "subscribed_to_emails", "complimentary_plan"),
        columns={
            "subscribed_to_emails": Meaning.IS_SUBSCRIBED,
            "deleted_at": Meaning.HAS_UNSUBSCRIBED,
            "created_at": Meaning.JOINED,
            "name": Meaning.NAME,
            "note": Meaning.NOTE,
            "id": Meaning.UNUSED,
            "stripe_customer_id": Meaning.UNUSED,
        },
    ),
    _tool(
        "Buttondown",
        ("email", "subscriber_type"),
        ("email_address", "subscriber_type"),
        ("email_address", "type", "secondary_id"),
        columns={
            "subscriber_type": Meaning.STATUS,
            "type": Meaning.STATUS,
            "creation_date": Meaning.JOINED,
            "notes": Meaning.NOTE,
            "ip_address": Meaning.JOINED_FROM,
            "id": Meaning.UNUSED,
            "secondary_id": Meaning.UNUSED,
        },
    ),
    _tool(
        "phpList",
        ("email", "blacklisted", "uniqid"),
        ("email", "is the email of this subscriber confirmed"),
        columns={
            "is the email of this subscriber confirmed": Meaning.VERIFIED,
            "entered": Meaning.JOINED,
            "disabled": Meaning.IS_BLOCKED,
            "uniqid": Meaning.FOREIGN_ID,
            "uuid": Meaning.UNUSED,
        },
    ),
    _tool(
        "Brevo",
        ("email", "blacklisted", "added_time"),
        ("email", "blocklisted", "added_time"),
        ("email", "email_blacklisted", "added_time"),
        ("contact id", "email", "added_time"),
        columns={"added_time": Meaning.JOINED, "contact id": Meaning.UNUSED},
    ),
    _tool(
        "Keila",
        ("email", "first name", "last name", "data", "status"),
        columns={"data": Meaning.ATTRIBUTES, "inserted_at": Meaning.JOINED},
    ),
)


def recognise(columns: Collection[str]) -> Tool | None:
    """Return the tool whose export has these columns."""
    names = frozenset(map(squeezed, columns))
    return next((each for each in TOOLS if any(sign <= names for sign in each.signatures)), None)


_PARTS: Final = (
    ("cleaned", Standing.BLOCKED),
    ("unsubscribed", Standing.UNSUBSCRIBED),
    ("nonsubscribed", Standing.PENDING),
    ("subscribed", Standing.CONFIRMED),
)
"""How the files of Mailchimp's archive begin, the strictest first."""


def standing_of_file(name: str) -> tuple[Standing, str] | None:
    """Return what the name of a file in an archive says about all its addresses."""
    base = name.rpartition("/")[2].lower()
    return next(((standing, word) for word, standing in _PARTS if base.startswith(word)), None)
