"""Rows that an earlier version wrote are read as what they meant then."""

from __future__ import annotations

from datetime import UTC, datetime

from postroom.domain.audience.lists.brand import Brand
from postroom.domain.audience.lists.lists import PROPERTIES
from postroom.services import entities
from postroom.services.messages.message_entities import message_entity, message_from
from postroom.storage import Entity, Value

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


def test_a_list_without_a_language_is_english_and_has_no_postal_address() -> None:
    row: dict[str, Value] = {
        "Description": "The news",
        "FromEmailAddress": "news@contoso.com",
        "CreatedAt": NOW,
        "Public": True,
    }
    found = entities.list_from(Entity("news", entities.LIST_ROW, row))
    assert (found.language, found.postal_address) == ("en", "")
    assert found.brand == Brand()
    assert found.track == "off"
    flags = {
        each.stored_as: False
        for each in PROPERTIES.values()
        if each.type is bool and each.stored_as not in row
    }
    assert entities.list_entity(found).properties == {
        **row,
        "Language": "en",
        "Font": "sans",
        "Track": "off",
        "TimeZone": "UTC",
        **flags,
    }
    unknown = entities.list_from(Entity("news", entities.LIST_ROW, {**row, "Font": "gothic"}))
    assert unknown.font == "sans"


def test_a_message_that_was_queued_before_lists_had_a_language_is_english() -> None:
    row: dict[str, Value] = {
        "ScheduledDate": NOW,
        "SubjectLine": "News",
        "ListName": "news",
        "Status": "Processing",
        "BodyVersion": "",
        "HasHtml": True,
        "HasText": True,
        "CreatedAt": NOW,
        "Reason": "",
        "QueuedPages": 1,
        "Resumptions": 0,
        "FromEmailAddress": "news@contoso.com",
        "ListDescription": "The news",
        "QueuedAt": NOW,
    }
    found = message_from(Entity("2026-11-15", "message639000000000000000", row))
    assert (found.list_language, found.list_postal_address) == ("en", "")
    assert message_entity(found).properties == {**row, "ListLanguage": "en"}
