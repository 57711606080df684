"""Rates by provider, with a real mail server that throttles one of them."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dns.asyncresolver
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.mail.mailing import Recipient
from postroom.sender.faults.faults import Faults
from postroom.sender.limits.provider_limits import ProviderLimits
from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.sending import provider_directory
from postroom.services.messages.sending.holds import Fault, provider_key
from postroom.services.messages.sending.provider_directory import ProviderDirectory
from postroom.services.messages.sending.provider_rates import PARTITION, TABLE, ProviderLimit
from postroom.storage import Entity, Value
from postroom.transport.contract import THROTTLED, FaultScope, Result, ResultKind
from postroom.wiring import Services
from tests.integration.usecases.making import make_list, schedule
from tests.integration.usecases.messages.provider_sending import (
    AT_BIG,
    BIG,
    LIMIT,
    MAIL_SERVERS,
    THROTTLING,
    Flow,
    accepted_at,
    fill,
    learned,
    only_sqlite,
    sending,
)
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.services.dns_server import running_dns_server
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.waiting import BUSY, until

MOST_RESTARTS = 5
BIG_EMAILS = 2_000
"""More than a minute's worth: on a busy machine, it takes several tries to see the rate."""


@only_sqlite
@pytest.mark.timeout(240)
async def test_the_rate_settles_near_the_limit_of_one_provider_and_survives_a_restart(
    services: Services, tmp_path: Path
) -> None:
    name = await make_list(services)
    big = [f"user{n:04}@{('one', 'two')[n % 2]}.lan" for n in range(BIG_EMAILS)]
    await fill(services, name, *big, *(f"user{n:04}x@other.lan" for n in range(600)))
    with (
        running_recording_smtp(THROTTLING, keep_content=False) as server,
        running_dns_server(MAIL_SERVERS) as resolver,
    ):
        message = await schedule(services)
        seen: list[float] = []

        async def has_settled() -> bool:
            known = await services.provider_rates.get(BIG)
            seen.append(0.0 if known.learned is None else known.learned.per_second)
            return seen[-1] >= 0.8 * LIMIT

        def accepted_since(moment: float) -> list[float]:
            return [each for each in accepted_at(server, AT_BIG) if each >= moment]

        async with sending(services, server, tmp_path, resolver):
            await until(has_settled, "the rate returns to near the limit")
            settled_at = time.time()

            def latest() -> Flow:
                return Flow(accepted_since(settled_at)[-5 * LIMIT :])

            async def is_steady() -> bool:
                if latest().count < 5 * LIMIT or not latest().is_steady:
                    return False
                return is_near_limit((await learned(services)).per_second)

            await until(is_steady, "some seconds of throughput without long pauses", 60)
            stayed = latest()
            offered = stayed.count + sum(each.at >= stayed.began_at for each in server.faults())
            others = accepted_at(server, ("@other.lan",))
            assert len(others) == 600, "others do not wait"
        assert 0.8 * LIMIT <= seen[-1] <= 1.2 * LIMIT
        # So many pass within any second: the first ones at once, and the last ones a second later.
        assert offered <= 1.2 * LIMIT * (stayed.seconds + 1), "far more than the server accepts"
        # After throttling, the rate needs about a second to return.
        least = 0.8 * LIMIT * (stayed.seconds - stayed.paused - 1)
        assert stayed.count >= least, "it stays far below the limit"

        kept, began = await _restart(services, server, tmp_path, resolver)
        assert began.per_second >= 0.8 * kept, "the new sender began slowly"

        server.script()
        await services.provider_rates.forget(BIG)
        await services.retries.retry_deferred(await services.messages.get(message.ref))
        everything = BIG_EMAILS + 600
        async with sending(services, server, tmp_path, resolver):
            await until(lambda: len(accepted_at(server, (".lan",))) == everything, "all is sent")
        counts = await services.outcomes.counts(await services.messages.get(message.ref))
        assert (counts.accepted, counts.refused, counts.pending) == (everything, 0, 0)
        assert set(server.copies().values()) == {1}


async def _restart(
    services: Services, server: RecordingSmtp, folder: Path, resolver: dns.asyncresolver.Resolver
) -> tuple[float, Flow]:
    """Send with a new sender for some seconds. Return the rate that was learned before, and how the
    sender began, until it was throttled. Try again if the machine stalled, or if the sender before
    was throttled so often while it stopped that little can be said about the rate."""
    for _ in range(MOST_RESTARTS):
        await asyncio.sleep(1.1)  # the server counts within a second: what was before is forgotten
        kept = (await learned(services)).per_second
        throttled, before = len(server.faults()), len(accepted_at(server, AT_BIG))

        def has_begun(before: int = before) -> bool:
            return len(accepted_at(server, AT_BIG)) >= before + 2 * LIMIT

        async with sending(services, server, folder, resolver):
            await until(has_begun, "two seconds of throughput", 60)
        faults = server.faults()[throttled:]
        assert len(faults) <= 20, "the new sender began at full speed"
        until_throttled = faults[0].at if faults else math.inf
        went = accepted_at(server, AT_BIG)[before : before + 2 * LIMIT]
        began = Flow([each for each in went if each < until_throttled])
        if began.is_steady and is_near_limit(kept, least=0.4):
            return kept, began
    raise TimeoutError("not in time: a start near the limit, without long pauses")


