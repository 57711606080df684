"""Messages as rows of the store."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.languages import LANGUAGES, known_language
from postroom.domain.messages.attachments import parse_stored, stored_text
from postroom.domain.messages.audiences import AudienceRules
from postroom.domain.messages.messages import ListCopy, Message, MessageFormat, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.domain.messages.waves.buckets import Part
from postroom.domain.messages.waves.waves import Waves
from postroom.services import entities
from postroom.services.entities import read, read_optional
from postroom.storage import Entity, Value

T = TypeVar("T")


def message_entity(message: Message) -> Entity:
    properties: dict[str, Value] = {
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
        "ScheduledDate": message.scheduled_at,
        "HasSource": message.has_source or None,
        "Format": None if message.format is MessageFormat.HTML else message.format.value,
        "Template": message.template or None,
        "Segment": message.segment or None,
        "ExcludeSegments": ",".join(message.exclude_segments) or None,
        "ExcludeLists": ",".join(message.exclude_lists) or None,
        "MoreLists": ",".join(message.more_lists) or None,
        "ListCopies": msgspec.json.encode(message.list_copies).decode()
        if message.list_copies
        else None,
        "Part": None if message.part is None else msgspec.json.encode(message.part).decode(),
        "AudienceRules": None
        if message.audience_rules is None
        else msgspec.json.encode(message.audience_rules).decode(),
        "MergeFields": ",".join(message.fields) or None,
        "FieldCopies": msgspec.json.encode(message.field_copies).decode()
        if message.field_copies
        else None,
        "Conditions": msgspec.json.encode(message.conditions).decode()
        if message.conditions
        else None,
        "Preheader": message.preheader or None,
        "FromName": message.from_name or None,
        "ReplyTo": message.reply_to or None,
        "EditedAt": message.edited_at,
        "EditedBy": message.edited_by or None,
        "VersionAt": message.version_at,
        "ReadyBy": message.ready_by or None,
        "Track": message.track and message.track.value,
        "Published": message.published or None,
        "WebKey": message.web_key or None,
        "Canary": message.canary or None,
        "LocalTime": message.local_time or None,
        "ListZone": message.list_zone or None,
        "Waves": None if message.waves is None else msgspec.json.encode(message.waves).decode(),
        "Attachments": stored_text(message.attachments) or None,
        "FromEmailAddress": message.from_address,
        "ListDescription": message.list_description,
        "ListLanguage": None if message.queued_at is None else message.list_language,
        "ListPostalAddress": message.list_postal_address or None,
        "ListReplyTo": message.list_reply_to or None,
        "ListHeaders": message.list_headers or None,
        "Utm": message.utm or None,
        "PausedFrom": message.paused_from and message.paused_from.value,
        "ResumedAt": message.resumed_at,
        "QueuedAt": message.queued_at,
        "CompletedAt": message.completed_at,
        "RetryOf": message.retry_of,
        "RetryAt": message.retry_at,
        "Trace": message.trace or None,
        **entities.sum_properties(message.counts),
    }
    properties |= {name: value for name, value in optional.items() if value is not None}
    return Entity(message.day, entities.message_row(message.ref), properties)


def message_from(entity: Entity) -> Message:
    paused_from = read_optional(entity, "PausedFrom", str)
    from_address = read_optional(entity, "FromEmailAddress", str)
    retry_of = read_optional(entity, "RetryOf", str)
    return Message(
        ref=MessageRef(entity.row.removeprefix(entities.MESSAGE_PREFIX)),
        list_name=ListName(read(entity, "ListName", str)),
        subject=read(entity, "SubjectLine", str),
        scheduled_at=read_optional(entity, "ScheduledDate", datetime),
        status=MessageStatus(read(entity, "Status", str)),
        body_version=read(entity, "BodyVersion", str),
        has_html=read(entity, "HasHtml", bool),
        has_text=read(entity, "HasText", bool),
        has_source=read_optional(entity, "HasSource", bool) or False,
        format=MessageFormat(read_optional(entity, "Format", str) or MessageFormat.HTML),
        template=read_optional(entity, "Template", str) or "",
        segment=read_optional(entity, "Segment", str) or "",
        exclude_segments=_names(entity, "ExcludeSegments"),
        exclude_lists=tuple(map(ListName, _names(entity, "ExcludeLists"))),
        more_lists=tuple(map(ListName, _names(entity, "MoreLists"))),
        list_copies=_decoded(entity, "ListCopies", tuple[ListCopy, ...]) or (),
        part=_decoded(entity, "Part", Part),
        audience_rules=_decoded(entity, "AudienceRules", AudienceRules),
        fields=_names(entity, "MergeFields"),
        field_copies=_decoded(entity, "FieldCopies", tuple[tuple[Field, ...], ...]) or (),
        conditions=_decoded(entity, "Conditions", tuple[str, ...]) or (),
        preheader=read_optional(entity, "Preheader", str) or "",
        from_name=read_optional(entity, "FromName", str) or "",
        reply_to=read_optional(entity, "ReplyTo", str) or "",
        edited_at=read_optional(entity, "EditedAt", datetime),
        edited_by=read_optional(entity, "EditedBy", str) or "",
        version_at=read_optional(entity, "VersionAt", datetime),
        ready_by=read_optional(entity, "ReadyBy", str) or "",
        track=Track(track) if (track := read_optional(entity, "Track", str)) else None,
        published=read_optional(entity, "Published", bool) or False,
        web_key=read_optional(entity, "WebKey", str) or "",
        canary=read_optional(entity, "Canary", str) or "",
        local_time=read_optional(entity, "LocalTime", bool) or False,
        list_zone=read_optional(entity, "ListZone", str) or "",
        waves=_decoded(entity, "Waves", Waves),
        attachments=parse_stored(read_optional(entity, "Attachments", str) or ""),
        created_at=read(entity, "CreatedAt", datetime),
        from_address=None if from_address is None else Address(from_address),
        list_description=read_optional(entity, "ListDescription", str),
        list_language=known_language(read_optional(entity, "ListLanguage", str) or "")
        or LANGUAGES[0],
        list_postal_address=read_optional(entity, "ListPostalAddress", str) or "",
        list_reply_to=read_optional(entity, "ListReplyTo", str) or "",
        list_headers=read_optional(entity, "ListHeaders", str) or "",
        utm=read_optional(entity, "Utm", str) or "",
        paused_from=None if paused_from is None else MessageStatus(paused_from),
        reason=read(entity, "Reason", str),
        queued_pages=read(entity, "QueuedPages", int),
        resumptions=read(entity, "Resumptions", int),
        resumed_at=read_optional(entity, "ResumedAt", datetime),
        queued_at=read_optional(entity, "QueuedAt", datetime),
        completed_at=read_optional(entity, "CompletedAt", datetime),
        retry_of=None if retry_of is None else MessageRef(retry_of),
        retry_at=read_optional(entity, "RetryAt", datetime),
        trace=read_optional(entity, "Trace", str) or "",
        counts=entities.counts_from(entity) if "Planned" in entity.properties else None,
        etag=entity.etag,
    )


def _names(entity: Entity, name: str) -> tuple[str, ...]:
    """Return names that are stored in one property: none of them contains a comma."""
    return tuple(filter(None, (read_optional(entity, name, str) or "").split(",")))


def _decoded(entity: Entity, name: str, kind: type[T]) -> T | None:
    """Return what is stored as JSON in a property; None without one."""
    text = read_optional(entity, name, str)
    return msgspec.json.decode(text, type=kind) if text else None
