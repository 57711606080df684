"""Emails per connection, and rests, by provider: with a sender and a real mail server."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.mail.mailing import Recipient
from postroom.sender.limits.provider_limits import ProviderLimits
from postroom.services.messages.sending.holds import Hold, provider_key
from postroom.services.messages.sending.provider_directory import ProviderDirectory
from postroom.services.messages.sending.provider_rates import ProviderLimit, ProviderRate
from postroom.wiring import Services
from tests.integration.usecases.making import make_list, schedule
from tests.integration.usecases.messages.provider_sending import fill, only_sqlite, sending
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import until

APPLE, YAHOO = Provider("icloud.com"), Provider("yahoo.com")
YAHOO_KEY = provider_key(Address("ann@yahoo.com"))
TSS04 = "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume"
TWO_HOURS = timedelta(hours=2)


async def is_done(services: Services, message: Message) -> bool:
    return (await services.messages.get(message.ref)).status is MessageStatus.COMPLETED


def carried(server: RecordingSmtp, *domains: str) -> Counter[str]:
    """How many emails to these domains each connection carried."""
    received = server.received()
    return Counter(e.connection for e in received if e.recipients[0].endswith(domains))


async def hold_of_yahoo(services: Services) -> Hold | None:
    return (await services.holds.open_holds()).by_key.get(YAHOO_KEY)


@only_sqlite
@pytest.mark.timeout(120)
async def test_no_connection_carries_more_emails_to_a_provider_than_are_allowed(
    services: Services, tmp_path: Path
) -> None:
    name = await make_list(services)
    apple = [f"user{n}@{('icloud.com', 'me.com')[n % 2]}" for n in range(60)]
    await fill(services, name, *apple, *(f"user{n}x@free.fr" for n in range(200)))
    await services.provider_rates.set_limit(APPLE, ProviderLimit(emails_per_connection=5))
    with running_recording_smtp(keep_content=False) as server:
        message = await schedule(services)
        async with sending(services, server, tmp_path):
            await until(lambda: is_done(services, message), "everything is sent")
        by_connection = carried(server, "@icloud.com", "@me.com")
        assert sum(by_connection.values()) == 60
        assert max(by_connection.values()) <= 5
        assert sum(carried(server, "@free.fr").values()) == 200


@only_sqlite
async def test_known_limits_come_into_force_when_a_provider_throttles(services: Services) -> None:
    directory = ProviderDirectory(services.store, None)
    page = [Recipient(Address("ann@aol.com"), SubscriberGuid("guid"))]

    async def limits() -> list[tuple[int | None, int | None]]:
        fresh = ProviderLimits(services.store, services.provider_rates, directory)
        return [(each.most, each.per_connection) for each in (await fresh.admit(page)).parts]

    assert await limits() == [(None, None)]
    await services.provider_rates.throttled(YAHOO, 90.0, TSS04)
    assert await limits() == [(10, 20)]
    await services.provider_rates.set_limit(YAHOO, ProviderLimit(None, 3, 7))
    assert await limits() == [(3, 7)]


@only_sqlite
@pytest.mark.timeout(120)
async def test_yahoo_gets_nothing_for_two_hours_after_each_such_reply(
    services: Services, tmp_path: Path
) -> None:
    name = await make_list(services)
    await fill(services, name, "ann@yahoo.com", "bob@aol.com", "eve@free.fr")
    with running_recording_smtp(
        Rule("RCPT", r"@(yahoo|aol)\.com$", TSS04, drop=True), keep_content=False
    ) as server:
        message = await schedule(services)
        async with sending(services, server, tmp_path):

            async def rests(probes: int) -> bool:
                hold = await hold_of_yahoo(services)
                return (
                    len(server.received()) == 1
                    and hold is not None
                    and len(server.faults()) >= probes
                    and hold.next_probe > datetime.now(UTC) + TWO_HOURS - timedelta(minutes=15)
                )

            await until(lambda: rests(1), "nothing is sent to Yahoo for two hours")
            refused = len(server.faults())
            await services.holds.try_now([YAHOO_KEY])
            await until(lambda: rests(refused + 1), "after a probe, neither")
            server.script()
            await services.holds.try_now([YAHOO_KEY])
            await until(lambda: is_done(services, message), "everything is sent")
        assert set(server.copies().values()) == {1}


@pytest.mark.parametrize(
    ("provider", "own_minutes", "reply", "rest"),
    [
        ("yahoo.com", None, TSS04, TWO_HOURS),
        ("yahoo.com", None, "421 4.7.0 slow down", timedelta()),
        ("yahoo.com", 30, TSS04, timedelta(minutes=30)),
        ("yahoo.com", 0, TSS04, timedelta()),
        ("gmail.com", None, "421 4.7.28 unusual rate", timedelta()),
        ("gmail.com", 30, "421 4.7.28 unusual rate", timedelta(minutes=30)),
        ("free.fr", 5, TSS04, timedelta(minutes=5)),
    ],
)
def test_a_rest_is_the_provider_s_unless_an_administrator_sets_one(
    provider: str, own_minutes: int | None, reply: str, rest: timedelta
) -> None:
    rate = ProviderRate(Provider(provider), limit=ProviderLimit(rest_minutes=own_minutes))
    assert rate.rest_after(reply) == rest
