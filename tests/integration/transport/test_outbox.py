"""The outbox keeps what would have been sent, and nothing twice."""

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import Invalid, NoSuch
from postroom.mail.mailing import Recipient
from postroom.transport import outbox_folder
from postroom.transport.contract import FaultScope, ResultKind, TransportError
from postroom.transport.outbox_folder import OutboxFolder
from postroom.transport.outbox_transport import OutboxTransport
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, many, recipients

pytestmark = pytest.mark.timeout(60)


class Later(PlainMailing):
    def mail(self, recipient: Recipient) -> bytes:
        return super().mail(recipient).replace(b"15 Nov 2026", b"16 Nov 2026")

    def message_id(self, recipient: Recipient) -> str:
        return f"<later.{recipient.guid}@postroom.test>"


@pytest.fixture
def outbox(tmp_path: Path) -> OutboxTransport:
    return OutboxTransport(tmp_path / "outbox")


@pytest.fixture
def folder(tmp_path: Path) -> OutboxFolder:
    return OutboxFolder(tmp_path / "outbox")


async def test_each_email_is_a_file(outbox: OutboxTransport, folder: OutboxFolder) -> None:
    mailing, notes, people = PlainMailing(), Notes(), many(250)

    results = await outbox.send(mailing, people, notes)

    assert set(kinds(results)) == {ResultKind.ACCEPTED}
    assert notes.most_under_way == 1
    assert [notes.settled_as[position] for position in range(250)] == results
    [found] = (await folder.search("user7@example.com")).mails
    assert found.recipient == "user7@example.com"
    assert found.date == datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert await folder.read(found.name) == mailing.mail(people[7])


async def test_the_same_email_again_replaces_itself(
    outbox: OutboxTransport, tmp_path: Path
) -> None:
    await outbox.send(PlainMailing(), many(3), Notes())
    await OutboxTransport(tmp_path / "outbox").send(PlainMailing(), many(3), Notes())

    assert len(os.listdir(tmp_path / "outbox")) == 3


async def test_the_newest_come_first(outbox: OutboxTransport, folder: OutboxFolder) -> None:
    await outbox.send(Later(), recipients("new"), Notes())
    await outbox.send(PlainMailing(), recipients("a", "b", "c"), Notes())

    first = (await folder.search(limit=2)).mails
    second = (await folder.search(limit=2, after=first[-1].name)).mails

    assert [each.recipient for each in first + second] == [
        "new@example.com",
        "c@example.com",
        "b@example.com",
        "a@example.com",
    ]
    assert (await folder.search(after=second[-1].name)).mails == []


@pytest.mark.parametrize(
    "address", ["a/b@example.com", "jürgen@bücher.example", "a-b@example.com", "x" * 64 + "@e.com"]
)
async def test_any_address_can_be_found(
    outbox: OutboxTransport, folder: OutboxFolder, address: str
) -> None:
    await outbox.send(PlainMailing(), recipients("b@example.com", address), Notes())

    [found] = (await folder.search(address)).mails

    assert found.recipient == address
    assert address.encode() in await folder.read(found.name)


