"""Import and export of CSV files: what is on the list afterwards, on SQLite and PostgreSQL."""

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from postroom.domain.errors import Invalid, NoSuch
from postroom.services import entities
from postroom.services.audience.files import import_report, reading_ahead
from postroom.services.audience.files.import_report import ImportReport, RejectedLine
from postroom.storage import KeyRange, Store
from postroom.wiring import Services
from tests.contract.conftest import StoreAddress, address, open_at

__all__ = ["address"]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(address: StoreAddress) -> AsyncIterator[Store]:
    async with await open_at(address) as opened:
        yield opened


@pytest.fixture
async def services(store: Store) -> Services:
    made = Services(store)
    await made.lists.create("news", "The news", "news@contoso.com")
    return made


async def take(services: Services, text: str, *, verified: bool = False) -> ImportReport:
    return await services.imports.import_csv("news", io.BytesIO(text.encode()), verified=verified)


async def exported(services: Services) -> str:
    return "".join([piece async for piece in services.exports.export_csv("news")])


def counts(report: ImportReport) -> tuple[int, int, int, int]:
    return report.added, report.updated, report.unchanged, report.rejected


async def on_list(services: Services) -> dict[str, bool]:
    found = await services.subscriptions.slice("news", limit=1000)
    return {each.address: each.verified for each in found.subscribers}


async def check_rows_agree(store: Store) -> int:
    """Each subscriber has its look-up row, and no look-up row is left alone."""
    emails, guids = {}, {}
    async for entity in store.table(entities.LISTS).scan(KeyRange.only("news")):
        if entity.row.startswith(entities.EMAIL_PREFIX):
            subscriber = entities.subscriber_from(entity)
            emails[subscriber.guid] = subscriber.address
        elif entity.row.startswith(entities.GUID_PREFIX):
            guid = entity.row.removeprefix(entities.GUID_PREFIX)
            guids[guid] = entity.properties["EmailAddress"]
    assert emails == guids
    return len(emails)


async def test_new_addresses_are_added_and_can_use_their_links(
    services: Services, store: Store
) -> None:
    report = await take(services, "email,verified\na@b.org,true\nb@b.org,false\nc@b.org,\n")
    assert counts(report) == (3, 0, 0, 0)
    assert await on_list(services) == {"a@b.org": True, "b@b.org": False, "c@b.org": False}
    assert await check_rows_agree(store) == 3
    subscriber = await services.subscriptions.get("news", "a@b.org")
    assert subscriber.verified_at == subscriber.created_at
    assert await services.subscriptions.unsubscribe("news", subscriber.guid) is not None
    assert "a@b.org" not in await on_list(services)


async def test_the_caller_can_set_verified_for_lines_without_it(services: Services) -> None:
    await take(services, "email,verified\na@b.org,\nb@b.org,no\n", verified=True)
    assert await on_list(services) == {"a@b.org": True, "b@b.org": False}


async def test_an_existing_subscriber_is_updated_and_keeps_the_guid(
    services: Services, store: Store
) -> None:
    before = [
        await services.subscriptions.add("news", f"{name}@b.org", verified=verified)
        for name, verified in (("silent", True), ("raised", False), ("lowered", True))
    ]
    await services.subscriptions.edit("news", "raised@b.org", blocked="bounced")
    report = await take(
        services,
        "email,verified\nsilent@b.org,\nraised@b.org,yes\nlowered@b.org,no\nnew@b.org,yes\n",
        verified=True,
    )
    assert counts(report) == (1, 2, 1, 0)
    assert await on_list(services) == {
        "silent@b.org": True,
        "raised@b.org": True,
        "lowered@b.org": False,
        "new@b.org": True,
    }
    for old in before:
        new = await services.subscriptions.get("news", old.address)
        assert (new.guid, new.created_at) == (old.guid, old.created_at)
    assert (await services.subscriptions.get("news", "raised@b.org")).blocked == "bounced"
    assert await check_rows_agree(store) == 4


async def test_the_same_file_again_changes_nothing(services: Services, store: Store) -> None:
    text = "email,verified\n" + "".join(f"u{n:04}@b.org,{n % 2}\n" for n in range(1234))
    assert counts(await take(services, text)) == (1234, 0, 0, 0)
    first = await exported(services)
    assert counts(await take(services, text)) == (0, 0, 1234, 0)
    assert await exported(services) == first
    assert await check_rows_agree(store) == 1234


