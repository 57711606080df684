"""Exports of other tools: how they are recognised, and what their columns mean.

A file belongs to a tool if it has all columns of one of the tool's signatures. What is the same in
every tool, such as a column `status`, is in `meanings.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from postroom.services.audience.files.cells import squeezed
from postroom.services.audience.files.columns.meanings import Meaning, Standing


class Tool(msgspec.Struct, frozen=True):
    """A tool, by its name. `default` is the state of addresses of which a row says nothing.

    `words` has statuses that mean something else here than in other tools. `advice` is what to do
    if a file does not say who unsubscribed; with `never_says`, no file of the tool does.
    """

    name: str
    signatures: tuple[frozenset[str], ...]
    columns: Mapping[str, Meaning]
    default: Standing | None = None
    words: Mapping[str, Standing] = {}
    advice: str = ""
    never_says: bool = False


def _tool(
    name: str,
    *signatures: tuple[str, ...],
    columns: Mapping[str, Meaning],
    default: Standing | None = None,
    words: Mapping[str, Standing] | None = None,
    advice: str = "Export the status of subscribers, too, or leave those people out of the file",
    never_says: bool = False,
) -> Tool:
    return Tool(
        name,
        tuple(frozenset(map(squeezed, each)) for each in signatures),
        {squeezed(each): meaning for each, meaning in columns.items()},
        default,
        {squeezed(each): standing for each, standing in (words or {}).items()},
        advice,
        never_says,
    )


_OF_MAILCHIMP: Final = (
    "LEID", "EUID", "CLEAN_CAMPAIGN_TITLE", "CLEAN_CAMPAIGN_ID", "UNSUB_CAMPAIGN_TITLE",
    "UNSUB_CAMPAIGN_ID",
)  # fmt: skip
_OF_PHPLIST: Final = (
    "id", "uuid", "modified", "last modified", "bouncecount", "number of bounces", "htmlemail",
    "send this subscriber html emails", "subscribepage", "which page was used to subscribe",
    "rssfrequency", "rss frequency", "password", "passwordchanged",
)  # fmt: skip
"""Columns that only the tool itself can use."""

TOOLS: Final = (
    _tool(
        "Mailchimp",
        ("LEID", "EUID"),  # the column of the address has the label that the audience gave it
        ("OPTIN_TIME", "CONFIRM_TIME", "LAST_CHANGED"),
        default=Standing.CONFIRMED,
        columns={
            "OPTIN_TIME": Meaning.JOINED,
            "OPTIN_IP": Meaning.JOINED_FROM,
            "CONFIRM_TIME": Meaning.CONFIRMED_AT,
            "CONFIRM_IP": Meaning.CONFIRMED_FROM,
            "NOTES": Meaning.NOTE,
            **dict.fromkeys(_OF_MAILCHIMP, Meaning.UNUSED),
        },
        advice="Upload the zip archive of the export, which has a file for them",
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
        advice="Use Import from listmonk instead, which reads the status on each list",
        never_says=True,
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
        ("email_address", "type", "creation_date"),
        ("email_address", "type", "secondary_id"),
        columns={
            "subscriber_type": Meaning.STATUS,
            "type": Meaning.STATUS,
            "creation_date": Meaning.JOINED,
            "unsubscription_date": Meaning.HAS_UNSUBSCRIBED,
            "undeliverability_date": Meaning.IS_BLOCKED,
            "notes": Meaning.NOTE,
            "ip_address": Meaning.JOINED_FROM,
            "id": Meaning.UNUSED,
            "secondary_id": Meaning.UNUSED,
        },
        # A paid subscription that is on hold or over says nothing about the free newsletter.
        words={
            "paused": Standing.CONFIRMED,
            "churned": Standing.PENDING,
            "unpaid": Standing.PENDING,
        },
    ),
    _tool(
        "phpList",
        ("email", "blacklisted", "uniqid"),
        ("email", "is the email of this subscriber confirmed"),
        ("email", "is this subscriber confirmed", "is this subscriber blacklisted"),
        columns={
            "is this subscriber confirmed": Meaning.VERIFIED,
            "is the email of this subscriber confirmed": Meaning.VERIFIED,
            "entered": Meaning.JOINED,
            "disabled": Meaning.IS_BLOCKED,
            "uniqid": Meaning.FOREIGN_ID,
            "unique id": Meaning.FOREIGN_ID,
            # Not whether someone is subscribed: it is 0 for everyone whom the team has added.
            "optedin": Meaning.UNUSED,
            "did this subscriber manually confirm": Meaning.UNUSED,
            **dict.fromkeys(_OF_PHPLIST, Meaning.UNUSED),
        },
    ),
    _tool(
        "Brevo",
        ("email", "blacklisted", "added_time"),
        ("email", "blocklisted", "added_time"),
        ("email", "email_blacklisted", "added_time"),
        ("contact id", "email", "added_time"),
        ("email", "added_time", "modified_time"),
        columns={
            "added_time": Meaning.JOINED,
            "contact id": Meaning.UNUSED,
            "email_marketing": Meaning.STATE,
        },
    ),
    _tool(
        "Keila",
        ("email", "first name", "last name", "data", "status"),
        ("email", "first name", "last name", "data"),  # before it had a status
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
