"""Holds: whom they cover, when they are probed, and when they are lifted."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.providers import provider_of
from postroom.domain.messages.refs import MessageRef
from postroom.sender.faults.refusals import RecentResults, Suspicion
from postroom.services.messages.sending.holds import (
    ACCOUNT,
    Fault,
    Hold,
    HoldKey,
    Holds,
    Refusal,
    WaitingReasons,
    hold_key,
    opened,
    probed,
    together,
    waiting_of,
    with_waiting,
)
from postroom.storage import Entity, Value
from postroom.transport.contract import FaultScope, Result, ResultKind

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
REF = MessageRef("634852858215726983")
ANN, BOB = Address("ann@gmail.com"), Address("bob@contoso.com")
UNREACHABLE = Fault(FaultScope.ACCOUNT, ACCOUNT, "The mail server is unreachable", "refused")


def held(scope: FaultScope = FaultScope.ACCOUNT) -> Result:
    return Result(ResultKind.HELD, "451 later", scope, "It throttles us")


def hold_of(scope: FaultScope, key: str = ACCOUNT) -> Hold:
    return opened(Fault(scope, HoldKey(key), "Trouble", "451 later"), None, NOW)


def seconds_between_probes(scope: FaultScope) -> list[float]:
    hold, now, pauses = hold_of(scope), NOW, []
    for _ in range(9):
        pauses.append((hold.next_probe - now).total_seconds())
        now = hold.next_probe
        hold = probed(hold, held(scope), now)
    return pauses


def test_domains_of_one_family_are_one_provider() -> None:
    families = [
        ("ann@gmail.com", "bob@googlemail.com"),
        ("ann@outlook.com", "bob@hotmail.com", "eve@live.com", "joe@msn.com"),
        ("ann@yahoo.com", "bob@aol.com", "eve@ymail.com"),
    ]
    for family in families:
        assert len({provider_of(Address(each)) for each in family}) == 1
    assert provider_of(BOB) == "contoso.com"


def test_each_scope_covers_its_emails_and_no_others() -> None:
    other = MessageRef("634852858215726984")
    for scope, covered in (
        (FaultScope.ACCOUNT, {(REF, ANN), (REF, BOB), (other, ANN), (other, BOB)}),
        (FaultScope.PROVIDER, {(REF, ANN), (other, ANN)}),
        (FaultScope.MESSAGE, {(REF, ANN), (REF, BOB)}),
    ):
        holds = Holds([hold_of(scope, hold_key(scope, REF, ANN))])
        everything = [(ref, address) for ref in (REF, other) for address in (ANN, BOB)]
        assert {each for each in everything if holds.covering(*each)} == covered


def test_the_pause_between_probes_grows_from_seconds_to_minutes() -> None:
    assert seconds_between_probes(FaultScope.ACCOUNT) == [2, 4, 8, 15, 30, 60, 120, 120, 120]
    assert seconds_between_probes(FaultScope.PROVIDER)[-3:] == [120, 300, 300]


@pytest.mark.parametrize(
    ("result", "is_lifted"),
    [
        (Result(ResultKind.ACCEPTED, "250 ok"), True),
        (
            Result(ResultKind.REFUSED, "550 5.1.1 unknown", reason="The mailbox is unknown"),
            True,
        ),
        (Result(ResultKind.DEFERRED, "450 greylisted"), True),
        (held(FaultScope.PROVIDER), True),
        (held(FaultScope.ACCOUNT), False),
        (Result(ResultKind.IN_DOUBT), False),
    ],
)
def test_a_probe_lifts_the_hold_unless_it_meets_the_fault_again(
    result: Result, is_lifted: bool
) -> None:
    hold = opened(UNREACHABLE, None, NOW)
    assert probed(hold, result, NOW).is_open is not is_lifted


def test_a_probe_that_meets_another_fault_changes_the_reason() -> None:
    wrong = Result(ResultKind.HELD, "535 5.7.8 no", FaultScope.ACCOUNT, "Wrong password")
    hold = probed(opened(UNREACHABLE, None, NOW), wrong, NOW)
    assert (hold.is_open, hold.reason, hold.reply) == (True, "Wrong password", "535 5.7.8 no")


def test_a_fault_that_recurs_soon_is_the_same_fault() -> None:
    first = msgspec.structs.replace(opened(UNREACHABLE, None, NOW), interval=8, reported="lifted")
    lifted = msgspec.structs.replace(first, lifted_at=NOW)
    soon = opened(UNREACHABLE, lifted, NOW + timedelta(minutes=1))
    assert (soon.interval, soon.reported) == (15, "opened")
    late = opened(UNREACHABLE, lifted, NOW + timedelta(hours=1))
    assert (late.interval, late.reported) == (2, "")
    other = opened(msgspec.structs.replace(UNREACHABLE, reason="Wrong password"), lifted, NOW)
    assert (other.interval, other.reported) == (2, "")


# -- mass refusals ------------------------------------------------------------------------------


def refuse(
    recent: RecentResults, number: int, reply: str, domain: str = "x.example"
) -> Fault | Suspicion | None:
    refusal = Refusal(REF, 0, Address(f"user{number}@{domain}"))
    return recent.refused(refusal, Result(ResultKind.REFUSED, reply))


def test_the_same_reply_to_most_recipients_is_a_fault_of_the_account() -> None:
    recent = RecentResults()
    faults = [refuse(recent, n, f"550 5.5.0 go away user{n}@x.example (id {n})") for n in range(12)]
    assert faults[:3] == [None] * 3
    assert all(isinstance(each, Suspicion) for each in faults[3:-1]), "to be compared with others"
    fault = faults[-1]
    assert isinstance(fault, Fault)
    assert (fault.scope, len(fault.refused)) == (FaultScope.ACCOUNT, 12)


def test_refusals_among_many_accepted_are_the_recipients_own() -> None:
    recent = RecentResults()
    for number in range(200):
        for which in range(2):
            recent.accepted(Address(f"ok{number}.{which}@x.example"))
        assert refuse(recent, number, "550 5.5.0 go away") is None


def test_half_of_the_recipients_are_not_most_of_them() -> None:
    recent = RecentResults()
    for number in range(200):
        recent.accepted(Address(f"ok{number}@x.example"))
        assert not isinstance(refuse(recent, number, "550 5.5.0 go away"), Fault)


def test_a_fault_that_begins_while_mail_is_accepted_is_suspected_after_four_refusals() -> None:
    recent = RecentResults()
    for number in range(50):
        recent.accepted(Address(f"ok{number}@x.example"))
    found = []
    for number in range(26):  # of each connection, an email that was sent before is accepted
        found.append(refuse(recent, number, "550 5.5.0 go away", f"{number}.example"))
        if number < 3:
            recent.accepted(Address(f"before{number}@x.example"))
    assert [each is None for each in found[:4]] == [True, True, True, False]
    assert all(isinstance(each, Suspicion) for each in found[3:-1]), "fewer than most of 50"
    assert isinstance(found[-1], Fault)


def test_different_replies_are_different_opinions() -> None:
    recent = RecentResults()
    words = ["never", "ever", "again", "please", "thanks"]
    assert not any(refuse(recent, n, f"550 5.5.0 {words[n % 5]}") for n in range(100))


def test_a_provider_that_alone_refuses_is_held_alone() -> None:
    recent = RecentResults()
    for number in range(10):
        recent.accepted(Address(f"ok{number}@y.example"))
    faults = [refuse(recent, n, "550 5.5.0 no") for n in range(12)]
    assert isinstance(faults[-1], Fault)
    assert faults[-1].key == "provider:x.example"


# -- what a page waits for -------------------------------------------------------------------------


def test_a_row_keeps_what_its_emails_wait_for() -> None:
    wait = WaitingReasons(3, NOW, "451 later", ("account", "provider:gmail.com"), is_held=True)
    properties: dict[str, Value] = {"Planned": 100}
    with_waiting(properties, wait)
    assert waiting_of(Entity("p", "r", properties)) == wait
    with_waiting(properties, WaitingReasons())
    assert properties == {"Planned": 100}
    both = together([wait, WaitingReasons(2, NOW - timedelta(hours=1), "450 busy")])
    assert (both.deferred, both.reply) == (5, "451 later")
    assert both.next_try_at == NOW - timedelta(hours=1)
