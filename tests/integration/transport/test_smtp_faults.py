"""Whose fault is it? Faults of a real mail server, at every stage, and what follows for whom."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trustme

from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.servers import Timeouts, parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, recipients
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import LOOPBACK, free_ports

pytestmark = pytest.mark.timeout(60)

ACCEPTED, REFUSED, DEFERRED = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED
HELD, IN_DOUBT = ResultKind.HELD, ResultKind.IN_DOUBT
HASTY = Timeouts(
    greeting=0.4,
    command=0.4,
    data=0.4,
    block=0.4,
    content=0.4,
    patience=0.6,
    cancelled=0.5,
    quit=0.5,
)


@asynccontextmanager
async def transport_to(
    *urls: str, connections: int = 2, timeouts: Timeouts = HASTY
) -> AsyncIterator[SmtpTransport]:
    servers = parse_servers(",".join(urls))
    transport = SmtpTransport(servers, connections=connections, timeouts=timeouts)
    try:
        yield transport
    finally:
        await transport.close()


async def send(transport: SmtpTransport, *names: str) -> list[Result]:
    notes = Notes()
    results = await transport.send(PlainMailing(), recipients(*names), notes)
    assert [notes.settled_as[position] for position in range(len(names))] == results
    return results


def fault_of(result: Result) -> tuple[ResultKind, FaultScope]:
    return result.kind, result.scope


# — The matrix: 9 stages × 6 faults —

STAGES = ("greeting", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "content", "end")
BEFORE_RCPT = STAGES[: STAGES.index("RCPT")]
FAULTS = {
    "temporary": Rule("", reply="451 4.3.0 try later"),
    "permanent": Rule("", reply="550 5.0.0 no"),
    "421": Rule("", reply="421 4.3.2 shutting down", drop=True),
    "dropped": Rule("", drop=True),
    "silent": Rule("", wait=20.0),
    "garbage": Rule("", reply="\x00GARBAGE\x00"),
}


def expected(stage: str, fault: str) -> ResultKind:
    """What becomes of the recipient for whom the server has the fault, every time."""
    if stage in BEFORE_RCPT:
        return HELD
    if stage in ("content", "end"):  # all of the email has left
        answered = {"temporary": DEFERRED, "permanent": REFUSED, "421": HELD}
        return answered.get(fault, IN_DOUBT)
    return {"permanent": REFUSED, "421": HELD}.get(fault, DEFERRED)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingSmtp]:
    certificate = tmp_path_factory.mktemp("certificate") / "server.pem"
    trustme.CA().issue_cert(LOOPBACK).private_key_and_cert_chain_pem.write_to_path(str(certificate))
    with running_recording_smtp(certificate=certificate, user="me", password="secret") as server:
        yield server


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stage", STAGES)
async def test_every_email_ends_in_exactly_one_right_result(
    faulty: RecordingSmtp, stage: str, fault: str
) -> None:
    match = "" if stage in BEFORE_RCPT else f"bad-{stage}-{fault}@"
    bad, good = f"bad-{stage}-{fault}", [f"good{n}-{stage}-{fault}" for n in range(6)]
    rule = replace(FAULTS[fault], stage=stage, match=match)
    if stage == "content" and rule.reply:  # an interrupted email is not continued
        rule = replace(rule, drop=True)
    faulty.script(rule)
    url = faulty.url.replace("//", "//me:secret@") + "?tls=required&verify=no"

    async with transport_to(url) as transport:
        results = await send(transport, *good[:3], bad, *good[3:])

    copies = faulty.copies()
    taken = [each for each in kinds(results) if each is ACCEPTED]
    wanted = expected(stage, fault)
    assert results[3].kind is wanted
    if stage in BEFORE_RCPT:
        # Nobody is touched, and everybody waits for the same reason.
        assert {fault_of(each) for each in results} == {(HELD, FaultScope.ACCOUNT)}
        assert all(each.reason for each in results)
        assert not taken
    elif fault == "421":
        # The mail server closes: what was not sent before waits with it.
        assert {each.kind for each in results} <= {ACCEPTED, HELD}
        assert results[3].scope is FaultScope.ACCOUNT
    else:
        # Only the one who met the fault is concerned.
        assert len(taken) == 6
        assert results[3].scope is FaultScope.RECIPIENT
    # Then: who is accepted has one copy; who is not has none, except where nobody can know.
    for name, result in zip([*good[:3], bad, *good[3:]], results, strict=True):
        count = copies[f"{name}@example.com"]
        assert count == 1 if result.kind is ACCEPTED else count <= (result.kind is IN_DOUBT)


# — A reply together with garbage —


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize(
    "reply", ["250 2.0.0 recorded\r\n\x00GARBAGE\x00", "\x00GARBAGE\x00\r\n250 2.0.0 recorded"]
)
async def test_a_reply_that_comes_with_garbage_is_used(reply: str, pipelining: bool) -> None:
    with running_recording_smtp(Rule("end", "odd", reply), pipelining=pipelining) as server:
        async with transport_to(server.url, connections=1) as transport:
            results = await send(transport, "a", "odd")
        received = [each.recipients[0] for each in server.received()]

    assert kinds(results) == [ACCEPTED, ACCEPTED]
    assert received == ["a@example.com", "odd@example.com"]


# — The server is asked, not the memory —


async def test_after_a_refusal_the_next_batch_asks_the_server() -> None:
    with running_recording_smtp(user="me", password="secret") as server:
        server.script(Rule("AUTH", reply="535 5.7.8 wrong password"))
        async with transport_to(server.url.replace("//", "//me:secret@")) as transport:
            for attempt in range(1, 6):
                results = await send(transport, "a", "b")
                assert {fault_of(each) for each in results} == {(HELD, FaultScope.ACCOUNT)}
                assert server.connections() == attempt, "answered from memory"

            server.script()
            started = time.monotonic()
            assert kinds(await send(transport, "a", "b")) == [ACCEPTED] * 2
            assert time.monotonic() - started < 25


async def test_after_an_outage_the_next_batch_asks_the_server() -> None:
    with running_recording_smtp() as server:
        server.stop()
        async with transport_to(server.url) as transport:
            for _ in range(4):
                [result] = await send(transport, "a")
                assert fault_of(result) == (HELD, FaultScope.ACCOUNT)
                assert result.reason == "The mail server cannot be reached"
            await asyncio.to_thread(server.start)

            started = time.monotonic()
            assert kinds(await send(transport, "a")) == [ACCEPTED]
            assert time.monotonic() - started < 25


async def test_emails_that_wait_together_ask_once() -> None:
    with running_recording_smtp(Rule("EHLO", reply="554 5.7.1 go away")) as server:
        async with transport_to(server.url, connections=8) as transport:
            batches = await asyncio.gather(
                *(send(transport, *(f"{batch}.{n}" for n in range(20))) for batch in range(5))
            )
        assert {each.kind for batch in batches for each in batch} == {HELD}
        assert server.connections() == 1


# — A fault that is not the recipient's touches few —


@pytest.mark.parametrize(
    ("rule", "scope", "reason"),
    [
        (Rule("MAIL", "", "530 5.7.0 Authentication required"), FaultScope.ACCOUNT, "password"),
        (Rule("RCPT", "", "554 5.7.1 <x>: Relay access denied"), FaultScope.ACCOUNT, "relay"),
        (Rule("MAIL", "", "550 5.7.1 Sender address rejected"), FaultScope.ACCOUNT, "From address"),
        (Rule("end", "", "550 5.4.5 Daily sending quota exceeded"), FaultScope.ACCOUNT, "limit"),
        (Rule("end", "", "552 5.3.4 Message too big"), FaultScope.MESSAGE, "large"),
        (Rule("end", "", "550 5.7.1 Command rejected"), FaultScope.MESSAGE, "content"),
    ],
    ids=lambda value: value.stage if isinstance(value, Rule) else str(value),
)
async def test_a_fault_of_the_account_or_message_affects_few_recipients(
    rule: Rule, scope: FaultScope, reason: str
) -> None:
    with running_recording_smtp(rule) as server:
        async with transport_to(server.url, connections=8) as transport:
            results = await send(transport, *(f"u{n}" for n in range(500)))

            assert {fault_of(each) for each in results} == {(HELD, scope)}
            assert reason in results[0].reason
            touched = {each.subject for each in server.faults()} | set(server.copies())
            assert len(touched) <= 2 * 8

            # When the cause is gone, so is the fault.
            server.script()
            assert kinds(await send(transport, "a")) == [ACCEPTED]


async def test_a_provider_that_throttles_does_not_slow_down_others() -> None:
    slow = [f"u{n}@slow.example" for n in range(25)]
    with running_recording_smtp(Rule("RCPT", "slow", "451 4.7.0 [TSS04] deferred")) as server:
        async with transport_to(server.url) as transport:
            names = [*slow, *(f"u{n}" for n in range(475))]
            results = await send(transport, *names)

    assert {fault_of(each) for each in results[:25]} == {(HELD, FaultScope.PROVIDER)}
    assert set(kinds(results[25:])) == {ACCEPTED}


# — Several servers —


@pytest.mark.parametrize(
    "rule",
    [
        Rule("EHLO", reply="554 5.7.1 go away"),
        Rule("MAIL", reply="550 5.7.1 Sender address rejected: not owned by user"),
        Rule("MAIL", drop=True),
        Rule("MAIL", reply="421 4.3.2 busy", drop=True),
        Rule("RCPT", reply="554 5.7.1 <x>: Relay access denied"),
        Rule("end", reply="550 5.4.5 Daily user sending limit exceeded"),
    ],
    ids=lambda rule: f"{rule.stage} {rule.reply[:3]}",
)
async def test_what_one_server_refuses_another_takes(rule: Rule) -> None:
    with running_recording_smtp(rule) as first, running_recording_smtp() as second:
        async with transport_to(first.url, second.url) as transport:
            notes = Notes()
            notes.may_be_handed_over_again = True
            names = [f"u{n}" for n in range(50)]
            results = await transport.send(PlainMailing(), recipients(*names), notes)

        assert set(kinds(results)) == {ACCEPTED}
        assert len(second.copies()) == 50
        assert set(second.copies().values()) == {1}


async def test_everything_is_held_only_if_no_server_can_be_used() -> None:
    [port] = free_ports(1)
    with running_recording_smtp(Rule("MAIL", reply="550 5.7.1 Sender address rejected")) as first:
        async with transport_to(first.url, f"smtp://127.0.0.1:{port}") as transport:
            results = await send(transport, "a", "b", "c")

    assert {fault_of(each) for each in results} == {(HELD, FaultScope.ACCOUNT)}
    assert "Sender address rejected" in results[0].reply


async def test_two_servers_that_are_away_are_both_named() -> None:
    one, other = free_ports(2)
    async with transport_to(f"smtp://127.0.0.1:{one}", f"smtp://127.0.0.1:{other}") as transport:
        [result] = await send(transport, "a")

    assert fault_of(result) == (HELD, FaultScope.ACCOUNT)
    assert result.reason == "The mail server cannot be reached"
    assert str(one) in result.reply
    assert str(other) in result.reply