async def test_new_ones_among_many_others_are_found(services: Services, store: Store) -> None:
    """More lie between two of them than one look would show: each is asked for."""
    await take(services, "email\n" + "".join(f"u{n:04}@b.org\n" for n in range(1000)))
    text = "email,verified\n" + "".join(f"u{n:04}@b.org,yes\n" for n in range(0, 1500, 7))
    added = sum(n >= 1000 for n in range(0, 1500, 7))
    report = await take(services, text)
    assert counts(report) == (added, report.lines - added, 0, 0)
    assert await check_rows_agree(store) == 1000 + added


async def test_repeated_addresses_are_one_subscriber_within_and_across_chunks(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 2)
    report = await take(
        services, "email,verified\na@b.org,no\na@B.org,yes\nc@b.org,no\na@b.org,\nc@b.org,yes\n"
    )
    assert counts(report) == (2, 1, 2, 0)
    assert report.lines == 5
    assert await on_list(services) == {"a@b.org": True, "c@b.org": True}
    assert await check_rows_agree(store) == 2


async def test_two_imports_at_once_make_no_duplicates(services: Services, store: Store) -> None:
    text = "email\n" + "".join(f"u{n:04}@b.org\n" for n in range(2000))
    reports = await asyncio.gather(take(services, text), take(services, text))
    assert sum(report.added for report in reports) == 2000
    assert sum(report.unchanged for report in reports) == 2000
    assert await check_rows_agree(store) == 2000


async def test_rejected_lines_are_reported_kept_up_to_a_limit_and_all_counted(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_report, "REJECTED_KEPT", 3)
    reported: list[RejectedLine] = []
    report = await services.imports.import_csv(
        "news",
        io.BytesIO(b"email\nok@b.org\n" + b"bad\n" * 5),
        on_rejected=reported.append,
    )
    assert counts(report) == (1, 0, 0, 5)
    assert [each.line for each in report.errors] == [3, 4, 5]
    assert [each.line for each in reported] == [3, 4, 5, 6, 7]


async def test_progress_is_reported_up_to_the_last_byte(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 200)
    data = ("email\n" + "".join(f"u{n:04}@b.org\n" for n in range(1000))).encode()
    seen: list[tuple[int, int]] = []
    await services.imports.import_csv(
        "news", io.BytesIO(data), progress=lambda done, report: seen.append((done, report.lines))
    )
    assert seen[-1] == (len(data), 1000)
    assert len(seen) >= 5


@pytest.mark.parametrize("text", ["name\na@b.org\n", "", "email,email\na@b.org,\n"])
async def test_a_file_that_cannot_be_used_changes_nothing(services: Services, text: str) -> None:
    with pytest.raises(Invalid):
        await take(services, text)
    assert await on_list(services) == {}


async def test_there_must_be_a_list(services: Services) -> None:
    with pytest.raises(NoSuch, match="there is no list 'other'"):
        await services.imports.import_csv("other", io.BytesIO(b"email\na@b.org\n"))
    with pytest.raises(NoSuch):
        [piece async for piece in services.exports.export_csv("other")]


async def test_what_is_exported_is_imported_as_it_was(services: Services, store: Store) -> None:
    reason = '=HYPERLINK("x"), he said, "no"'
    names = ["=cmd|x", "+plus", "-minus", "'quote", "'=both", "Ann", "jürgen", "ann+tag"]
    for position, name in enumerate(names):
        await services.subscriptions.add("news", f"{name}@b.org", verified=position % 2 == 0)
    await services.subscriptions.edit("news", "Ann@b.org", blocked=reason)
    text = await exported(services)
    assert text.splitlines()[0].startswith("email,verified,blocked,created_at,first_name,")
    cells = [line.split(",")[0] for line in text.splitlines()[1:]]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    before = await on_list(services)

    await services.lists.delete("news")
    await services.lists.create("news", "The news", "news@contoso.com")
    report = await take(services, text)

    assert counts(report) == (len(names), 0, 0, 0)
    assert report.ignored_columns == ["created_at"]
    assert await on_list(services) == before
    assert (await services.subscriptions.get("news", "Ann@b.org")).blocked == reason
    assert (await services.subscriptions.get("news", "jürgen@b.org")).blocked == ""
    assert counts(await take(services, text)) == (0, 0, len(names), 0)


