"""Sending by SendGrid, whose API is played by a real HTTP server on loopback."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from postroom.transport.contract import FaultScope, ResultKind, TransportError
from postroom.transport.http.http_transport import HttpTransport
from postroom.transport.sendgrid import SendgridProvider
from tests.services.mail.plain_mailing import (
    Notes,
    PlainMailing,
    TemplatedMailing,
    kinds,
    many,
    recipients,
)
from tests.services.mail.sendgrid_api import SendgridApi, running_sendgrid_api
from tests.services.waiting import LOOPBACK, free_ports, wait_until

pytestmark = pytest.mark.timeout(60)

ACCEPTED, REFUSED = ResultKind.ACCEPTED, ResultKind.REFUSED
HELD, IN_DOUBT = ResultKind.HELD, ResultKind.IN_DOUBT


@asynccontextmanager
async def running_api(**options: Any) -> AsyncIterator[tuple[SendgridApi, HttpTransport]]:
    async with running_sendgrid_api() as api:
        transport = HttpTransport(
            SendgridProvider("SG.key"), base_url=f"http://{api.host}", **options
        )
        try:
            yield api, transport
        finally:
            await transport.close()


def addresses(call: dict[str, Any]) -> list[str]:
    return [each["to"][0]["email"] for each in call["personalizations"]]


async def test_one_call_carries_a_thousand_recipients() -> None:
    async with running_api() as (api, transport):
        notes = Notes()
        results = await transport.send(TemplatedMailing(), many(1200), notes)

        assert set(kinds(results)) == {ACCEPTED}
        assert sorted(len(addresses(call)) for call in api.calls) == [200, 1000]
        assert sorted(notes.handed_over) == list(range(1200))
        assert set(api.keys) == {"Bearer SG.key"}


async def test_a_call_says_all_that_is_needed() -> None:
    async with running_api() as (api, transport):
        await transport.send(TemplatedMailing(), recipients("a"), Notes())

        [call] = api.calls
        assert call["from"] == {"email": "news@example.com", "name": "The News"}
        assert call["subject"] == "Hello"
        assert [each["type"] for each in call["content"]] == ["text/plain", "text/html"]
        assert call["headers"] == {"List-Id": "<news.example.com>"}
        assert call["personalizations"] == [
            {
                "to": [{"email": "a@example.com"}],
                "substitutions": {
                    "%text-email%": "a@example.com",
                    "%html-email%": "a@example.com",
                },
                "headers": {
                    "List-Unsubscribe": "<https://example.com/u?id=a>",
                    "Message-ID": "<a@postroom.test>",
                },
                "custom_args": {"postroom_message_id": "<a@postroom.test>"},
            }
        ]


async def test_a_bad_recipient_is_refused_and_the_others_are_sent() -> None:
    async with running_api() as (api, transport):

        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            errors = [
                {
                    "message": "Does not contain a valid address.",
                    "field": f"personalizations.{n}.to",
                }
                for n, address in enumerate(addresses(call))
                if address.startswith("bad")
            ]
            if errors:
                return web.json_response({"errors": errors}, status=400)
            return web.Response(status=202)

        api.reply = reply
        notes = Notes()
        results = await transport.send(
            TemplatedMailing(), recipients("a", "bad1", "b", "bad2"), notes
        )

        assert kinds(results) == [ACCEPTED, REFUSED, ACCEPTED, REFUSED]
        assert "Does not contain a valid address" in results[1].reply
        assert addresses(api.calls[-1]) == ["a@example.com", "b@example.com"]


async def test_an_address_that_cannot_be_sent_to_is_refused_at_once() -> None:
    async with running_api() as (_, transport):
        results = await transport.send(
            TemplatedMailing(), recipients("a", "b<c@example.com"), Notes()
        )

        assert kinds(results) == [ACCEPTED, REFUSED]


@pytest.mark.parametrize(
    ("status", "field", "scope", "reason"),
    [
        (400, "from.email", FaultScope.ACCOUNT, "From address"),
        (400, "", FaultScope.MESSAGE, "rejects"),
        (400, "content.0.value", FaultScope.MESSAGE, "rejects"),
        (400, "personalizations.99.to", FaultScope.MESSAGE, "rejects"),
        (400, "personalizations.0.headers", FaultScope.MESSAGE, "rejects"),
        (400, "personalizations.1.substitutions", FaultScope.MESSAGE, "rejects"),
        (400, "personalizations.0.topic", FaultScope.MESSAGE, "rejects"),
        (400, "personalizations.0", FaultScope.MESSAGE, "rejects"),
        (401, "", FaultScope.ACCOUNT, "API key"),
        (403, "from", FaultScope.ACCOUNT, "From address"),
        (403, "", FaultScope.ACCOUNT, "API key"),
        (404, "", FaultScope.ACCOUNT, "unexpected"),
        (413, "", FaultScope.MESSAGE, "too large"),
        (429, "", FaultScope.ACCOUNT, "limiting"),
        (500, "", FaultScope.ACCOUNT, "temporary"),
        (503, "", FaultScope.ACCOUNT, "temporary"),
    ],
)
async def test_a_failed_call_concerns_all_of_its_emails(
    status: int, field: str, scope: FaultScope, reason: str
) -> None:
    async with running_api() as (api, transport):
        api.answers(status, (field, "that is why"))
        results = await transport.send(TemplatedMailing(), recipients("a", "b"), Notes())

        for each in results:
            assert (each.kind, each.scope) == (HELD, scope)
            assert "that is why" in each.reply
            assert str(status) in each.reply
            assert reason in each.reason


async def test_credits_that_are_used_up_are_a_limit_of_the_account() -> None:
    async with running_api() as (api, transport):
        api.answers(401, ("", "Maximum credits exceeded"))
        [result] = await transport.send(TemplatedMailing(), recipients("a"), Notes())

        assert (result.kind, result.scope) == (HELD, FaultScope.ACCOUNT)
        assert "limit" in result.reason


async def test_our_own_mistake_next_to_a_bad_address_refuses_only_the_address() -> None:
    async with running_api() as (api, transport):

        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            errors = [{"message": "odd header", "field": "personalizations.0.headers"}]
            errors += [
                {"message": "bad", "field": f"personalizations.{n}.to.0.email"}
                for n, address in enumerate(addresses(call))
                if address.startswith("bad")
            ]
            return web.json_response({"errors": errors}, status=400)

        api.reply = reply
        results = await transport.send(TemplatedMailing(), recipients("a", "bad", "b"), Notes())

        assert kinds(results) == [HELD, REFUSED, HELD]
        assert results[1].reason
        assert not results[1].is_unknown_refusal


async def test_overlapping_sends_of_a_mailing_share_a_call() -> None:
    async with running_api() as (api, transport):
        mailing, other = TemplatedMailing(), TemplatedMailing()
        pages = [recipients(*(f"p{page}.{n}" for n in range(100))) for page in range(12)]
        watchers = [Notes() for _ in pages]

        answers = await asyncio.gather(
            *(transport.send(mailing, *each) for each in zip(pages, watchers, strict=True)),
            transport.send(other, recipients("another"), Notes()),
        )

        assert all(set(kinds(results)) == {ACCEPTED} for results in answers)
        assert sorted(len(addresses(call)) for call in api.calls) == [1, 200, 1000]
        # Each batch was told about its own emails, and about all of them.
        for page, notes in zip(pages, watchers, strict=True):
            assert sorted(notes.handed_over) == list(range(100))
            assert set(notes.settled_as) == set(range(100))
            sent = {a for call in api.calls for a in addresses(call)}
            assert {each.address for each in page} <= sent


async def test_a_bad_address_in_a_shared_call_concerns_its_own_batch() -> None:
    async with running_api() as (api, transport):

        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            found = [n for n, a in enumerate(addresses(call)) if a.startswith("bad")]
            errors = [{"message": "bad", "field": f"personalizations.{n}.to"} for n in found]
            return web.json_response({"errors": errors}, status=400 if errors else 202)

        api.reply = reply
        mailing = TemplatedMailing()
        first, second = await asyncio.gather(
            transport.send(mailing, recipients("a", "b"), Notes()),
            transport.send(mailing, recipients("c", "bad", "d"), Notes()),
        )

        assert kinds(first) == [ACCEPTED] * 2
        assert kinds(second) == [ACCEPTED, REFUSED, ACCEPTED]
        assert len(api.calls) == 2


async def test_a_cancelled_batch_is_not_sent_with_the_others() -> None:
    async with running_api() as (api, transport):
        mailing, notes = TemplatedMailing(), Notes()
        cancelled = asyncio.create_task(transport.send(mailing, recipients("a"), notes))
        kept = asyncio.create_task(transport.send(mailing, recipients("b"), Notes()))
        await asyncio.sleep(0)
        cancelled.cancel()

        assert kinds(await kept) == [ACCEPTED]
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert [addresses(call) for call in api.calls] == [["b@example.com"]]
        assert notes.handed_over == []


async def test_a_shared_call_without_a_response_leaves_every_batch_in_doubt() -> None:
    async with running_api(answer_seconds=0.3) as (api, transport):

        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            await asyncio.sleep(5)
            return web.Response()

        api.reply = reply
        mailing, watchers = TemplatedMailing(), [Notes(), Notes()]
        answers = await asyncio.gather(
            *(transport.send(mailing, many(3), notes) for notes in watchers)
        )

        assert [kinds(each) for each in answers] == [[IN_DOUBT] * 3] * 2
        assert all(notes.handed_over == [0, 1, 2] for notes in watchers)
        assert len(api.calls) == 1


async def test_what_is_too_large_is_split() -> None:
    async with running_api() as (api, transport):

        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            return web.Response(status=413 if len(addresses(call)) > 30 else 202)

        api.reply = reply
        results = await transport.send(TemplatedMailing(), many(100), Notes())

        assert kinds(results) == [ACCEPTED] * 100
        accepted = [call for call in api.calls if len(addresses(call)) <= 30]
        assert sorted(a for call in accepted for a in addresses(call)) == sorted(
            each.address for each in many(100)
        )


async def test_after_a_long_rate_limit_the_next_send_asks_again() -> None:
    """The sender decides when to retry, and holds the emails until then."""
    async with running_api() as (api, transport):
        api.answers(429, ("", "too many"), Retry_After="60")
        await transport.send(TemplatedMailing(), recipients("a"), Notes())
        api.reply = api.accept
        results = await transport.send(TemplatedMailing(), recipients("b"), Notes())

        assert kinds(results) == [ACCEPTED]


async def test_a_short_rate_limit_is_waited_for() -> None:
    async with running_api() as (api, transport):
        api.answers(429, ("", "too many"), Retry_After="1")
        await transport.send(TemplatedMailing(), recipients("a"), Notes())
        api.reply = api.accept
        started = time.monotonic()
        results = await transport.send(TemplatedMailing(), recipients("b"), Notes())

        assert kinds(results) == [ACCEPTED]
        assert time.monotonic() - started > 0.8


async def test_an_unreachable_server_holds_emails() -> None:
    [port] = free_ports(1)
    transport = HttpTransport(SendgridProvider("SG.key"), base_url=f"http://{LOOPBACK}:{port}")
    notes = Notes()

    results = await transport.send(TemplatedMailing(), recipients("a"), notes)

    assert kinds(results) == [HELD]
    assert (results[0].scope, results[0].reason) == (
        FaultScope.ACCOUNT,
        "SendGrid cannot be reached",
    )
    assert notes.handed_over == []
    with pytest.raises(TransportError, match="cannot be reached"):
        await transport.check()
    await transport.close()


@pytest.mark.parametrize("drops", [False, True], ids=["too slow", "hangs up"])
async def test_a_call_without_a_response_leaves_its_emails_in_doubt(drops: bool) -> None:
    async with running_api(answer_seconds=0.5) as (api, transport):

        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            if drops and api.request is not None and api.request.transport is not None:
                api.request.transport.abort()
            else:
                await asyncio.sleep(5)
            return web.Response()

        api.reply = reply
        notes = Notes()
        results = await transport.send(TemplatedMailing(), recipients("a", "b"), notes)

        assert kinds(results) == [IN_DOUBT, IN_DOUBT]
        assert notes.handed_over == [0, 1]


async def until_handed_over(notes: Notes) -> None:
    await asyncio.to_thread(
        wait_until, lambda: bool(notes.handed_over), seconds=30, what="a call under way"
    )


async def test_a_cancelled_call_waits_for_its_reply() -> None:
    async with running_api() as (api, transport):

        async def slow(call: dict[str, Any]) -> web.StreamResponse:
            await asyncio.sleep(0.5)
            return web.Response(status=202)

        api.reply = slow
        notes = Notes()
        sending = asyncio.create_task(transport.send(TemplatedMailing(), recipients("a"), notes))
        await until_handed_over(notes)
        sending.cancel()
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert notes.settled_as[0].kind is ACCEPTED


async def test_a_cancelled_call_does_not_wait_forever() -> None:
    async with running_api(grace=0.2) as (api, transport):

        async def slow(call: dict[str, Any]) -> web.StreamResponse:
            await asyncio.sleep(10)
            return web.Response(status=202)

        api.reply = slow
        notes = Notes()
        sending = asyncio.create_task(transport.send(TemplatedMailing(), recipients("a"), notes))
        await until_handed_over(notes)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert notes.settled_as[0].kind is IN_DOUBT


async def test_closing_leaves_nobody_waiting() -> None:
    async with running_api(connections=1) as (api, transport):

        async def slow(call: dict[str, Any]) -> web.StreamResponse:
            await asyncio.sleep(10)
            return web.Response(status=202)

        api.reply = slow
        notes = Notes()
        under_way = asyncio.create_task(transport.send(TemplatedMailing(), recipients("a"), notes))
        await until_handed_over(notes)
        waits = asyncio.create_task(transport.send(TemplatedMailing(), recipients("b"), Notes()))
        await asyncio.sleep(0.05)

        await transport.close()

        assert kinds(await under_way) == [IN_DOUBT]
        assert kinds(await waits) == [ResultKind.DEFERRED]


async def test_a_mailing_without_templates_is_held_with_the_reason() -> None:
    async with running_api() as (_, transport):
        results = await transport.send(PlainMailing(), recipients("a"), Notes())

        assert kinds(results) == [HELD]
        assert "SendGrid" in results[0].reply


async def test_check_says_whether_the_key_may_send() -> None:
    async with running_api() as (api, transport):
        assert "may send" in await transport.check()
        assert "SG.key" not in repr(transport)

        api.scopes = web.json_response({"scopes": ["stats.read"]})
        with pytest.raises(TransportError, match="Mail Send"):
            await transport.check()

        api.scopes = web.json_response({"errors": [{"message": "bad key"}]}, status=401)
        with pytest.raises(TransportError, match="rejects the API key: 401 bad key"):
            await transport.check()
