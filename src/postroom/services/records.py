"""How the domain lies in the store: tables, keys, and entities to and from domain objects.

| table            | partition     | row             | holds                                |
|------------------|---------------|-----------------|--------------------------------------|
| `mailinglist`    | list          | `mailinglist`   | the list                             |
| `mailinglist`    | list          | `email:ADDRESS` | a subscriber                         |
| `mailinglist`    | list          | `guid:GUID`     | its look-up row                      |
| `listindex`      | `list`        | list            | which lists there are                |
| `message`        | day           | `message` + ref | a message that is not done           |
| `message`        | day,ref,page  | the address     | an email that is not done            |
| `messagearchive` | the same keys |                 | what is done                         |
| `messagepage`    | day,ref       | page            | what a page holds and became         |
| `messagepage`    | day,ref       | page `,claim`   | which sender has the page in hand    |
| `messageindex`   | `ref`         | ref             | the day of a message                 |
| `messageindex`   | `open`/`done` | time,ref        | messages by when they are due        |
| `throttle`       | limit         | domain          | see `sender/throttle.py`             |
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from postroom.domain.addresses import Address
from postroom.domain.emails import Counts
from postroom.domain.lists import ListName, MailingList, Subscriber, SubscriberGuid
from postroom.domain.messages import Message, MessageStatus
from postroom.domain.refs import MessageRef
from postroom.storage import Entity, StoreDamaged, Value

LISTS = "mailinglist"
LIST_INDEX = "listindex"
MESSAGES = "message"
ARCHIVE = "messagearchive"
PAGES = "messagepage"
INDEX = "messageindex"
BODIES = "mailbodies"

LIST_ROW = "mailinglist"
EMAIL_PREFIX = "email:"
GUID_PREFIX = "guid:"
MESSAGE_PREFIX = "message"

BY_NAME = "list"
BY_REF, OPEN, DONE = "ref", "open", "done"

V = TypeVar("V", bound=Value)


def email_row(address: Address) -> str:
    return EMAIL_PREFIX + address


def guid_row(guid: SubscriberGuid) -> str:
    return GUID_PREFIX + guid


def message_row(ref: MessageRef) -> str:
    return MESSAGE_PREFIX + ref


def pages_partition(day: str, ref: MessageRef) -> str:
    return f"{day},{ref}"


def page_row(page: int) -> str:
    return f"{page:06}"


def claim_row(page: int) -> str:
    return f"{page:06},claim"


def due_row(scheduled_at: datetime, ref: MessageRef) -> str:
    """Sorts by the moment at which a message is due."""
    return f"{scheduled_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ},{ref}"


def body_name(ref: MessageRef, version: str, kind: str) -> str:
    """The blob of a body: `REF.htm` or `REF.txt`; later versions have a mark of their own."""
    return f"{ref}{'-' + version if version else ''}.{kind}"


# -- lists and subscribers ------------------------------------------------------------------------


def list_entity(mailing_list: MailingList) -> Entity:
    return Entity(
        mailing_list.name,
        LIST_ROW,
        {
            "Description": mailing_list.description,
            "FromEmailAddress": mailing_list.from_address,
            "CreatedAt": mailing_list.created_at,
        },
    )


def list_from(entity: Entity) -> MailingList:
    return MailingList(
        name=ListName(entity.partition),
        description=read(entity, "Description", str),
        from_address=Address(read(entity, "FromEmailAddress", str)),
        created_at=read(entity, "CreatedAt", datetime),
        etag=entity.etag,
    )


def subscriber_entity(subscriber: Subscriber) -> Entity:
    properties: dict[str, Value] = {
        "SubscriberGUID": subscriber.guid,
        "Verified": subscriber.verified,
        "CreatedAt": subscriber.created_at,
    }
    if subscriber.verified_at is not None:
        properties["VerifiedAt"] = subscriber.verified_at
    if subscriber.blocked:
        properties["Blocked"] = subscriber.blocked
    return Entity(subscriber.list_name, email_row(subscriber.address), properties)


def lookup_entity(subscriber: Subscriber) -> Entity:
    return Entity(
        subscriber.list_name, guid_row(subscriber.guid), {"EmailAddress": subscriber.address}
    )


def new_subscriber_rows(
    list_name: ListName,
    address: Address,
    guid: SubscriberGuid,
    created_at: datetime,
    verified_at: datetime | None,
) -> tuple[Entity, Entity]:
    """Both rows of a new subscriber, without the object between: an import makes millions.

    The same as `subscriber_entity` and `lookup_entity` make (a test holds them together).
    """
    properties: dict[str, Value] = {
        "SubscriberGUID": guid,
        "Verified": verified_at is not None,
        "CreatedAt": created_at,
    }
    if verified_at is not None:
        properties["VerifiedAt"] = verified_at
    return (
        Entity(list_name, EMAIL_PREFIX + address, properties),
        Entity(list_name, GUID_PREFIX + guid, {"EmailAddress": address}),
    )


def subscriber_from(entity: Entity) -> Subscriber:
    return Subscriber(
        list_name=ListName(entity.partition),
        address=Address(entity.row.removeprefix(EMAIL_PREFIX)),
        guid=SubscriberGuid(read(entity, "SubscriberGUID", str)),
        verified=read(entity, "Verified", bool),
        created_at=read(entity, "CreatedAt", datetime),
        verified_at=read_optional(entity, "VerifiedAt", datetime),
        blocked=read_optional(entity, "Blocked", str) or "",
        etag=entity.etag,
    )


# -- messages -------------------------------------------------------------------------------------


def message_entity(message: Message) -> Entity:
    properties: dict[str, Value] = {
        "ScheduledDate": message.scheduled_at,
        "SubjectLine": message.subject,
        "ListName": message.list_name,
        "Status": message.status.value,
        "BodyVersion": message.body_version,
        "HasHtml": message.has_html,
        "HasText": message.has_text,
        "CreatedAt": message.created_at,
        "Reason": message.reason,
        "QueuedPages": message.queued_pages,
        "Resumptions": message.resumptions,
    }
    optional: dict[str, Value | None] = {
        "FromEmailAddress": message.from_address,
        "ListDescription": message.list_description,
        "PausedFrom": message.paused_from and message.paused_from.value,
        "QueuedAt": message.queued_at,
        "CompletedAt": message.completed_at,
    }
    properties |= {name: value for name, value in optional.items() if value is not None}
    return Entity(message.day, message_row(message.ref), properties)


def message_from(entity: Entity) -> Message:
    paused_from = read_optional(entity, "PausedFrom", str)
    from_address = read_optional(entity, "FromEmailAddress", str)
    return Message(
        ref=MessageRef(entity.row.removeprefix(MESSAGE_PREFIX)),
        list_name=ListName(read(entity, "ListName", str)),
        subject=read(entity, "SubjectLine", str),
        scheduled_at=read(entity, "ScheduledDate", datetime),
        status=MessageStatus(read(entity, "Status", str)),
        body_version=read(entity, "BodyVersion", str),
        has_html=read(entity, "HasHtml", bool),
        has_text=read(entity, "HasText", bool),
        created_at=read(entity, "CreatedAt", datetime),
        from_address=None if from_address is None else Address(from_address),
        list_description=read_optional(entity, "ListDescription", str),
        paused_from=None if paused_from is None else MessageStatus(paused_from),
        reason=read(entity, "Reason", str),
        queued_pages=read(entity, "QueuedPages", int),
        resumptions=read(entity, "Resumptions", int),
        queued_at=read_optional(entity, "QueuedAt", datetime),
        completed_at=read_optional(entity, "CompletedAt", datetime),
        etag=entity.etag,
    )


# -- pages ----------------------------------------------------------------------------------------

_COUNTS = {
    "Accepted": "accepted",
    "Refused": "refused",
    "Suppressed": "suppressed",
    "InDoubt": "in_doubt",
    "PossibleDuplicates": "possible_duplicates",
}


def counts_from(entity: Entity) -> Counts:
    return Counts(
        planned=read(entity, "Planned", int),
        **{name: read_optional(entity, key, int) or 0 for key, name in _COUNTS.items()},
    )


def counts_properties(counts: Counts) -> dict[str, Value]:
    properties: dict[str, Value] = {key: getattr(counts, name) for key, name in _COUNTS.items()}
    return {"Planned": counts.planned, **properties, "Done": counts.pending == 0}


# -- reading properties ---------------------------------------------------------------------------


def read(entity: Entity, name: str, kind: type[V]) -> V:
    """A property that must be there, of its type."""
    value = entity.properties.get(name)
    if type(value) is not kind:
        raise StoreDamaged(
            f"({entity.partition!r}, {entity.row!r}): {name} is {value!r}, not {kind.__name__}"
        )
    return value


def read_optional(entity: Entity, name: str, kind: type[V]) -> V | None:
    return None if name not in entity.properties else read(entity, name, kind)
