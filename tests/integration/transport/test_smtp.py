"""SMTP against real servers: the right outcome for the right email, whatever the server does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.servers import Timeouts, parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, many, recipients
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.mail.smtp_sink import SmtpSink, running_smtp_sink
from tests.services.waiting import BUSY, free_ports

pytestmark = pytest.mark.timeout(60)

ACCEPTED, REFUSED, DEFERRED = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED
HELD, IN_DOUBT = ResultKind.HELD, ResultKind.IN_DOUBT
PATIENT = Timeouts(patience=30 * BUSY)
HASTY = Timeouts(patience=1.5, cancelled=0.5, quit=0.5)
LARGE = 20 * 1024 * 1024  # more than the kernel takes off our hands


@pytest.fixture(params=[True, False], ids=["pipelining", "no pipelining"])
def server(request: pytest.FixtureRequest) -> Iterator[RecordingSmtp]:
    with running_recording_smtp(pipelining=request.param) as started:
        yield started


@asynccontextmanager
async def transport_to(
    *urls: str, connections: int = 4, timeouts: Timeouts = HASTY
) -> AsyncIterator[SmtpTransport]:
    transport = SmtpTransport(
        parse_servers(",".join(urls)), connections=connections, timeouts=timeouts
    )
    try:
        yield transport
    finally:
        await transport.close()


async def until(is_so: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(30 * BUSY):
        while not is_so():  # noqa: ASYNC110 - conditions of another event loop's making
            await asyncio.sleep(0.01)


def url_of(sink: SmtpSink) -> str:
    return f"smtp://{sink.host}:{sink.port}"


async def send(
    transport: SmtpTransport, names: list[str], *, size: int = 0
) -> tuple[list[Result], Notes]:
    notes = Notes()
    results = await transport.send(PlainMailing(size), recipients(*names), notes)
    # Then: the watcher was told the same, of everybody.
    assert [notes.settled_as[position] for position in range(len(names))] == results
    return results, notes


async def test_every_mail_arrives_once_and_whole(server: RecordingSmtp) -> None:
    mailing, notes = PlainMailing(3000), Notes()
    people = many(200)

    async with transport_to(server.url) as transport:
        results = await transport.send(mailing, people, notes)

    assert set(kinds(results)) == {ACCEPTED}
    assert results[0].reply == "250 2.0.0 recorded"
    received = {each.recipients[0]: each for each in server.received()}
    assert len(server.received()) == len(received) == 200
    for each in people:
        assert received[each.address].content == mailing.mail(each)
        assert received[each.address].sender == "news@example.com"
    assert sorted(notes.handed_over) == list(range(200))
    assert notes.most_under_way <= 4


async def test_overlapping_batches_share_the_connections(server: RecordingSmtp) -> None:
    async with transport_to(server.url) as transport:
        answers = await asyncio.gather(
            *(send(transport, [f"{batch}.{n}" for n in range(30)]) for batch in range(10))
        )

    assert all(set(kinds(results)) == {ACCEPTED} for results, _ in answers)
    assert set(server.copies().values()) == {1}
    assert len(server.copies()) == 300


async def test_without_recipients_nothing_is_done(server: RecordingSmtp) -> None:
    async with transport_to(server.url) as transport:
        assert await transport.send(PlainMailing(), [], Notes()) == []


async def test_each_recipient_gets_its_own_answer(server: RecordingSmtp) -> None:
    server.script(
        Rule("RCPT", r"gone\d*@", "550 5.1.1 user unknown"),
        Rule("RCPT", r"busy\d*@", "451 4.2.1 mailbox busy"),
        Rule("DATA", r"nodata\d*@", "451 4.3.0 not now"),
        Rule("end", r"full\d*@", "552 5.2.2 mailbox full"),
        Rule("end", r"later\d*@", "451 4.3.0 later"),
        Rule("end", r"spf\d*@", "550 5.7.26 unauthenticated"),
        Rule("RCPT", r"list\d*@", "554 5.7.1 blocked using bl.example"),
    )
    expected = {
        "gone": REFUSED,
        "busy": DEFERRED,
        "nodata": DEFERRED,
        "full": REFUSED,
        "later": DEFERRED,
        "spf": HELD,
        "list": HELD,
        "fine": ACCEPTED,
    }
    names = [f"{name}{n}" for n in range(12) for name in expected]

    async with transport_to(server.url) as transport:
        results, _ = await send(transport, names)

    assert kinds(results) == [expected[name.rstrip("0123456789")] for name in names]
    assert set(server.copies()) == {f"fine{n}@example.com" for n in range(12)}
    assert results[0].reply == "550 5.1.1 user unknown"


async def test_data_allowed_without_recipients_sends_nothing_to_nobody() -> None:
    with running_recording_smtp(Rule("RCPT", "gone", "550 5.1.1 no"), lenient_data=True) as server:
        async with transport_to(server.url, connections=1) as transport:
            results, _ = await send(transport, ["gone1", "a", "gone2", "gone3", "b", "gone4"])
        copies = server.copies()

    assert kinds(results) == [REFUSED, ACCEPTED, REFUSED, REFUSED, ACCEPTED, REFUSED]
    assert copies == {"a@example.com": 1, "b@example.com": 1}


@pytest.mark.parametrize("stage", ["greeting", "EHLO", "MAIL", "RCPT", "DATA", "RSET"])
async def test_a_connection_dropped_before_the_content_is_tried_again(
    server: RecordingSmtp, stage: str
) -> None:
    server.script(Rule(stage, drop=True, times=2), Rule("RCPT", "gone", "550 5.1.1 user unknown"))

    async with transport_to(server.url) as transport:
        results, _ = await send(transport, ["gone", *(f"u{n}" for n in range(30))])

    assert kinds(results) == [REFUSED] + [ACCEPTED] * 30
    assert set(server.copies().values()) == {1}


@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
async def test_a_connection_always_dropped_for_one_stops_that_one_only(
    server: RecordingSmtp, stage: str
) -> None:
    match = "" if stage == "MAIL" else "poison"
    server.script(Rule(stage, match, drop=True))

    async with transport_to(server.url) as transport:
        results, notes = await send(transport, ["poison", "a", "b", "c"])

    if stage == "MAIL":
        assert kinds(results) == [HELD] * 4
    else:
        assert kinds(results) == [DEFERRED, ACCEPTED, ACCEPTED, ACCEPTED]
    assert "closed the connection" in results[0].reply
    assert not notes.was_handed_over(0)


async def test_dropped_after_the_dot_is_in_doubt_and_never_sent_again(
    server: RecordingSmtp,
) -> None:
    server.script(Rule("end", "doubt", drop=True))
    names = [f"doubt{n}" if n % 5 == 0 else f"u{n}" for n in range(50)]

    async with transport_to(server.url) as transport:
        results, notes = await send(transport, names)

    assert kinds(results) == [IN_DOUBT if n % 5 == 0 else ACCEPTED for n in range(50)]
    assert notes.was_handed_over(0)
    assert set(server.copies().values()) == {1}
    assert len(server.copies()) == 50


async def test_dropped_in_the_middle_of_a_small_email_is_in_doubt(server: RecordingSmtp) -> None:
    """All of it had left this machine: nobody here can know how far the server got."""
    server.script(Rule("content", "half", drop=True))

    async with transport_to(server.url) as transport:
        results, _ = await send(transport, ["half", "a"], size=3000)

    assert kinds(results) == [IN_DOUBT, ACCEPTED]


async def test_dropped_in_the_middle_of_a_large_email_is_sent_again(server: RecordingSmtp) -> None:
    server.script(Rule("content", "half", drop=True, times=1, after=1000, wait=0.2))

    async with transport_to(server.url) as transport:
        results, notes = await send(transport, ["half", "a"], size=LARGE)

    assert kinds(results) == [ACCEPTED, ACCEPTED]
    assert notes.handed_over.count(0) == 1
    assert set(server.copies().values()) == {1}


async def test_large_emails_arrive_whole(server: RecordingSmtp) -> None:
    mailing, people = PlainMailing(LARGE), recipients("a", "b", "c")

    async with transport_to(server.url, connections=2) as transport:
        results = await transport.send(mailing, people, Notes())

    assert kinds(results) == [ACCEPTED] * 3
    assert [len(each.content) for each in server.received()] == [len(mailing.mail(people[0]))] * 3


@pytest.mark.parametrize("stage", ["greeting", "EHLO", "MAIL", "RCPT", "DATA"])
async def test_421_anywhere_is_tried_again_on_another_connection(
    server: RecordingSmtp, stage: str
) -> None:
    server.script(Rule(stage, reply="421 4.3.2 shutting down", drop=True, times=2))

    async with transport_to(server.url) as transport:
        results, _ = await send(transport, [f"u{n}" for n in range(20)])

    assert kinds(results) == [ACCEPTED] * 20
    assert set(server.copies().values()) == {1}


async def test_421_instead_of_acceptance_is_held(server: RecordingSmtp) -> None:
    server.script(Rule("end", "u3@", reply="421 4.3.2 shutting down", drop=True))

    async with transport_to(server.url) as transport:
        results, _ = await send(transport, [f"u{n}" for n in range(20)])

    assert kinds(results) == [HELD if n == 3 else ACCEPTED for n in range(20)]
    assert results[3].reply == "421 4.3.2 shutting down"


@pytest.mark.parametrize(
    ("stage", "kind"),
    [("MAIL", HELD), ("RCPT", DEFERRED), ("DATA", DEFERRED), ("end", IN_DOUBT)],
)
async def test_a_server_too_slow_is_given_up(
    server: RecordingSmtp, stage: str, kind: ResultKind
) -> None:
    server.script(Rule(stage, "" if stage == "MAIL" else "slow", wait=30))
    short = Timeouts(command=4, data=4, content=4, patience=0.3, cancelled=0.3, quit=0.3)
    started = time.monotonic()

    async with transport_to(server.url, timeouts=short) as transport:
        results, _ = await send(transport, ["slow"])

    assert kinds(results) == [kind]
    assert "no answer within 4 s" in results[0].reply
    assert time.monotonic() - started < 25


async def test_a_slow_server_is_waited_for(server: RecordingSmtp) -> None:
    server.script(Rule("end", wait=0.3, reply="250 2.0.0 at last"))

    async with transport_to(server.url, connections=8) as transport:
        results, _ = await send(transport, [f"u{n}" for n in range(8)])

    assert kinds(results) == [ACCEPTED] * 8


async def test_a_server_that_never_greets_is_unreachable() -> None:
    with running_recording_smtp(Rule("greeting", wait=30)) as server:
        short = Timeouts(greeting=0.3, patience=0.1, quit=0.1)
        async with transport_to(server.url, timeouts=short) as transport:
            results, _ = await send(transport, ["a"])

    assert kinds(results) == [HELD]
    assert "does not respond" in results[0].reply
    assert results[0].reason == "The mail server is not responding"


@pytest.mark.parametrize("stage", ["greeting", "EHLO"])
async def test_a_server_that_does_not_want_us_holds_everything(
    server: RecordingSmtp, stage: str
) -> None:
    server.script(Rule(stage, reply="554 5.7.1 client blocked using bl.example", drop=True))

    async with transport_to(server.url) as transport:
        results, notes = await send(transport, ["a", "b"])

    assert kinds(results) == [HELD, HELD]
    assert "554 5.7.1 client blocked using bl.example" in results[0].reply
    assert notes.handed_over == []


async def test_an_unreachable_server_holds_everything_after_a_little_patience() -> None:
    [port] = free_ports(1)
    started = time.monotonic()

    async with transport_to(f"smtp://127.0.0.1:{port}") as transport:
        results, _ = await send(transport, ["a", "b"])

    assert kinds(results) == [HELD, HELD]
    assert {each.scope for each in results} == {FaultScope.ACCOUNT}
    assert "cannot be reached" in results[0].reply
    assert results[0].reason == "The mail server cannot be reached"
    assert 1.4 < time.monotonic() - started < 30


async def test_calls_wait_for_a_server_that_returns_in_time(server: RecordingSmtp) -> None:
    server.stop()
    async with transport_to(server.url, timeouts=PATIENT) as transport:
        sending = asyncio.create_task(send(transport, ["a", "b"]))
        await asyncio.sleep(0.5)
        assert not sending.done()

        await asyncio.to_thread(server.start)
        results, _ = await sending

    assert kinds(results) == [ACCEPTED, ACCEPTED]


async def test_a_restarted_server_is_found_again_between_batches(server: RecordingSmtp) -> None:
    async with transport_to(server.url) as transport:
        await send(transport, ["a", "b", "c", "d"])
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        results, _ = await send(transport, ["e", "f", "g", "h"])

    assert kinds(results) == [ACCEPTED] * 4


async def test_the_second_server_takes_over_and_gives_back(server: RecordingSmtp) -> None:
    with running_recording_smtp() as second:
        server.stop()
        async with transport_to(server.url, second.url) as transport:
            results, _ = await send(transport, ["a", "b"])
            assert kinds(results) == [ACCEPTED] * 2
            assert len(second.accepted()) == 2

            await asyncio.to_thread(server.start)
            # While there is more work than connections, the first one is tried again, once it was
            # left alone for as long as its failures ask for.
            for _ in range(100):
                await send(transport, [f"u{n}" for n in range(50)])
                if server.accepted():
                    break
                await asyncio.sleep(0.1)
            assert server.accepted()

            before = len(second.accepted())
            await send(transport, ["last"])
            assert len(second.accepted()) == before


async def test_work_is_spread_over_all_connections() -> None:
    with running_recording_smtp(delay=0.1) as server:
        async with transport_to(server.url, connections=8) as transport:
            await send(transport, [f"warm{n}" for n in range(16)])
            # No mail is accepted before all of them have been sent.
            server.script(Rule("end", wait=30))
            notes = Notes()
            sending = asyncio.create_task(transport.send(PlainMailing(), many(8), notes))
            await until(lambda: len(notes.handed_over) == 8, "a connection for each of them")
            assert notes.most_under_way == 8
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending


async def test_idle_connections_are_closed_with_quit() -> None:
    with running_recording_smtp() as server:
        async with transport_to(server.url, timeouts=Timeouts(idle=0.2)) as transport:
            await send(transport, ["a"])
            await until(lambda: transport.open_connections == 0, "it says good-bye")
            results, _ = await send(transport, ["b"])

    assert kinds(results) == [ACCEPTED]


async def test_a_cancelled_batch_hands_over_nothing_more() -> None:
    with running_recording_smtp(delay=0.05) as server:
        async with transport_to(server.url, timeouts=Timeouts(cancelled=5)) as transport:
            notes = Notes()
            sending = asyncio.create_task(transport.send(PlainMailing(), many(500), notes))
            await until(lambda: len(notes.settled_as) >= 4, "some are sent")
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            handed_over = list(notes.handed_over)
            results, _ = await send(transport, ["after"])

        assert 0 < len(handed_over) < 500
        assert notes.handed_over == handed_over
        assert {notes.settled_as[each].kind for each in handed_over} == {ACCEPTED}
        assert kinds(results) == [ACCEPTED]
        assert len(server.received()) == len(handed_over) + 1


async def test_a_cancelled_batch_does_not_wait_forever() -> None:
    with running_recording_smtp(Rule("end", "user", wait=30)) as server:
        async with transport_to(server.url) as transport:
            notes = Notes()
            sending = asyncio.create_task(transport.send(PlainMailing(), many(20), notes))
            await until(lambda: bool(notes.handed_over), "one is handed over")
            sending.cancel()
            started = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert time.monotonic() - started < 25
            results, _ = await send(transport, ["after"])

    assert {notes.settled_as[each].kind for each in notes.handed_over} == {IN_DOUBT}
    assert kinds(results) == [ACCEPTED]


async def test_closing_defers_what_waits_and_finishes_what_is_on_the_wire() -> None:
    with running_recording_smtp(delay=0.05) as server:
        transport = SmtpTransport(parse_servers(server.url), connections=2, timeouts=HASTY)
        notes = Notes()
        sending = asyncio.create_task(transport.send(PlainMailing(), many(100), notes))
        await until(lambda: bool(notes.settled_as), "one is sent")

        await transport.close()
        results = await sending
        received = server.received()

    found = kinds(results)
    assert set(found) == {ACCEPTED, DEFERRED}
    assert found.count(ACCEPTED) == len(received)


async def test_a_closed_transport_sends_nothing(server: RecordingSmtp) -> None:
    async with transport_to(server.url) as transport:
        pass

    assert kinds(await transport.send(PlainMailing(), many(2), Notes())) == [DEFERRED] * 2


async def test_a_server_that_never_ends_a_line_costs_no_memory(server: RecordingSmtp) -> None:
    server.script(Rule("MAIL", reply="250 " + "x" * 100_000))

    async with transport_to(server.url) as transport:
        results, _ = await send(transport, ["a"])

    assert kinds(results) == [HELD]
    assert "too long" in results[0].reply or "does not end" in results[0].reply


async def test_an_email_too_large_for_the_server_is_held_before_it_is_sent() -> None:
    with running_recording_smtp(size=1000) as server:
        async with transport_to(server.url) as transport:
            results, notes = await send(transport, ["a"], size=5000)

    assert kinds(results) == [HELD]
    assert results[0].scope is FaultScope.MESSAGE
    assert notes.handed_over == []


async def test_smtputf8_addresses_reach_a_server_that_offers_it(server: RecordingSmtp) -> None:
    async with transport_to(server.url) as transport:
        results, _ = await send(transport, ["jürgen@example.com", "a@bücher.example"])

    assert kinds(results) == [ACCEPTED, ACCEPTED]
    assert set(server.copies()) == {"jürgen@example.com", "a@xn--bcher-kva.example"}


CHAOS = (
    Rule("MAIL", reply="421 4.3.2 later", drop=True, times=1),
    Rule("MAIL", drop=True, times=1),
    Rule("RCPT", r"user\d*1@", "550 5.1.1 user unknown"),
    Rule("RCPT", r"user\d*02@", "451 4.2.1 busy"),
    Rule("RCPT", r"user\d*03@", drop=True, times=1, each=True),
    Rule("DATA", r"user\d*04@", "451 4.3.0 not now"),
    Rule("DATA", r"user\d*05@", reply="421 4.3.2 later", drop=True, times=1, each=True),
    Rule("content", r"user\d*06@", drop=True),
    Rule("end", r"user\d*07@", drop=True),
    Rule("end", r"user\d*08@", reply="421 4.3.2 later", drop=True),
    Rule("end", r"user\d*09@", reply="554 5.0.0 no"),
    Rule("end", r"user\d*0@", reply="250 2.0.0 at last", wait=0.01),
)


async def test_every_outcome_is_true_under_random_faults(server: RecordingSmtp) -> None:
    server.script(*CHAOS)
    people, notes = many(1000), Notes()

    async with transport_to(server.url, connections=8, timeouts=PATIENT) as transport:
        results = await transport.send(PlainMailing(1000), people, notes)

    copies, wanted = server.copies(), {"06": IN_DOUBT, "07": IN_DOUBT, "09": REFUSED}
    wanted |= {"02": DEFERRED, "04": DEFERRED, "08": DEFERRED}
    for each, result in zip(people, results, strict=True):
        digits = each.address.partition("@")[0].removeprefix("user")
        expected = REFUSED if digits[-1] == "1" else wanted.get(digits[-2:], ACCEPTED)
        assert result.kind is expected, (each.address, result)
        arrived = expected is ACCEPTED or digits[-2:] == "07"
        assert copies[each.address] == arrived, (each.address, result)
    assert len(notes.settled_as) == 1000


async def test_killed_servers_leave_at_most_one_email_in_doubt_per_connection(
    server: RecordingSmtp,
) -> None:
    """Whatever the server took is accepted or in doubt, and what it did not take is neither."""
    people, notes, kills = many(6000), Notes(), 4
    async with transport_to(server.url, connections=4, timeouts=PATIENT) as transport:
        sending = asyncio.create_task(transport.send(PlainMailing(2000), people, notes))
        for number in range(kills):
            await asyncio.to_thread(notes.wait_for_settled, (number + 1) * 1000)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
        results = await sending

    copies = server.copies()
    in_doubt = kinds(results).count(IN_DOUBT)
    assert kinds(results).count(ACCEPTED) == 6000 - in_doubt
    assert in_doubt <= kills * 4
    for each, result in zip(people, results, strict=True):
        assert copies[each.address] == 1 or result.kind is IN_DOUBT
        assert copies[each.address] <= 1


SINKS: list[tuple[tuple[str, ...], ResultKind]] = [
    ((), ACCEPTED),
    (("-p",), ACCEPTED),
    (("-e",), ACCEPTED),
    (("-f", "RCPT"), REFUSED),
    (("-f", "MAIL"), HELD),
    (("-f", "DATA"), REFUSED),
    (("-f", "."), REFUSED),
    (("-f", "EHLO"), ACCEPTED),
    (("-f", "CONNECT"), HELD),
    (("-r", "RCPT"), DEFERRED),
    (("-r", "MAIL"), HELD),
    (("-r", "DATA"), DEFERRED),
    (("-r", "."), DEFERRED),
    (("-r", "CONNECT"), HELD),
    (("-q", "CONNECT"), HELD),
    (("-q", "EHLO"), HELD),
    (("-q", "MAIL"), HELD),
    (("-q", "RCPT"), DEFERRED),
    (("-q", "DATA"), DEFERRED),
    (("-q", "."), IN_DOUBT),
    (("-Q", "MAIL"), HELD),
    (("-Q", "RCPT"), DEFERRED),
    (("-Q", "DATA"), DEFERRED),
    (("-Q", "."), DEFERRED),
    (("-w", "1"), ACCEPTED),
]


@pytest.mark.parametrize(("options", "kind"), SINKS, ids=[" ".join(o) or "-" for o, _ in SINKS])
async def test_results_follow_the_replies_of_smtp_sink(
    options: tuple[str, ...], kind: ResultKind
) -> None:
    with running_smtp_sink(*options) as sink:
        async with transport_to(url_of(sink)) as transport:
            results, _ = await send(transport, ["a", "b", "c"])

    assert kinds(results) == [kind] * 3


async def test_a_server_that_stops_reading_is_given_up() -> None:
    with running_smtp_sink("-A", "1") as sink:
        async with transport_to(url_of(sink), connections=1) as transport:
            results, notes = await send(transport, ["a"], size=LARGE)

    assert kinds(results) == [REFUSED]
    assert notes.handed_over == []


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    if request.param == "asyncio":
        return asyncio.run
    uvloop = pytest.importorskip("uvloop")
    found: Callable[..., None] = uvloop.run
    return found


def test_either_event_loop_will_do(run: Callable[..., None]) -> None:
    async def work() -> None:
        with running_recording_smtp(Rule("end", "doubt", drop=True, times=1)) as server:
            async with transport_to(server.url) as transport:
                results, notes = await send(transport, ["doubt", *(f"u{n}" for n in range(99))])
                assert kinds(results) == [IN_DOUBT] + [ACCEPTED] * 99
                server.script(Rule("content", "half", drop=True, times=1, after=1000, wait=0.2))
                results, notes = await send(transport, ["half"], size=LARGE)
                assert kinds(results) == [ACCEPTED]
                assert notes.handed_over == [0]

    run(work())
