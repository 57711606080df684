"""The outcome of each email: counted, listed, found by bisection; decisions on those in doubt."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import SEND_QUEUE
from postroom.scheduler.completion import Completion
from postroom.sender.pages.claims import Claims
from postroom.services.messages.sending.page_rows import FREE
from postroom.storage import Entity, QueryResult, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, FatedTable, cut_after_each_write, dies
from tests.integration.usecases.making import bodies_of, fill, make_list, schedule
from tests.integration.usecases.pages import (
    check_sum,
    fan_out_whole,
    record,
    settle,
    use_small_pages,
)

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED
SUPPRESSED, IN_DOUBT = EmailOutcome.SUPPRESSED, EmailOutcome.IN_DOUBT


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=2, pages=20)


async def test_each_email_is_found_among_any_number_of_pages(
    services: Services, store: Store, engine: str
) -> None:
    for pages in (0, 1, 2, 37):
        await check_each_email(services, store, pages, stride=7 if engine == "azure" else 1)


async def check_each_email(services: Services, store: Store, pages: int, stride: int) -> None:
    name = await make_list(services, f"list{pages}")
    made = [each.address for each in await fill(store, name, max(0, 2 * pages - 1))]
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    assert message.queued_pages == pages
    if pages == 37:
        await settle(services, message, 18, [REFUSED, ACCEPTED])
    for address in made[::stride]:
        found = await services.outcomes.email(message, address)
        assert found is not None
        assert found.address == address
        assert found.page == made.index(address) // 2
    for stranger in ("a@example.com", "user000000a@example.com", "zoe@example.com"):
        assert await services.outcomes.email(message, Address(stranger)) is None
    counts = await check_sum(services, message)
    assert counts.planned == len(made)
    assert [r.address async for r in services.outcomes.emails(message)] == made
    if pages == 37:
        assert [r.address async for r in services.outcomes.emails(message, REFUSED)] == [made[36]]
        refused = await services.outcomes.email(message, made[36])
        assert refused is not None
        assert (refused.outcome, refused.tries, refused.reply) == (REFUSED, 1, "250 2.0.0 ok")


class CountingTable(FatedTable):
    """Counts the rows that are read, and reads that find none."""

    cost = 0

    async def get(self, partition: str, row: str) -> Entity | None:
        self.cost += 1
        return await super().get(partition, row)

    async def query(self, *args: Any, **kwargs: Any) -> QueryResult:
        found = await super().query(*args, **kwargs)
        self.cost += max(1, len(found.entities))
        return found

    async def read(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        found = await super().read(*args, **kwargs)
        self.cost += max(1, len(found))
        return found

    async def scan(self, *args: Any, **kwargs: Any) -> AsyncIterator[Entity]:
        async for each in super().scan(*args, **kwargs):
            self.cost += 1
            yield each


@pytest.mark.parametrize("pages", [8, 64, 256])
async def test_finding_an_address_reads_as_many_pages_as_halving_needs(
    services: Services, store: Store, engine: str, pages: int
) -> None:
    if engine == "azure" and pages > 64:
        pytest.skip("the emulator takes too long to fan out so many pages")
    name = await make_list(services, "halved")
    made = [each.address for each in await fill(store, name, 2 * pages)]
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    assert message.queued_pages == pages
    rows = services.pages
    rows.table = table = CountingTable(rows.table, Fate())
    for place in (0, 1, pages - 1, pages, pages + 1, 2 * pages - 2, 2 * pages - 1):
        table.cost = 0
        found = await rows.holding(message, address_key(made[place]))
        assert found is not None
        assert found.number == place // 2
        # One read per halving, one to find out how many pages there are, and the page itself.
        assert table.cost <= pages.bit_length() + 2
    for stranger in ("a@example.com", f"{made[pages]}.example", "zoe@example.com"):
        table.cost = 0
        assert await rows.holding(message, address_key(Address(stranger))) is None
        assert 0 < table.cost <= pages.bit_length() + 2


async def in_doubt(services: Services, store: Store, name: str) -> tuple[Message, list[Address]]:
    """A message of two pages: one accepted, one in doubt; one refused, one suppressed."""
    await services.lists.create(name, "News", "news@contoso.example")
    made = [each.address for each in await fill(store, (await services.lists.get(name)).name, 4)]
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    await settle(services, message, 0, [ACCEPTED, IN_DOUBT])
    await settle(services, message, 1, [REFUSED, SUPPRESSED])
    await bodies_of(store, SEND_QUEUE)
    return message, made


async def test_an_email_marked_as_sent_is_no_longer_in_doubt(
    services: Services, store: Store
) -> None:
    message, made = await in_doubt(services, store, "contoso1")
    for other in (made[0], made[2], made[3]):
        with pytest.raises(NotNow, match="not in doubt"):
            await services.in_doubt.decide(message, other, was_sent=True)
    with pytest.raises(NoSuch, match="email"):
        await services.in_doubt.decide(message, Address("zoe@example.com"), was_sent=True)

    await services.in_doubt.decide(message, made[1], was_sent=True)

    counts = await check_sum(services, message)
    assert (counts.accepted, counts.in_doubt, counts.pending) == (2, 0, 0)
    assert await Completion(services).check(message)
    with pytest.raises(NotNow):
        await services.in_doubt.decide(
            await services.messages.get(message.ref), made[1], was_sent=True
        )


async def test_a_decision_to_send_again_makes_it_pending_and_queues_its_page(
    services: Services, store: Store
) -> None:
    message, made = await in_doubt(services, store, "contoso1")

    await services.in_doubt.decide(message, made[1], was_sent=False)

    counts = await check_sum(services, message)
    assert (counts.accepted, counts.in_doubt, counts.pending) == (1, 0, 1)
    assert await store.queue(SEND_QUEUE).wait(5)
    assert await bodies_of(store, SEND_QUEUE) == [f"{message.day},{message.ref},000000,1"]
    completion = Completion(services)
    assert not await completion.check(message)
    await settle(services, message, 0, [ACCEPTED])
    counts = await check_sum(services, message)
    assert (counts.accepted, counts.pending) == (2, 0)
    assert await completion.check(message)


async def test_no_decision_is_made_about_a_page_that_a_sender_is_working_on(
    services: Services, store: Store
) -> None:
    message, made = await in_doubt(services, store, "contoso1")
    found = await services.pages.get(message.day, message.ref, 0)
    assert found is not None
    page = await Claims(services.pages, "a sender", 60).take_over(found, doubtful=False)
    with pytest.raises(Overtaken):
        await services.in_doubt.decide(message, made[1], was_sent=False)
    assert (await check_sum(services, message)).in_doubt == 1
    await record(store, page, msgspec.structs.replace(page, claim=FREE))
    await services.in_doubt.decide(message, made[1], was_sent=False)


@pytest.mark.parametrize(
    "was_sent",
    [
        pytest.param(True, id="was sent"),
        pytest.param(False, id="send again"),
    ],
)
async def test_a_decision_interrupted_anywhere_can_be_completed(
    services: Services, store: Store, was_sent: bool
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        message, made = await in_doubt(services, store, f"list{writes}")
        died = await dies(
            Services(Fated(store, fate)).in_doubt.decide(message, made[1], was_sent=was_sent)
        )
        completion = Completion(services)
        if died:
            assert not await completion.check(message), "nothing is done that nobody has decided"
        found = await services.outcomes.email(message, made[1])
        assert found is not None, "lost"
        if found.outcome is IN_DOUBT:
            await services.in_doubt.decide(message, made[1], was_sent=was_sent)
        else:
            assert found.outcome is (ACCEPTED if was_sent else EmailOutcome.PENDING)
        # A sender comes with the work item, if one was put (it waits a second for the decision).
        if (await store.queue(SEND_QUEUE).info()).length:
            await settle(services, message, 0, [ACCEPTED])
            await store.queue(SEND_QUEUE).purge()
        counts = await check_sum(services, message)
        assert (counts.accepted, counts.in_doubt, counts.pending) == (2, 0, 0)
        assert await completion.check(message)

    await cut_after_each_write(attempt)
