"""What a real Postfix refuses, and whose fault that is."""

from collections.abc import Iterator

import pytest

from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.servers import Timeouts, parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, recipients
from tests.services.mail.postfix import Postfix, running_postfix

pytestmark = pytest.mark.timeout(60)

ACCEPTED, REFUSED, HELD = ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.HELD


@pytest.fixture(scope="module")
def postfix() -> Iterator[Postfix]:
    with running_postfix(size_limit=20_000, rejected_subject="Forbidden") as started:
        yield started


async def send(url: str, mailing: PlainMailing, *names: str) -> list[Result]:
    transport = SmtpTransport(parse_servers(url), connections=4, timeouts=Timeouts(quit=0.5))
    try:
        return await transport.send(mailing, recipients(*names), Notes())
    finally:
        await transport.close()


async def test_the_submission_port_without_a_login_refuses_nobody(postfix: Postfix) -> None:
    names = [f"user{n}@elsewhere.example" for n in range(500)]

    results = await send(postfix.submission_url, PlainMailing(), *names)

    assert {(each.kind, each.scope) for each in results} == {(HELD, FaultScope.ACCOUNT)}
    assert "Client host rejected: Access denied" in results[0].reply
    assert results[0].reason == "The mail server does not accept mail from this computer"


async def test_a_server_that_does_not_relay_for_us_refuses_nobody(postfix: Postfix) -> None:
    names = [f"user{n}@elsewhere.example" for n in range(100)]

    results = await send(postfix.url, PlainMailing(), *names)

    assert {(each.kind, each.scope) for each in results} == {(HELD, FaultScope.ACCOUNT)}
    assert "Relay access denied" in results[0].reply


async def test_an_unknown_user_is_refused_and_others_are_taken(postfix: Postfix) -> None:
    results = await send(
        postfix.url,
        PlainMailing(),
        *("known@local.example", "unknown@local.example", "known@local.example"),
    )

    assert kinds(results) == [ACCEPTED, REFUSED, ACCEPTED]
    assert results[1].reason
    assert not results[1].is_unknown_refusal


async def test_content_that_is_rejected_holds_the_message(postfix: Postfix) -> None:
    mailing = PlainMailing()
    mailing.subject = "Forbidden"

    results = await send(postfix.url, mailing, *["known@local.example"] * 3)

    assert {(each.kind, each.scope) for each in results} == {(HELD, FaultScope.MESSAGE)}
    assert "content" in results[0].reason


async def test_a_message_that_is_too_large_is_held(postfix: Postfix) -> None:
    results = await send(postfix.url, PlainMailing(50_000), *["known@local.example"] * 3)

    assert {(each.kind, each.scope) for each in results} == {(HELD, FaultScope.MESSAGE)}
    assert "large" in results[0].reason