def is_near_limit(per_second: float, least: float = 0.8) -> bool:
    """Whether it is near the limit; after it was throttled once more, half of that at least."""
    return least * LIMIT <= per_second <= 1.2 * LIMIT


@only_sqlite
async def test_an_administrator_s_limit_holds_without_any_throttling(
    services: Services, tmp_path: Path
) -> None:
    name = await make_list(services)
    await fill(services, name, *(f"user{n}@gmail.com" for n in range(40)), "anna@free.fr")
    await services.provider_rates.set_limit(Provider("gmail.com"), ProviderLimit(20, 2))
    with running_recording_smtp(keep_content=False) as server:
        message = await schedule(services)

        async def is_done() -> bool:
            found = await services.messages.get(message.ref)
            return found.status is MessageStatus.COMPLETED

        async with sending(services, server, tmp_path):
            await until(is_done, "everything is sent")
        went = accepted_at(server, ("@gmail.com",))
        assert len(went) == 40
        assert max(went) - min(went) > 1.5, "40 emails at 20 per second, less a burst"
        assert (await services.provider_rates.get(Provider("gmail.com"))).learned is None


@only_sqlite
async def test_a_limit_outside_of_its_range_is_refused(services: Services) -> None:
    with pytest.raises(Invalid, match=r"per_second: must be between 0\.001 and 100,000, not 0"):
        await services.provider_rates.set_limit(BIG, ProviderLimit(0))
    with pytest.raises(Invalid, match="connections: must be between 1 and 1,000, not 0"):
        await services.provider_rates.set_limit(BIG, ProviderLimit(None, 0))
    assert await services.provider_rates.all() == {}


@only_sqlite
async def test_several_senders_that_are_throttled_together_halve_a_rate_once(
    services: Services,
) -> None:
    rates = services.provider_rates
    await asyncio.gather(*(rates.throttled(BIG, 60.0, "421 slow down") for _ in range(8)))
    found = await rates.get(BIG)
    assert (found.throttled, found.reply) == (1, "421 slow down")
    assert found.learned is not None
    assert found.learned.per_second == 30.0

    await rates.forget(BIG)
    assert await rates.all() == {}, "nothing is left of a provider without limits"


@only_sqlite
async def test_late_replies_and_probes_of_a_hold_do_not_lower_a_rate_again(
    services: Services,
) -> None:
    lowered: list[Address] = []
    faults = Faults(
        services, "me", lambda _: None, throttled=lambda address, _: lowered.append(address)
    )
    ref = MessageRef("634852858215726983")
    late, probing = Address("b@one.lan"), Address("c@one.lan")
    slow = Result(ResultKind.HELD, "421 4.7.28 slow", FaultScope.PROVIDER, THROTTLED)
    faults.met(ref, Address("a@one.lan"), slow)
    faults.met(ref, late, slow)
    await faults.conclude({}, {})
    faults.met(ref, late, slow)
    key = provider_key(late)
    assert await services.holds.try_now([key]) == 1
    await faults.fresh_holds()
    admission = await faults.admit(ref, [Recipient(probing, SubscriberGuid("guid"))])
    assert admission.probes == {probing: key}
    faults.met(ref, probing, slow)
    await faults.conclude(admission.probes, {probing: slow})
    assert lowered == ["a@one.lan"]

    await services.holds.probed(key, Result(ResultKind.ACCEPTED, "250 ok"))
    assert not await faults.fresh_holds()
    faults.met(ref, late, slow)
    assert lowered == ["a@one.lan", late], "half of the rate was too much, too"


class _CountedDns(DnsLookups):
    """DNS that answers for some domains only, and never for the others."""

    def __init__(self, *answered: str) -> None:
        super().__init__(dns.asyncresolver.Resolver(configure=False))
        self.asked: list[str] = []
        self._answered = answered

    async def exchangers(self, name: str) -> list[str]:
        self.asked.append(name)
        if name not in self._answered:
            await asyncio.Event().wait()
        return ["mx1.big.lan"]


