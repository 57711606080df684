"""The quick ways by which an import makes subscribers agree with the ordinary ones."""

import uuid
from datetime import UTC, datetime

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import (
    ListName,
    Subscriber,
    SubscriberGuid,
    new_guid,
    new_guids,
    parse_guid,
)
from postroom.services import entities
from postroom.storage import Insert
from postroom.storage.checked_tables import singly


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("blocked", ["", "bounced"])
@pytest.mark.parametrize("spelling", ["ann@example.org", "Ann@example.org"])
@pytest.mark.parametrize("attributes", [{}, {"city": "Bern"}])
def test_rows_made_at_once_are_those_of_a_subscriber(
    verified: bool, blocked: str, spelling: str, attributes: dict[str, str]
) -> None:
    now = datetime.now(UTC)
    subscriber = Subscriber(
        list_name=ListName("news"),
        address=Address(spelling),
        guid=new_guid(),
        verified=verified,
        created_at=now,
        verified_at=now if verified else None,
        blocked=blocked,
        attributes=attributes,
        source="import",
    )
    made = entities.new_subscribers(
        subscriber.list_name,
        {subscriber.key: subscriber.guid},
        now,
        subscriber.verified_at,
        {subscriber.key: blocked} if blocked else {},
        {} if spelling == subscriber.key else {subscriber.key: subscriber.address},
        {subscriber.key: '{"city":"Bern"}'} if attributes else {},
        source="import",
    )
    ordinary = [entities.subscriber_entity(subscriber), entities.lookup_entity(subscriber)]
    assert singly(made) == [Insert(entity) for entity in ordinary]


def test_many_guids_have_the_form_of_one() -> None:
    made = new_guids(2000)
    assert made == sorted(set(made))
    for guid in made:
        assert parse_guid(guid) == guid
        assert (uuid.UUID(guid).version, uuid.UUID(guid).variant) == (4, uuid.RFC_4122)
    assert new_guids(0) == []


def test_every_bit_of_a_guid_that_may_vary_does() -> None:
    together = new_guids(2000)
    assert varying_bits(together) == 122 - 16  # they begin alike
    assert varying_bits([new_guids(1)[0] for _ in range(2000)]) == 122


def varying_bits(guids: list[SubscriberGuid]) -> int:
    ones, zeros = 0, (1 << 128) - 1
    for guid in guids:
        ones |= uuid.UUID(guid).int
        zeros &= uuid.UUID(guid).int
    return (ones ^ zeros).bit_count()
