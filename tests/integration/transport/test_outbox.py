"""The outbox keeps what would have been sent, and nothing twice."""

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.domain.errors import Invalid, NoSuch
from postroom.mail.mailing import Recipient
from postroom.transport.contract import FaultScope, ResultKind, TransportError
from postroom.transport.outbox_transport import OutboxTransport
from tests.services.plain_mailing import Notes, PlainMailing, kinds, many, recipients

pytestmark = pytest.mark.timeout(60)


class Later(PlainMailing):
    def mail(self, recipient: Recipient) -> bytes:
        return super().mail(recipient).replace(b"15 Nov 2026", b"16 Nov 2026")

    def message_id(self, recipient: Recipient) -> str:
        return f"<later.{recipient.guid}@postroom.test>"


@pytest.fixture
def outbox(tmp_path: Path) -> OutboxTransport:
    return OutboxTransport(tmp_path / "outbox")


async def test_each_mail_is_a_file(outbox: OutboxTransport) -> None:
    mailing, notes, people = PlainMailing(), Notes(), many(250)

    results = await outbox.send(mailing, people, notes)

    assert set(kinds(results)) == {ResultKind.ACCEPTED}
    assert notes.most_under_way == 1
    assert [notes.settled_as[position] for position in range(250)] == results
    [found] = await outbox.mails(recipient="user7@example.com")
    assert found.recipient == "user7@example.com"
    assert found.date == datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert await outbox.read(found.name) == mailing.mail(people[7])


async def test_the_same_email_again_replaces_itself(
    outbox: OutboxTransport, tmp_path: Path
) -> None:
    await outbox.send(PlainMailing(), many(3), Notes())
    await OutboxTransport(tmp_path / "outbox").send(PlainMailing(), many(3), Notes())

    assert len(os.listdir(tmp_path / "outbox")) == 3


async def test_the_newest_come_first(outbox: OutboxTransport) -> None:
    await outbox.send(Later(), recipients("new"), Notes())
    await outbox.send(PlainMailing(), recipients("a", "b", "c"), Notes())

    first = await outbox.mails(limit=2)
    second = await outbox.mails(limit=2, after=first[-1].name)

    assert [each.recipient for each in first + second] == [
        "new@example.com",
        "c@example.com",
        "b@example.com",
        "a@example.com",
    ]
    assert await outbox.mails(after=second[-1].name) == []


@pytest.mark.parametrize(
    "address", ["a/b@example.com", "jürgen@bücher.example", "a-b@example.com", "x" * 64 + "@e.com"]
)
async def test_any_address_can_be_found(outbox: OutboxTransport, address: str) -> None:
    await outbox.send(PlainMailing(), recipients("b@example.com", address), Notes())

    [found] = await outbox.mails(recipient=address)

    assert found.recipient == address
    assert address.encode() in await outbox.read(found.name)
    assert [each.recipient for each in await outbox.mails(recipient="b@example.com")] == [
        "b@example.com"
    ]


async def test_a_very_long_address_has_a_name_too(outbox: OutboxTransport) -> None:
    address = "ü" * 60 + "@" + "ü" * 60 + ".example"

    results = await outbox.send(
        PlainMailing(), [Recipient(Address(address), SubscriberGuid("g"))], Notes()
    )

    assert kinds(results) == [ResultKind.ACCEPTED]
    assert len(await outbox.mails()) == 1


async def test_a_mail_without_a_date_is_kept(outbox: OutboxTransport) -> None:
    class Undated(PlainMailing):
        def mail(self, recipient: Recipient) -> bytes:
            return b"Subject: x\r\n\r\nDate: Sun, 15 Nov 2026 08:00:00 +0000\r\n"

    await outbox.send(Undated(), many(1), Notes())

    [found] = await outbox.mails()
    assert found.date.year == 1970


@pytest.mark.parametrize("name", ["", "../secret", "/etc/passwd", ".1.0.tmp", "a.eml"])
async def test_only_mails_are_read(outbox: OutboxTransport, name: str) -> None:
    with pytest.raises(Invalid):
        await outbox.read(name)


async def test_a_missing_email(outbox: OutboxTransport) -> None:
    with pytest.raises(NoSuch):
        await outbox.read("20261115T080000Z-a@example.com-0123456789abcdef.eml")
    assert await outbox.mails() == []


async def test_what_a_killed_process_left_is_removed_and_never_shown(
    outbox: OutboxTransport, tmp_path: Path
) -> None:
    folder = tmp_path / "outbox"
    folder.mkdir()
    for name, age in ((".1.0.tmp", 7200), (".1.1.tmp", 0)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - age,) * 2)

    await outbox.send(PlainMailing(), many(1), Notes())

    assert len(await outbox.mails()) == 1
    assert not (folder / ".1.0.tmp").exists()
    assert (folder / ".1.1.tmp").exists()


async def test_a_folder_that_cannot_be_written_holds_everything(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("a file, not a folder")
    outbox = OutboxTransport(tmp_path / "outbox")

    for result in await outbox.send(PlainMailing(), many(2), Notes()):
        assert (result.kind, result.scope) == (ResultKind.HELD, FaultScope.ACCOUNT)
        assert result.reason == "The outbox folder cannot be written to"
    with pytest.raises(TransportError, match="cannot be written"):
        await outbox.check()


async def test_check_says_where_mails_are_kept(outbox: OutboxTransport, tmp_path: Path) -> None:
    assert str(tmp_path / "outbox") in await outbox.check()
    assert os.listdir(tmp_path / "outbox") == []


async def test_thousands_of_emails_are_quick(outbox: OutboxTransport) -> None:
    started = time.monotonic()

    await asyncio.gather(
        *(
            outbox.send(PlainMailing(2000), recipients(*(f"{b}.{n}" for n in range(100))), Notes())
            for b in range(30)
        )
    )

    assert time.monotonic() - started < 20
    assert len(await outbox.mails(limit=20_000)) == 3_000
    await outbox.close()
