"""Several mail servers: shared by weight, reserved for lists, with limits of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from postroom.domain.errors import Invalid
from postroom.transport.contract import ResultKind, Transport
from postroom.transport.registry import open_transport
from postroom.transport.smtp.servers import parse_servers
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, many
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp


@asynccontextmanager
async def transport_to(*urls: str) -> AsyncIterator[Transport]:
    transport = open_transport(",".join(urls), folder=Path("unused"), connections=4)
    try:
        yield transport
    finally:
        await transport.close()


def received(server: RecordingSmtp) -> int:
    return len(server.received())


@pytest.mark.timeout(120)
async def test_servers_share_emails_by_weight_and_replace_each_other() -> None:
    with (
        running_recording_smtp(keep_content=False) as one,
        running_recording_smtp(keep_content=False) as two,
        running_recording_smtp(keep_content=False) as reserve,
    ):
        urls = (reserve.url, f"{one.url}?weight=3", f"{two.url}?weight=1")
        async with transport_to(*urls) as transport:
            for _ in range(10):
                notes = Notes()
                results = await transport.send(PlainMailing(), many(10), notes)
                assert kinds(results) == [ResultKind.ACCEPTED] * 10
                assert sorted(notes.settled_as) == list(range(10))
            assert [received(each) for each in (one, two, reserve)] == [75, 25, 0]

            one.stop()
            results = await transport.send(PlainMailing(), many(40), Notes())
            assert kinds(results) == [ResultKind.ACCEPTED] * 40
            assert (received(two), received(reserve)) == (65, 0)
            two.stop()
            results = await transport.send(PlainMailing(), many(8), Notes())
            assert kinds(results) == [ResultKind.ACCEPTED] * 8
            assert received(reserve) == 8


@pytest.mark.timeout(120)
async def test_nobody_gets_two_emails_however_small_a_batch_and_uneven_the_weights() -> None:
    with running_recording_smtp(keep_content=False) as server:
        urls = [f"{server.url}?weight={weight}" for weight in (1, 3, 50, 1, 50)]
        async with transport_to(*urls) as transport:
            for count in (3, 1, 2, 3, 4) * 12:
                notes = Notes()
                results = await transport.send(PlainMailing(), many(count), notes)
                assert kinds(results) == [ResultKind.ACCEPTED] * count
                assert sorted(notes.settled_as) == list(range(count))
        assert received(server) == 13 * 12


@pytest.mark.timeout(120)
async def test_the_emails_of_a_list_go_to_its_own_server() -> None:
    with (
        running_recording_smtp(keep_content=False) as general,
        running_recording_smtp(keep_content=False) as shop,
    ):
        async with transport_to(general.url, f"{shop.url}?lists=shop+offers") as transport:
            for name, count in (("shop", 3), ("offers", 2), ("news", 4), ("", 1)):
                mailing = PlainMailing()
                mailing.list_name = name
                await transport.send(mailing, many(count), Notes())
            assert (received(general), received(shop)) == (5, 5)
            assert await transport.check()


@pytest.mark.timeout(120)
async def test_a_server_has_limits_of_connections_and_of_emails_on_each() -> None:
    with running_recording_smtp(keep_content=False) as server:
        async with transport_to(
            f"{server.url}?connections=1&emails_per_connection=10"
        ) as transport:
            results = await transport.send(PlainMailing(), many(45), Notes())
            assert kinds(results) == [ResultKind.ACCEPTED] * 45
        assert server.connections() == 5
        assert set(server.copies().values()) == {1}


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ("weight=0", "weight of a must be between 1 and 1,000, not '0'"),
        ("weight=x", "weight of a must be between 1 and 1,000, not 'x'"),
        ("connections=257", "connections of a must be between 1 and 256, not '257'"),
        ("lists=no/name", "lists of a: "),
        ("lists=news", "one mail server must be for all lists: remove its lists="),
    ],
)
def test_a_wrong_parameter_is_refused(parameters: str, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_servers(f"smtp://a?{parameters}")
    assert refused.value.problem.startswith(problem)
