"""From a scheduled message to every subscriber, with all that can get in between."""

import asyncio
import time

import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.wiring import Services
from tests.acceptance.harness import (
    LIST,
    Postroom,
    SumChecker,
    address_of,
    addresses_with,
    fill,
    schedule,
)
from tests.contract.conftest import ON_ONE_ENGINE
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.stores.postgres import PostgresServer
from tests.services.waiting import BUSY


async def test_every_verified_subscriber_gets_it_once(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 250)
    await services.subscriptions.edit(LIST, address_of(7), verified=False)
    await services.subscriptions.edit(LIST, address_of(8), blocked="complained")
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    done, counts = await SumChecker(services, message).until_done()
    assert done.status is MessageStatus.COMPLETED
    assert counts.planned == counts.accepted == 248
    copies = server.copies()
    assert set(copies) == {address_of(n) for n in range(250)} - {address_of(7), address_of(8)}
    assert set(copies.values()) == {1}


@pytest.mark.timeout(180)
async def test_two_schedulers_and_four_senders_send_each_email_once(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 3_000
    await fill(services, count)
    first, second = await schedule(services, "One"), await schedule(services, "Two")
    for part in ("scheduler", "scheduler", "sender", "sender", "sender", "sender"):
        postroom.start(part)
    for message in (first, second):
        _, counts = await SumChecker(services, message).until_done(90)
        assert counts.accepted == counts.planned == count
        assert counts.possible_duplicates == 0
    copies = server.copies()
    assert len(copies) == count
    assert set(copies.values()) == {2}  # one of each message


@pytest.mark.timeout(120)
async def test_sigterm_during_sending_loses_and_duplicates_nothing(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 5_000
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    done = 0
    for _ in range(3):
        sender = postroom.start("sender")
        # More than before it started: a process that is still starting does not end with 0.
        _, counts = await checker.until(
            lambda _, counts, done=done: counts.done >= done + 500,  # type: ignore[misc]
            seconds=30,
            why="no progress",
        )
        started = time.monotonic()
        assert await asyncio.to_thread(postroom.stop, sender) == 0
        assert time.monotonic() - started < 10 * BUSY
        done = (await services.outcomes.counts(message)).done
    postroom.start("sender")
    _, counts = await checker.until_done()
    assert counts.accepted == counts.planned == count
    assert counts.possible_duplicates == counts.in_doubt == 0
    assert set(server.copies().values()) == {1}
    assert len(server.copies()) == count


@ON_ONE_ENGINE
@pytest.mark.timeout(120)
async def test_each_email_gets_the_outcome_that_its_server_gave(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """5% deferred once, 1% refused, and a 421 now and then."""
    count = 2_000
    postroom.settings["retry_first"] = "1s"
    server.script(
        Rule("RCPT", match=r"user\d+[05]0@", reply="451 4.2.1 try later", times=1, each=True),
        Rule("RCPT", match=r"user\d+99@", reply="550 5.1.1 no such user"),
        Rule("MAIL", reply="421 4.3.2 closing", drop=True, times=5),
    )
    await fill(services, count)
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    done, counts = await SumChecker(services, message).until_done()
    unknown = {address_of(number) for number in range(99, count, 100)}
    assert await addresses_with(services, done, EmailOutcome.REFUSED) == unknown
    assert counts.accepted == count - len(unknown)
    assert counts.possible_duplicates == 0
    record = await services.outcomes.email(done, address_of(99))
    assert record is not None
    assert "no such user" in record.reply
    deferred = await services.outcomes.email(done, address_of(50))
    assert deferred is not None
    assert deferred.tries == 2
    assert set(server.copies().values()) == {1}


@ON_ONE_ENGINE
@pytest.mark.timeout(120)
async def test_a_mail_server_that_is_down_for_a_while_costs_only_time(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 3_000
    postroom.settings["retry_first"] = "1s"
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    postroom.start("sender")
    await checker.until(lambda _, counts: counts.done > 300, seconds=30, why="no progress")
    server.stop()
    await asyncio.sleep(10)
    server.start()
    _, counts = await checker.until_done(90)
    assert counts.accepted == counts.planned == count
    copies = server.copies()
    assert len(copies) == count
    assert sum(copies.values()) - count <= counts.possible_duplicates


@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_database_that_restarts_costs_only_time(
    postroom: Postroom, services: Services, server: RecordingSmtp, postgres: PostgresServer
) -> None:
    count = 5_000
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    postroom.start("sender")
    for share in (500, 2500):
        await checker.until(
            lambda _, counts, share=share: counts.done > share,  # type: ignore[misc]
            seconds=30,
            why="no progress",
        )
        await asyncio.to_thread(postgres.restart, immediate=True)
    _, counts = await checker.until_done(90)
    assert counts.accepted == counts.planned == count
    copies = server.copies()
    assert len(copies) == count
    assert sum(copies.values()) - count <= counts.possible_duplicates


@ON_ONE_ENGINE
async def test_subscribers_who_leave_before_their_page_is_sent_get_nothing(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 300)
    message = await schedule(services)
    postroom.start("scheduler")
    checker = SumChecker(services, message)
    await checker.until(
        lambda message, _: message.status is MessageStatus.PROCESSING,
        seconds=30,
        why="not queued",
    )
    leaver = await services.subscriptions.get(LIST, address_of(42))
    assert await services.subscriptions.unsubscribe(LIST, leaver.guid) is not None
    postroom.start("sender")
    done, counts = await checker.until_done()
    assert (counts.accepted, counts.suppressed) == (299, 1)
    assert await addresses_with(services, done, EmailOutcome.SUPPRESSED) == {address_of(42)}
    assert address_of(42) not in server.copies()


@ON_ONE_ENGINE
@pytest.mark.timeout(120)
async def test_subscribers_who_leave_while_a_slow_server_handles_others_get_nothing(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """Only so many pages are read as are sent soon."""
    count = 2_000
    server.script(Rule("end", wait=0.05))  # at most 80 emails per second on four connections
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    postroom.start("sender")
    await checker.until(lambda _, counts: counts.done >= 100, seconds=30, why="no progress")
    leavers = [address_of(number) for number in range(1_000, count, 50)]
    for address in leavers:
        leaver = await services.subscriptions.get(LIST, address)
        assert await services.subscriptions.unsubscribe(LIST, leaver.guid) is not None
    server.script()
    _, counts = await checker.until_done()
    assert (counts.accepted, counts.suppressed) == (count - len(leavers), len(leavers))
    assert not server.copies().keys() & set(leavers)


@ON_ONE_ENGINE
@pytest.mark.timeout(120)
async def test_slow_replies_do_not_delay_other_recipients(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 500
    late = {address_of(50), address_of(150)}  # of the first two pages
    postroom.settings["connections"] = "16"
    server.script(  # the others need about four seconds
        Rule("end", match="|".join(late), wait=20.0), Rule("end", wait=0.1)
    )
    await fill(services, count)
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    _, counts = await SumChecker(services, message).until_done(90)
    assert counts.accepted == count
    arrived = [each.at for each in server.accepted()]
    # Behind each of the late ones, one email is on the same connection.
    assert sum(at > min(arrived) + 18 for at in arrived) <= len(late)


@ON_ONE_ENGINE
@pytest.mark.timeout(120)
async def test_pause_resume_and_cancel_take_effect_soon(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 3_000
    server.script(Rule("end", wait=0.01))  # about 15 ms per email on each of four connections
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    postroom.start("sender")
    await checker.until(lambda _, counts: counts.done > 200, seconds=30, why="no progress")
    await services.message_states.pause(message.ref)
    for _ in range(30):
        _, paused = await checker.look()
        await asyncio.sleep(1.0)
        still, later = await checker.look()
        assert still.status is MessageStatus.PAUSED
        if later == paused:
            break
    else:
        raise AssertionError("it goes on sending")
    assert paused.done < count
    await services.message_states.resume(message.ref)
    await checker.until(
        lambda _, counts: counts.done >= paused.done + 200, seconds=60, why="not resumed"
    )
    await services.message_states.cancel(message.ref)
    done, counts = await checker.until(
        lambda _, counts: counts.pending == 0, seconds=30, why="not cancelled"
    )
    assert done.status is MessageStatus.CANCELLED
    assert counts.accepted + counts.suppressed == counts.planned
    assert counts.suppressed > 0
    assert len(server.copies()) == counts.accepted
    assert set(server.copies().values()) == {1}


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.timeout(120)
async def test_a_page_that_takes_longer_than_its_lease_is_not_sent_twice(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    postroom.settings["sender_lease"] = "8s"
    server.script(Rule("end", wait=0.4))  # 200 emails on two times four connections: 10 s
    await fill(services, 200)
    message = await schedule(services)
    for part in ("scheduler", "sender", "sender"):
        postroom.start(part)
    _, counts = await SumChecker(services, message).until_done(60)
    assert counts.accepted == 200
    assert counts.possible_duplicates == 0
    assert set(server.copies().values()) == {1}


@ON_ONE_ENGINE
@pytest.mark.parametrize("deleted", [True, False], ids=["deleted list", "empty list"])
async def test_a_message_to_an_empty_list_ends_with_a_visible_reason(
    postroom: Postroom, services: Services, server: RecordingSmtp, deleted: bool
) -> None:
    await fill(services, 0)
    message = await schedule(services)
    if deleted:
        await services.lists.finish_deletion(message.list_name)
    postroom.start("scheduler")
    done, counts = await SumChecker(services, message).until_done()
    assert done.status is MessageStatus.COMPLETED
    assert counts.planned == 0
    assert ("deleted" if deleted else "no confirmed subscribers") in done.reason