@only_sqlite
async def test_domains_are_looked_up_only_while_a_limit_is_in_force(services: Services) -> None:
    answers = _CountedDns("one.lan")
    limits = ProviderLimits(
        services.store, services.provider_rates, ProviderDirectory(services.store, answers)
    )
    page = [Recipient(Address("anna@one.lan"), SubscriberGuid("guid"))]
    forgotten = datetime.now(UTC) - timedelta(days=31)
    row: dict[str, Value] = {
        "Rate": 5.0,
        "Goal": 9.0,
        "ChangedAt": forgotten,
        "ThrottledAt": forgotten,
    }
    await services.store.table(TABLE).insert(Entity(PARTITION, BIG, row))
    assert not (await limits.admit(page)).is_paced
    assert answers.asked == []
    await services.provider_rates.set_limit(BIG, ProviderLimit(None, 2))
    limits = ProviderLimits(
        services.store, services.provider_rates, ProviderDirectory(services.store, answers)
    )
    [part] = (await limits.admit(page)).parts
    assert (part.provider, part.most) == (BIG, 2), "a limit on connections alone counts"
    assert answers.asked == ["one.lan"]


@only_sqlite
async def test_a_page_waits_only_a_moment_for_dns_and_then_not_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_directory, "_MOST_KNOWN", 50)
    answers = _CountedDns("quick.lan")
    directory = ProviderDirectory(services.store, answers)
    quick = Address("a@quick.lan")
    slow = [Address(f"a@slow{n}.lan") for n in range(45)]
    await directory.look_up([quick])
    monkeypatch.setattr(provider_directory, "_PAGE_SECONDS", 0.3)
    before = time.monotonic()
    await directory.look_up([quick, *slow])
    assert time.monotonic() - before < 1.5 * BUSY
    assert directory.provider(quick) == BIG
    assert directory.provider(slow[0]) == "slow0.lan"
    asked = len(answers.asked)
    await directory.look_up([quick, *slow])
    assert len(answers.asked) == asked, "late domains count by their names for a while"
    await directory.look_up([Address(f"a@more{n}.lan") for n in range(60)])
    assert directory.provider(quick) == "quick.lan", "the oldest ones are forgotten"


@only_sqlite
async def test_a_rate_that_cannot_be_raised_costs_nothing_after_a_page(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[Provider] = []
    raise_rate = services.provider_rates.cleaned

    async def counted(provider: Provider, minute: float) -> None:
        changed.append(provider)
        await raise_rate(provider, minute)

    monkeypatch.setattr(services.provider_rates, "cleaned", counted)
    directory = ProviderDirectory(services.store, None)
    limits = ProviderLimits(services.store, services.provider_rates, directory)
    ago = datetime.now(UTC) - timedelta(minutes=2)
    row: dict[str, Value] = {"Rate": 9.0, "Goal": 9.0, "ChangedAt": ago, "ThrottledAt": ago}
    table = services.store.table(TABLE)
    await table.insert(Entity(PARTITION, "at-its-goal.lan", row))
    await table.insert(Entity(PARTITION, "below.lan", row | {"Rate": 5.0}))
    addresses = [Address("a@at-its-goal.lan"), Address("a@below.lan")]
    await limits.admit([Recipient(each, SubscriberGuid("guid")) for each in addresses])
    await limits.conclude(dict.fromkeys(addresses, Result(ResultKind.ACCEPTED, "250 ok")))
    assert changed == ["below.lan"]


@only_sqlite
async def test_a_provider_shows_the_figures_and_the_hold_of_the_domains_at_its_mail_servers(
    services: Services,
) -> None:
    name = await make_list(services)
    people = ["a@one.lan", "b@two.lan", "c@other.lan"]
    for each in people:
        await services.subscriptions.add(name, each, verified=True)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 3)
    await services.delivery_figures.count(message)
    text = "421 4.7.28 unusual rate"
    key = provider_key(Address("a@one.lan"))
    await services.holds.open(Fault(FaultScope.PROVIDER, key, text, ""))
    before = {each.provider: each for each in await services.provider_overview.all()}
    assert set(before) == {"one.lan", "two.lan", "other.lan"}, "nobody has looked them up"
    await services.provider_rates.set_limit(BIG, ProviderLimit(5.0, None))
    with running_dns_server(MAIL_SERVERS) as resolver:
        directory = ProviderDirectory(services.store, DnsLookups(resolver))
        await directory.look_up([Address(each) for each in people[:2]])
    shown = {each.provider: each for each in await services.provider_overview.all()}
    assert set(shown) == {BIG, "other.lan"}
    assert shown[BIG].figures.accepted == 2
    assert shown[BIG].hold is not None
    assert shown[BIG].per_second == 5.0
