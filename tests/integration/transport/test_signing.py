"""Emails that are signed on their way to a mail server."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import dkim  # type: ignore[import-untyped]
import pytest

from postroom.encryption import Keyring
from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.signing import SignedMailing, SigningTransport
from postroom.services.messages.domains import dkim_keys
from postroom.services.messages.domains.dkim_keys import SigningKeys
from postroom.storage import open_store
from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.servers import parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from postroom.wiring import Services
from tests.services.mail.plain_mailing import Notes
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.waiting import until
from tests.unit.mail.mailings import mailing, recipient

KEY, OTHER_KEY = b"a secret key of the tests, long enough", b"another secret key, long enough"


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as started:
        yield started


def someone(number: int) -> Recipient:
    guid = f"0f8fad5b-d9cb-469f-a165-{number:012}"
    return recipient(f"user{number}@example.org", guid)


async def sent(
    server: RecordingSmtp, services: Services, message: Mailing, count: int = 25
) -> list[Result]:
    transport = SigningTransport(
        SmtpTransport(parse_servers(f"smtp://127.0.0.1:{server.port}")),
        SigningKeys(services.dkim_keys),
    )
    try:
        recipients = [someone(number) for number in range(count)]
        return await transport.send(message, recipients, Notes())
    finally:
        await transport.close()


async def test_emails_of_a_domain_with_keys_are_signed_with_both(
    server: RecordingSmtp, tmp_path: Path
) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        services = Services(store, Keyring(lambda: [KEY]))
        keys = {}
        for algorithm in ("rsa", "ed25519"):
            made = await services.dkim_keys.create("contoso.example", algorithm)
            await services.dkim_keys.activate("contoso.example", made.selector)
            keys[f"{made.record_name}."] = made.record_value.encode()
        await services.dkim_keys.create("contoso.example", selector="unused")
        results = await sent(server, services, mailing(subject="Grüße"))
        await sent(server, services, mailing(from_address="news@fabrikam.example"), 1)
    assert {each.kind for each in results} == {ResultKind.ACCEPTED}
    received = server.received()
    signed = [each.content for each in received if b"DKIM-Signature" in each.content]
    assert len(signed) == 25
    assert len(received) == 26  # that of the other domain has no signature
    for mail in signed:
        for number in (0, 1):
            answer = dkim.DKIM(mail).verify(
                idx=number, dnsfunc=lambda name, timeout=5: keys[name.decode()]
            )
            assert answer


async def test_another_key_signs_once_it_is_activated(
    server: RecordingSmtp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dkim_keys, "EFFECTIVE_SECONDS", 0.0)
    async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        services = Services(store, Keyring(lambda: [KEY]))
        keys, transport = (
            services.dkim_keys,
            SmtpTransport(parse_servers(f"smtp://127.0.0.1:{server.port}")),
        )
        signing = SigningTransport(transport, SigningKeys(keys))
        message = mailing()
        for number, selector in enumerate(("one", "two")):
            await keys.create("contoso.example", "ed25519", selector)
            await keys.activate("contoso.example", selector)
            await signing.send(message, [someone(number)], Notes())
        await keys.deactivate("contoso.example", "two")
        await signing.send(message, [someone(2)], Notes())
        await signing.close()
        states = {each.selector: each.state for each in await keys.of_domain("contoso.example")}
    assert states == {"one": "retired", "two": "retired"}
    first, second, third = server.received()
    assert b" s=one;" in first.content
    assert b" s=two;" in second.content
    assert b"DKIM-Signature" not in third.content


async def test_nothing_is_sent_without_its_signature(server: RecordingSmtp, tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        keys = Services(store, Keyring(lambda: [KEY])).dkim_keys
        await keys.create("contoso.example", "ed25519", "one")
        await keys.activate("contoso.example", "one")
        row = await store.table("dkimkeys").get("contoso.example", "one")
        assert row is not None
        assert "PRIVATE" not in str(row.properties)
        locked_out = Services(store, Keyring(lambda: [OTHER_KEY]))
        results = await sent(server, locked_out, mailing(), 2)
    assert [(each.kind, each.scope) for each in results] == [
        (ResultKind.HELD, FaultScope.MESSAGE)
    ] * 2
    assert "cannot be decrypted" in results[0].reason
    assert server.received() == []


async def test_two_activations_at_once_leave_one_key_that_signs(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        keys = Services(store, Keyring(lambda: [KEY])).dkim_keys
        names = [f"key{number}" for number in range(4)]
        for name in names:
            await keys.create("contoso.example", "ed25519", name)
        await asyncio.gather(*(keys.activate("contoso.example", name) for name in names))
        found = [each.state for each in await keys.of_domain("contoso.example")]
    assert [each.value for each in found].count("signing") == 1


async def test_a_mailing_is_freed_once_it_is_sent_or_its_send_is_cancelled(
    server: RecordingSmtp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        keys = Services(store, Keyring(lambda: [KEY])).dkim_keys
        await keys.create("contoso.example", "ed25519", "one")
        await keys.activate("contoso.example", "one")
        transport = SmtpTransport(parse_servers(f"smtp://127.0.0.1:{server.port}"))
        signing = SigningTransport(transport, SigningKeys(keys))
        sent_one, cancelled = mailing(), mailing()
        freed = weakref.ref(sent_one), weakref.ref(cancelled)
        await signing.send(sent_one, [someone(1)], Notes())

        begun, go_on = threading.Event(), threading.Event()
        sign, forgotten = SignedMailing.sign, []

        def slow(self: SignedMailing, recipients: Sequence[Recipient]) -> None:
            begun.set()
            go_on.wait(60)
            sign(self, recipients)

        monkeypatch.setattr(SignedMailing, "sign", slow)
        monkeypatch.setattr(SignedMailing, "forget", lambda _, each: forgotten.extend(each))
        sending = asyncio.create_task(signing.send(cancelled, [someone(2)], Notes()))
        await until(begun.is_set, "it is being signed")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        go_on.set()
        assert forgotten == [someone(2)]
        del sent_one, cancelled, sending

        def are_freed() -> bool:
            gc.collect()
            return all(each() is None for each in freed)

        await until(are_freed, "both are freed")
        await signing.close()
