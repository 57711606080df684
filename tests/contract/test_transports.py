"""One suite for every transport: what the sender relies on, whatever is behind the URL."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.mail.mailing import Parts, Recipient
from postroom.transport.contract import (
    FaultScope,
    Result,
    ResultKind,
    Transport,
    TransportError,
)
from tests.services.mail.destinations import LOCAL, REMOTE, Destination, running_destination
from tests.services.mail.plain_mailing import Notes, TemplatedMailing, kinds, many, recipients
from tests.services.waiting import BUSY, wait_until

pytestmark = pytest.mark.timeout(60)

ACCEPTED, REFUSED, HELD = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.HELD
IN_DOUBT, DEFERRED = ResultKind.IN_DOUBT, ResultKind.DEFERRED


@pytest.fixture(params=[*REMOTE, *LOCAL])
async def destination(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Destination]:
    async with running_destination(request.param, tmp_path) as found:
        try:
            yield found
        finally:
            await found.transport.close()


@pytest.fixture(params=REMOTE)
async def remote(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Destination]:
    """Only those that can refuse and stay silent: a folder cannot."""
    async with running_destination(request.param, tmp_path) as found:
        try:
            yield found
        finally:
            await found.transport.close()


async def send(
    transport: Transport, people: list[Recipient], mailing: TemplatedMailing | None = None
) -> tuple[list[Result], Notes]:
    notes = Notes()
    results = await transport.send(mailing or TemplatedMailing(), people, notes)
    # Then: the watcher got the same results, for every recipient.
    assert [notes.settled_as[position] for position in range(len(people))] == results
    return results, notes


async def test_every_recipient_gets_one_copy_and_one_result(destination: Destination) -> None:
    people = many(250)

    results, notes = await send(destination.transport, people)

    assert kinds(results) == [ACCEPTED] * 250
    assert destination.copies() == {each.address: 1 for each in people}
    assert sorted(notes.handed_over) == list(range(250))


async def test_overlapping_batches_do_not_mix(destination: Destination) -> None:
    batches = [recipients(*(f"b{batch}.{n}" for n in range(20))) for batch in range(5)]

    answers = await asyncio.gather(*(send(destination.transport, each) for each in batches))

    assert all(kinds(results) == [ACCEPTED] * 20 for results, _ in answers)
    assert set(destination.copies().values()) == {1}
    assert destination.copies().total() == 100


async def test_an_empty_batch_does_nothing(destination: Destination) -> None:
    assert await destination.transport.send(TemplatedMailing(), [], Notes()) == []


async def test_an_impossible_recipient_is_refused_before_it_is_handed_over(
    destination: Destination,
) -> None:
    class Picky(TemplatedMailing):
        """Refuses a GUID that cannot stand in a link, as real mailings do."""

        def mail(self, recipient: Recipient) -> bytes:
            self._check(recipient)
            return super().mail(recipient)

        def message_id(self, recipient: Recipient) -> str:
            self._check(recipient)
            return super().message_id(recipient)

        def _check(self, recipient: Recipient) -> None:
            if recipient.guid == "<>":
                raise Invalid("id", "is not an identifier of ours")

    bad = Recipient(Address("bad@example.com"), SubscriberGuid("<>"))

    results, notes = await send(
        destination.transport, [*recipients("a"), bad, *recipients("b")], Picky()
    )

    assert kinds(results) == [ACCEPTED, REFUSED, ACCEPTED]
    assert results[1].reason == "Mail cannot be sent to this address"
    assert not notes.was_handed_over(1)


async def test_a_message_that_cannot_be_composed_is_held_and_raises_nothing(
    destination: Destination,
) -> None:
    class Broken(TemplatedMailing):
        def mail(self, recipient: Recipient) -> bytes:
            raise RuntimeError("no such template")

        def parts(self) -> Parts:
            raise RuntimeError("no such template")

    results, notes = await send(destination.transport, many(3), Broken())

    assert {(each.kind, each.scope) for each in results} == {(HELD, FaultScope.MESSAGE)}
    assert all(each.reason and "no such template" in each.reply for each in results)
    assert notes.handed_over == []


async def test_without_a_destination_everything_is_held_and_the_check_fails(
    destination: Destination,
) -> None:
    transport = destination.unreachable()
    try:
        results, notes = await send(transport, many(3))

        assert {(each.kind, each.scope) for each in results} == {(HELD, FaultScope.ACCOUNT)}
        assert all(each.reason for each in results)
        assert notes.handed_over == []
        with pytest.raises(TransportError, match="cannot be"):
            await transport.check()
    finally:
        await transport.close()


async def test_a_working_transport_says_so_in_one_line_and_keeps_its_secrets(
    destination: Destination,
) -> None:
    found = await destination.transport.check()

    assert found
    assert "\n" not in found
    assert "geheim" not in found + repr(destination.transport)
    assert destination.transport.concurrency >= 1
    destination.transport.limit_connections(1)
    assert kinds((await send(destination.transport, many(3)))[0]) == [ACCEPTED] * 3


async def test_one_refused_recipient_does_not_touch_the_others(remote: Destination) -> None:
    remote.refuse("gone")

    results, _ = await send(remote.transport, recipients("a", "gone", "b"))

    assert kinds(results) == [ACCEPTED, REFUSED, ACCEPTED]
    assert results[1].reason
    assert results[1].reply
    assert "gone@example.com" not in remote.copies()


async def test_an_unanswered_email_is_in_doubt_and_not_sent_again(remote: Destination) -> None:
    remote.stop_answering()

    results, notes = await send(remote.transport, recipients("a"))

    assert kinds(results) == [IN_DOUBT]
    assert notes.handed_over == [0]


async def test_a_cancelled_batch_knows_what_happened_to_everything_it_handed_over(
    remote: Destination,
) -> None:
    remote.stop_answering()
    notes = Notes()
    sending = asyncio.create_task(remote.transport.send(TemplatedMailing(), many(50), notes))
    await asyncio.to_thread(
        wait_until, lambda: bool(notes.handed_over), seconds=20, what="an email handed over"
    )

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert set(notes.settled_as) == set(notes.handed_over)
    assert {each.kind for each in notes.settled_as.values()} == {IN_DOUBT}


async def test_closing_leaves_nobody_waiting(remote: Destination) -> None:
    remote.stop_answering()
    notes = Notes()
    sending = asyncio.create_task(remote.transport.send(TemplatedMailing(), many(50), notes))
    await asyncio.to_thread(
        wait_until, lambda: bool(notes.handed_over), seconds=20, what="an email handed over"
    )

    await remote.transport.close()

    results = await asyncio.wait_for(sending, 20 * BUSY)
    for position, result in enumerate(results):
        assert result.kind is (IN_DOUBT if notes.was_handed_over(position) else DEFERRED)
