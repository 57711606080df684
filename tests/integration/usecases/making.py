"""Lists, subscribers and messages for the tests, and what must be true of their rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.messages import Message
from postroom.services import entities
from postroom.services.audience.consent.consent_ledger import ConsentLedger, LedgerReport
from postroom.services.audience.consent.ledger_rows import PREFIXES
from postroom.services.audience.former_rows import FORMERLY
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Entity, Insert, KeyRange, Store
from postroom.wiring import Services

FROM = "news@contoso.example"
BODIES = NewBodies("<p>Hello {{ email }}</p>", "Hello {{ email }}")


def now() -> datetime:
    return datetime.now(UTC)


def days(count: float) -> datetime:
    return now() + timedelta(days=count)


def address_of(number: int) -> Address:
    return Address(f"user{number:06}@example.com")


async def make_list(services: Services, name: str = "contoso1") -> ListName:
    return (await services.lists.create(name, f"News of {name}", FROM)).name


async def fill(
    store: Store, name: ListName, count: int, *, verified: bool = True
) -> list[Subscriber]:
    """Subscribers without the waiting of one by one."""
    made = [new_subscriber(name, address_of(n), verified=verified) for n in range(count)]
    table = store.table(entities.LISTS)
    for start in range(0, count, 50):
        operations = []
        for each in made[start : start + 50]:
            operations += [
                Insert(entities.subscriber_entity(each)),
                Insert(entities.lookup_entity(each)),
            ]
        await table.apply(operations)
    return made


async def schedule(
    services: Services, name: str = "contoso1", at: datetime | None = None, subject: str = "News"
) -> Message:
    return await services.messages.create(name, subject, BODIES, at or now())


async def rows_of(store: Store, table: str, partition: str) -> list[Entity]:
    return [e async for e in store.table(table).scan(KeyRange.only(partition))]


async def check_pairs(store: Store, name: str) -> set[str]:
    """Check that `email:` rows and `guid:` rows belong together, and that the consent ledger is
    intact; return the addresses."""
    rows = await rows_of(store, entities.LISTS, name)
    by_email = {
        row.row.removeprefix("email:"): row.properties["SubscriberGUID"]
        for row in rows
        if row.row.startswith("email:")
    }
    by_guid = {
        row.properties["EmailAddress"]: row.row.removeprefix("guid:")
        for row in rows
        if row.row.startswith("guid:")
    }
    assert by_email == by_guid
    entries = [row for row in rows if row.row.startswith((*PREFIXES, FORMERLY))]
    others = len(rows) - len(entries) - 2 * len(by_email)
    assert others <= 1, "nothing but the list's own row beside them"
    ledger = ConsentLedger(store).faults(ListName(name), LedgerReport())
    assert [each async for each in ledger] == []
    return set(by_email)


async def open_refs(services: Services) -> list[str]:
    """What the scheduler would find, in its order."""
    return [message.ref async for message in services.message_rows.open_messages()]


async def blob_names(store: Store) -> list[str]:
    return [blob.name for blob in (await store.container(entities.BODIES).list()).blobs]


async def bodies_of(store: Store, queue: str) -> list[str]:
    """All that waits in a queue, which is empty afterwards."""
    found: list[str] = []
    for _ in range(1000):
        received = await store.queue(queue).receive(32, lease=60)
        if not received:
            return found
        found += [message.body for message in received]
        for message in received:
            await store.queue(queue).delete(message)
    raise AssertionError("an endless queue")