async def test_a_very_long_address_has_a_name_too(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    address = "ü" * 60 + "@" + "ü" * 60 + ".example"

    results = await outbox.send(
        PlainMailing(), [Recipient(Address(address), SubscriberGuid("g"))], Notes()
    )

    assert kinds(results) == [ResultKind.ACCEPTED]
    assert len((await folder.search()).mails) == 1


async def test_an_email_without_a_date_is_kept(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    class Undated(PlainMailing):
        def mail(self, recipient: Recipient) -> bytes:
            return b"Subject: x\r\n\r\nDate: Sun, 15 Nov 2026 08:00:00 +0000\r\n"

    await outbox.send(Undated(), many(1), Notes())

    [found] = (await folder.search()).mails
    assert found.date.year == 1970


@pytest.mark.parametrize("name", ["", "../secret", "/etc/passwd", ".1.0.tmp", "a.eml"])
async def test_only_emails_are_read(
    outbox: OutboxTransport, folder: OutboxFolder, name: str
) -> None:
    with pytest.raises(Invalid):
        await folder.read(name)


async def test_a_missing_email(outbox: OutboxTransport, folder: OutboxFolder) -> None:
    with pytest.raises(NoSuch):
        await folder.read("20261115T080000Z-a@example.com-0123456789abcdef.eml")
    assert (await folder.search()).mails == []


async def test_what_a_killed_process_left_is_removed_and_never_shown(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    folder.path.mkdir()
    for name, age in ((".1.0.tmp", 7200), (".1.1.tmp", 0)):
        (folder.path / name).write_bytes(b"x")
        os.utime(folder.path / name, (time.time() - age,) * 2)

    await outbox.send(PlainMailing(), many(1), Notes())

    assert len((await folder.search()).mails) == 1
    assert not (folder.path / ".1.0.tmp").exists()
    assert (folder.path / ".1.1.tmp").exists()


async def test_a_folder_that_cannot_be_written_holds_everything(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("a file, not a folder")
    outbox = OutboxTransport(tmp_path / "outbox")

    for result in await outbox.send(PlainMailing(), many(2), Notes()):
        assert (result.kind, result.scope) == (ResultKind.HELD, FaultScope.ACCOUNT)
        assert result.reason == "The outbox folder cannot be written to"
    with pytest.raises(TransportError, match="cannot be written"):
        await outbox.check()


async def test_check_says_where_emails_are_kept(outbox: OutboxTransport, tmp_path: Path) -> None:
    assert str(tmp_path / "outbox") in await outbox.check()
    assert os.listdir(tmp_path / "outbox") == []


async def test_thousands_of_emails_are_quick(outbox: OutboxTransport, folder: OutboxFolder) -> None:
    started = time.monotonic()

    await asyncio.gather(
        *(
            outbox.send(PlainMailing(2000), recipients(*(f"{b}.{n}" for n in range(100))), Notes())
            for b in range(30)
        )
    )

    assert time.monotonic() - started < 20
    assert len((await folder.search(limit=20_000)).mails) == 3_000
    await outbox.close()


class Titled(PlainMailing):
    """Emails with this subject."""

    def __init__(self, subject: str) -> None:
        super().__init__()
        self._subject = subject

    def mail(self, recipient: Recipient) -> bytes:
        return f"Subject: {self._subject}\r\n\r\nSubject: not this\r\n".encode()

    def message_id(self, recipient: Recipient) -> str:
        return f"<{self._subject}.{recipient.guid}@postroom.test>"


async def test_a_search_finds_parts_of_addresses_and_subjects(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    await outbox.send(Titled("Advent market"), recipients("ann"), Notes())
    await outbox.send(Titled("=?utf-8?q?Gr=C3=BC=C3=9Fe?="), recipients("bob"), Notes())
    await outbox.send(Titled("a\r\n folded one"), recipients("carol.market"), Notes())

    for text, found in {
        "MARKET": {"ann@example.com", "carol.market@example.com"},
        "grüsse": {"bob@example.com"},
        "FOLDED ONE": {"carol.market@example.com"},
        "not this": set[str](),
        "@example": {"ann@example.com", "bob@example.com", "carol.market@example.com"},
    }.items():
        results = await folder.search(text)
        assert {each.recipient for each in results.mails} == found, text
        assert results.next == ""


async def test_a_long_search_stops_and_continues(
    outbox: OutboxTransport, folder: OutboxFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_folder, "_OPENED_AT_ONCE", 4)
    await outbox.send(Titled("Old"), recipients("a"), Notes())
    await outbox.send(Later(), many(9), Notes())

    found, after, searches = list[str](), "", 0
    while searches < 10:
        results = await folder.search("old", after=after)
        found += [each.recipient for each in results.mails]
        searches, after = searches + 1, results.next
        if not after:
            break

    assert found == ["a@example.com"]
    assert searches == 3


async def test_deleted_emails_can_be_restored(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    await outbox.send(PlainMailing(), many(3), Notes())
    names = [each.name for each in (await folder.search()).mails]

    count, batch = await folder.delete([*names[:2], names[0].replace("user", "nobody")])

    assert count == 2
    assert [each.name for each in (await folder.search()).mails] == names[2:]
    with pytest.raises(NoSuch):
        await folder.read(names[0])
    assert await folder.restore(batch) == 2
    assert [each.name for each in (await folder.search()).mails] == names
    assert await folder.restore(batch) == 0
    for wrong in ("", "..", f"../{batch}", batch.upper() + "/"):
        with pytest.raises(Invalid):
            await folder.restore(wrong)
    for wrong in ("../secret.key", ".deleted", "x.eml"):
        with pytest.raises(Invalid):
            await folder.delete([wrong])


async def test_deleted_emails_are_gone_after_a_while(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    await outbox.send(PlainMailing(), many(2), Notes())
    [one, other] = [each.name for each in (await folder.search()).mails]
    _, batch = await folder.delete([one])
    waiting = folder.path / ".deleted" / batch
    assert waiting.stat().st_mode & 0o077 == 0
    long_ago = time.time() - outbox_folder.UNDO_SECONDS - 1
    os.utime(waiting, (long_ago, long_ago))

    await folder.search()

    assert not waiting.exists()
    assert await folder.restore(batch) == 0
    assert [each.name for each in (await folder.search()).mails] == [other]


async def test_all_emails_are_deleted_for_good(
    outbox: OutboxTransport, folder: OutboxFolder
) -> None:
    await outbox.send(PlainMailing(), many(3), Notes())
    _, batch = await folder.delete([(await folder.search()).mails[0].name])

    assert await folder.delete_all() == 2

    assert (await folder.search()).mails == []
    assert await folder.restore(batch) == 0
    assert await folder.delete_all() == 0
