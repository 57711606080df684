"""Bounces are fetched from a mailbox: stored first, then put away, and never lost."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme

from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE, BOUNCES
from postroom.inbound import mailbox_connections
from postroom.inbound.mailbox import MailboxReader
from postroom.inbound.mailbox_connections import MailboxError, parse_mailbox_url
from postroom.storage import Store, StoreError
from postroom.wiring import Services
from tests.services.mail.dsn_mails import dsn
from tests.services.mail.mailbox_server import PASSWORD, USER, Mailbox, serving


@pytest.fixture
def engine() -> str:
    return "sqlite"


def reader(services: Services, protocol: str, port: int, password: str = PASSWORD) -> MailboxReader:
    login = f"{quote(USER, safe='')}:{quote(password, safe='')}"
    url = parse_mailbox_url(f"{protocol}://{login}@127.0.0.1:{port}/INBOX?processed=Done%20mail")
    return MailboxReader(services.store, services.bounce_intake, services.events, url)


async def stored(store: Store) -> list[bytes]:
    items = await store.queue(BOUNCE_QUEUE).peek(32)
    return [await store.container(BOUNCES).read(each.body) for each in items]


@pytest.mark.parametrize(
    "capabilities", ["IMAP4rev1 UIDPLUS MOVE", "IMAP4rev1 UIDPLUS", "IMAP4rev1"]
)
async def test_imap_moves_what_is_stored(services: Services, capabilities: str) -> None:
    mailbox = Mailbox(capabilities)
    mailbox.add(dsn(identity="1"), dsn(identity="2"))
    async with serving(mailbox, "imap") as port:
        assert await reader(services, "imap", port).fetch() == 2
        assert await reader(services, "imap", port).fetch() == 0
    assert len(await stored(services.store)) == 2
    assert len(mailbox.folders["Done mail"]) == 2


async def test_imap_expunges_if_the_server_offers_it_only_after_the_login(
    services: Services,
) -> None:
    mailbox = Mailbox("IMAP4rev1 UIDPLUS")
    mailbox.add(dsn())
    async with serving(mailbox, "imap") as port:
        assert await reader(services, "imap", port).fetch() == 1
    assert "EXPUNGE" in mailbox.commands
    assert mailbox.folders["INBOX"] == {}


@pytest.mark.parametrize(("protocol", "extension"), [("imap", "STARTTLS"), ("pop3", "STLS")])
async def test_a_password_goes_to_another_machine_only_over_tls(
    services: Services,
    protocol: str,
    extension: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailbox_connections, "_is_loopback", lambda _: False)
    plain = Mailbox()
    async with serving(plain, protocol) as port:
        with pytest.raises(MailboxError, match=rf"does not offer {extension}. Use {protocol}s://"):
            await reader(services, protocol, port).fetch()
    assert not {"LOGIN", "USER", "PASS"} & set(plain.commands)
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    secured = Mailbox(tls=context)
    secured.add(dsn())
    async with serving(secured, protocol) as port:
        with pytest.raises(MailboxError, match="CERTIFICATE_VERIFY_FAILED"):
            await reader(services, protocol, port).fetch()
        assert not {"LOGIN", "USER", "PASS"} & set(secured.commands)
        trusted = tmp_path / "trusted.pem"
        authority.cert_pem.write_to_path(str(trusted))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert await reader(services, protocol, port).fetch() == 1
    begins = secured.commands.index(extension, 2)
    assert secured.commands.index({"imap": "LOGIN", "pop3": "USER"}[protocol]) > begins


async def test_pop3_deletes_what_is_stored(services: Services) -> None:
    mailbox = Mailbox()
    mailbox.add(dsn(returned="Subject: x\n.dotted"))
    async with serving(mailbox, "pop3") as port:
        assert await reader(services, "pop3", port).fetch() == 1
    [content] = await stored(services.store)
    assert b"\r\n.dotted\r\n" in content
    assert mailbox.folders["INBOX"] == {}


@pytest.mark.parametrize(
    ("protocol", "command"), [("imap", "FETCH"), ("imap", "MOVE"), ("pop3", "DELE")]
)
async def test_a_broken_connection_loses_nothing(
    services: Services, protocol: str, command: str
) -> None:
    mailbox = Mailbox(dies_after=command)
    mailbox.add(dsn(identity="1"), dsn(identity="2"))
    async with serving(mailbox, protocol) as port:
        with pytest.raises(MailboxError):
            await reader(services, protocol, port).fetch()
        await reader(services, protocol, port).fetch()
    contents = await stored(services.store)
    assert {b"<1@mx.example>" in each for each in contents} == {True, False}
    assert mailbox.folders["INBOX"] == {}


@pytest.mark.parametrize(
    ("protocol", "hangs_up"), [("imap", False), ("imap", True), ("pop3", False)]
)
async def test_an_email_that_the_server_cannot_read_stays_and_blocks_no_others(
    services: Services, protocol: str, hangs_up: bool
) -> None:
    mailbox = Mailbox(damaged={1}, hangs_up=hangs_up)
    mailbox.add(dsn(identity="1"), dsn(identity="2"), dsn(identity="3"))
    async with serving(mailbox, protocol) as port:
        for _ in range(2):
            with pytest.raises(MailboxError, match=r"1 email in .* cannot be fetched"):
                await reader(services, protocol, port).fetch()
    assert len(await stored(services.store)) == 2
    assert list(mailbox.folders["INBOX"]) == [1]


async def test_nothing_is_marked_processed_if_it_cannot_be_stored(services: Services) -> None:
    mailbox = Mailbox()
    mailbox.add(dsn())
    await services.store.close()
    async with serving(mailbox, "imap") as port:
        with pytest.raises(StoreError):
            await reader(services, "imap", port).fetch()
    assert len(mailbox.folders["INBOX"]) == 1
    assert "MOVE" not in mailbox.commands


async def test_a_wrong_password_is_named(services: Services) -> None:
    for protocol in ("imap", "pop3"):
        async with serving(Mailbox(), protocol) as port:
            with pytest.raises(MailboxError, match="wrong password"):
                await reader(services, protocol, port, "wrong").fetch()


@pytest.mark.parametrize("url", ["http://u@x", "imaps://mail.example.com", "imaps://"])
def test_a_url_without_host_or_user_is_refused(url: str) -> None:
    with pytest.raises(MailboxError, match="must look like imaps://"):
        parse_mailbox_url(url)
