"""The weekly digest: one email per week about the messages of the week before."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from postroom import clock
from postroom.digest import WeeklyDigest
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.messages.emails import EmailOutcome
from postroom.notices import NoticeSender
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Store
from postroom.transport.contract import Transport
from postroom.transport.registry import open_transport
from postroom.wiring import Services
from tests.integration.usecases.audience.results.test_list_growth import SetClock
from tests.integration.usecases.faults import Fate, Fated, PowerCut
from tests.integration.usecases.pages import sent_message
from tests.services.mail.recording_smtp import Rule, running_recording_smtp


def next_monday(hour: int) -> datetime:
    today = datetime.now(UTC).date()
    return datetime.combine(today + timedelta(days=7 - today.weekday()), time(hour), UTC)


def digest_of(services: Services, transport: Transport, store: Store | None = None) -> WeeklyDigest:
    return WeeklyDigest(
        store or services.store,
        services.results_over_time,
        services.lists,
        services.users,
        services.list_access,
        transport,
        NoticeSender(services.lists, None),
        Address("ann@example.com"),
        "https://news.example.com",
    )


async def filled(services: Services) -> str:
    await services.lists.create("news", "News", "news@example.com")
    for number in range(4):
        await services.subscriptions.add("news", f"u{number}@example.com", verified=True)
    await services.movements.count((await services.lists.names())[0])
    outcomes = [*[EmailOutcome.ACCEPTED] * 3, EmailOutcome.REFUSED]
    message = await sent_message(
        services, "news", NewBodies("<p>Hi</p>"), outcomes, datetime.now(UTC)
    )
    return message.ref


async def test_a_week_has_one_digest_with_its_messages(services: Services, tmp_path: Path) -> None:
    ref = await filled(services)
    with running_recording_smtp() as server:
        transport = open_transport(server.url, folder=tmp_path)
        try:
            digest = digest_of(services, transport)
            with clock.replaced_by(SetClock(next_monday(6))):
                early = await digest.send_due()
            with clock.replaced_by(SetClock(next_monday(8))):
                assert await digest.send_due()
                assert not await digest.send_due()
                assert not await digest_of(services, transport).send_due(), "another process"
            with clock.replaced_by(SetClock(next_monday(8) + timedelta(days=7))):
                assert not await digest.send_due(), "nothing happened in that week"
        finally:
            await transport.close()
        mails = server.accepted()
    assert not early
    [mail] = mails
    assert mail.recipients == ("ann@example.com",)
    text = mail.content.decode()
    assert "Subject: Postroom: results of last week" in text
    for shown in ("3 accepted: 100.0% delivered", f"/messages/{ref}", "4 joined", "4 by hand"):
        assert shown in text.replace("=\r\n", ""), shown


async def test_a_digest_that_was_not_accepted_is_sent_again(
    services: Services, tmp_path: Path
) -> None:
    await filled(services)
    with running_recording_smtp() as server:
        server.script(Rule("MAIL", reply="451 4.3.0 try later", times=1))
        transport = open_transport(server.url, folder=tmp_path)
        try:
            with clock.replaced_by(SetClock(next_monday(8))):
                digest = digest_of(services, transport)
                results = [await digest.send_due() for _ in range(3)]
        finally:
            await transport.close()
        assert results == [False, True, False]
        assert len(server.accepted()) == 1


async def test_after_a_crash_the_digest_has_the_same_message_id(
    services: Services, tmp_path: Path
) -> None:
    await filled(services)
    with running_recording_smtp() as server:
        transport = open_transport(server.url, folder=tmp_path)
        try:
            with clock.replaced_by(SetClock(next_monday(8))):
                dying = Fated(services.store, Fate(0))
                with pytest.raises(PowerCut):
                    await digest_of(services, transport, dying).send_due()
                assert await digest_of(services, transport).send_due()
        finally:
            await transport.close()
        assert len({each.message_id for each in server.accepted()}) == 1


async def test_users_get_it_about_the_lists_that_they_may_view(
    services: Services, tmp_path: Path
) -> None:
    await filled(services)
    await services.lists.create("shop", "Shop", "shop@example.com")
    await services.subscriptions.add("shop", "u9@example.com", verified=True)
    await services.movements.count((await services.lists.names())[1])
    for name, role in (
        ("ann", Role.ADMINISTRATOR),  # gets it once, at the address of the setting
        ("bob", Role.VIEWER),
        ("cleo", Role.MEMBER),
        ("dan", Role.MEMBER),  # may view no list
        ("eve", Role.VIEWER),  # does not want it
    ):
        user = await services.users.create(f"{name}@example.com", "correct horse battery", role)
        await services.users.choose_digest(user.email, name != "eve")
        if name == "cleo":
            shop = (await services.lists.names())[1]
            await services.list_grants.set(user.principal, shop, frozenset({ListRight.VIEW}))
    with running_recording_smtp() as server:
        transport = open_transport(server.url, folder=tmp_path)
        try:
            with clock.replaced_by(SetClock(next_monday(8))):
                assert await digest_of(services, transport).send_due()
                assert not await digest_of(services, transport).send_due()
        finally:
            await transport.close()
        mails = {each.recipients[0]: each.content.decode() for each in server.accepted()}
    assert sorted(mails) == ["ann@example.com", "bob@example.com", "cleo@example.com"]
    for who, joined, stops in (("ann", 5, False), ("bob", 5, True), ("cleo", 1, True)):
        text = mails[f"{who}@example.com"].replace("=\r\n", "")
        assert f"{joined} joined" in text, who
        assert ("accepted" in text) == (who != "cleo"), who
        assert ("/account" in text) == stops, who