async def test_a_line_that_says_why_blocks_and_one_that_does_not_unblocks_nobody(
    services: Services,
) -> None:
    for name in ("ann", "bob"):
        await services.subscriptions.add("news", f"{name}@b.org", verified=True)
    await services.subscriptions.edit("news", "bob@b.org", blocked="bounced")
    report = await take(services, "email,blocked\nann@b.org,moved away\nbob@b.org,\nc@b.org,x\n")
    assert counts(report) == (1, 1, 1, 0)
    for name, why in (("ann", "moved away"), ("bob", "bounced"), ("c", "x")):
        assert (await services.subscriptions.get("news", f"{name}@b.org")).blocked == why


async def left(services: Services, *emails: str) -> None:
    for email in emails:
        subscriber = await services.subscriptions.add("news", email, verified=True)
        assert await services.subscriptions.unsubscribe("news", subscriber.guid) is not None


async def test_an_import_leaves_out_and_reports_people_who_unsubscribed(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 3)
    await left(services, "Gone@b.org", "again@b.org")
    await services.subscriptions.add("news", "again@b.org")  # by an administrator, knowingly
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    text = "email,verified\na@b.org,true\ngone@B.org,true\n@bad\nagain@b.org,true\nz@b.org,no\n"
    report = await take(services, text)
    assert counts(report) == (2, 1, 0, 2)
    assert [each.line for each in report.errors] == [3, 4]
    assert report.errors[0].email == "gone@b.org"
    assert report.errors[0].reason.startswith(f"unsubscribed on {today}")
    assert await on_list(services) == {"a@b.org": True, "again@b.org": True, "z@b.org": False}
    # Only those: the same file once more changes nobody else.
    assert counts(await take(services, text)) == (0, 0, 3, 2)
    assert await check_rows_agree(store) == 3

    everybody = await services.imports.import_csv(
        "news", io.BytesIO(text.encode()), even_unsubscribed=True
    )
    assert counts(everybody) == (1, 0, 3, 1)
    assert (await on_list(services))["gone@b.org"] is True


async def test_a_chunk_of_unsubscribed_people_is_skipped_and_counts_as_progress(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 2)
    await left(services, *(f"u{n}@b.org" for n in range(5)))
    seen: list[int] = []
    text = "email\n" + "".join(f"u{n}@b.org\n" for n in range(5))
    report = await services.imports.import_csv(
        "news", io.BytesIO(text.encode()), progress=lambda done, report: seen.append(done)
    )
    assert counts(report) == (0, 0, 0, 5)
    assert len(seen) >= 3
    assert seen == sorted(seen)
    assert seen[-1] == len(text)
    assert await on_list(services) == {}


STATUSES = """email,status,city
ann@example.org,active,Rome
Bob@example.org,unsubscribed,Rome
cem@example.org,blocklisted,Rome
dan@example.org,pending,Rome
eve@example.org,gold,Rome
kim@example.org,bounced,Rome
leo@example.org,unsubscribed,Rome
bob@example.org,active,Rome
"""


async def test_nobody_who_is_blocked_or_unsubscribed_elsewhere_gets_mail(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 3)  # bob's two lines are far from each other
    for name in ("kim", "leo"):
        await services.subscriptions.add("news", f"{name}@example.org", verified=True)
    before = await on_list(services)
    file = io.BytesIO(STATUSES.encode())
    predicted = await services.imports.import_csv("news", file, verified=True, dry_run=True)
    assert await on_list(services) == before, "a dry run writes nothing"
    done = await take(services, STATUSES, verified=True)
    assert counts(predicted) == counts(done) == (3, 1, 0, 1)
    assert predicted.unsubscribed == done.unsubscribed == 3
    assert (done.confirmed, done.blocked, done.lines) == (1, 2, 8)
    assert (predicted.dry_run, done.dry_run) == (True, False)
    assert done.ignored_columns == ["city"]
    found = (await services.subscriptions.slice("news")).subscribers
    assert [each.address for each in found if each.may_receive] == ["ann@example.org"]
    assert {str(each.address): each.blocked for each in found if each.blocked} == {
        "cem@example.org": "suppressed: blocklisted in the imported file",
        "kim@example.org": "suppressed: hard bounce",
    }
    assert await check_rows_agree(store) == 4
    again = await take(services, "email\nBOB@example.org\nleo@example.org\n", verified=True)
    assert counts(again) == (0, 0, 0, 2), "they have left, and only they can come back"
