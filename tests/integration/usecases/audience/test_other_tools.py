"""Exports of other tools: who may get mail afterwards, and what is kept of the sign-up."""

import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.errors import Invalid
from postroom.services.audience.files import archives
from postroom.services.audience.files.field_columns import DateOrder
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.signup.departures import Departures
from postroom.storage import KeyRange, Store
from postroom.wiring import Services
from tests.integration.usecases.audience.test_csv_imports import (
    address,
    check_rows_agree,
    counts,
    engine,
    services,
    store,
)

__all__ = ["address", "engine", "services", "store"]

HEADER = (
    "Email Address,First Name,Last Name,MEMBER_RATING,OPTIN_TIME,OPTIN_IP,CONFIRM_TIME,CONFIRM_IP,"
    "LAST_CHANGED,LEID,EUID,NOTES,TAGS"
)


def member(name: str, number: int, more: str = "") -> str:
    opted = f"2019-05-{number % 28 + 1:02} 10:00:00,203.0.113.{number % 250}"
    confirmed = f"2019-06-{number % 28 + 1:02} 11:00:00,198.51.100.7"
    return (
        f"{name}{number}@example.com,Zoé{number},O'Neil,2,{opted},{confirmed},"
        f'2020-01-01 00:00:00,1,a1,"met at, the fair","""vip"",""new"""{more}'
    )


def mailchimp(people: int) -> bytes:
    """An archive of Mailchimp; somebody is in two of its files."""
    subscribed = [member("s", n) for n in range(people)] + [member("c", 0)]
    unsubscribed = [member("u", n, ",2021-01-01 00:00:00,News") for n in range(people)]
    cleaned = [member("c", n, ",2021-01-01 00:00:00,News") for n in range(people)]
    files = {
        "subscribed_email_audience_export_1.csv": [HEADER, *subscribed],
        "unsubscribed_email_audience_export_1.csv": [
            f"{HEADER},UNSUB_TIME,UNSUB_CAMPAIGN_TITLE",
            *unsubscribed,
        ],
        "cleaned_email_audience_export_1.csv": [
            f"{HEADER},CLEAN_TIME,CLEAN_CAMPAIGN_TITLE",
            *cleaned,
        ],
        "__MACOSX/._subscribed.csv": ["rubbish"],
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, lines in files.items():
            archive.writestr(name, "\n".join(lines))
    return made.getvalue()


async def take(services: Services, data: bytes, **options: Any) -> ImportReport:
    return await services.imports.import_csv("news", io.BytesIO(data), **options)


async def receiving(services: Services) -> list[str]:
    name = (await services.lists.get("news")).name
    return [each.address async for each in services.subscriptions.all(name) if each.may_receive]


async def everything(store: Store) -> list[tuple[str, str, str]]:
    """All rows of the list and its departures, with their ETags."""
    return [
        (table, entity.row, entity.etag)
        for table in ("mailinglist", "departed")
        async for entity in store.table(table).scan(KeyRange.only("news"))
    ]


async def test_an_archive_of_mailchimp_is_imported_twice(services: Services, store: Store) -> None:
    people = 300
    data = mailchimp(people)
    progress: list[int] = []
    planned = await take(services, data, dry_run=True)
    first = await take(services, data, progress=lambda done, _: progress.append(done))
    assert first.tool == "Mailchimp"
    assert (first.added, first.unsubscribed, first.blocked, first.rejected) == (
        2 * people, people, people, 0,
    )  # fmt: skip
    assert (planned.added, planned.unsubscribed, planned.blocked, planned.rejected) == (
        2 * people, people, people, 0,
    )  # fmt: skip
    assert len(data) // 2 < max(progress) <= len(data)
    assert await receiving(services) == sorted(f"s{n}@example.com" for n in range(people))
    await check_rows_agree(store)
    ann = await services.subscriptions.get("news", "s3@example.com")
    assert ann.created_at == datetime(2019, 5, 4, 10, tzinfo=UTC)
    assert ann.verified_at == datetime(2019, 6, 4, 11, tzinfo=UTC)
    assert ann.attributes == {"first_name": "Zoé3", "last_name": "O'Neil"}
    assert ann.note == "met at, the fair"
    assert ann.consent == (
        "signed up 2019-05-04 10:00:00 from 203.0.113.3,"
        " confirmed 2019-06-04 11:00:00 from 198.51.100.7"
    )
    left = datetime(2021, 1, 1, tzinfo=UTC)
    name = (await services.lists.get("news")).name
    assert await Departures(store).left_at(name, Address("u3@example.com")) == left
    cleaned = await services.subscriptions.get("news", "c0@example.com")
    assert cleaned.blocked == "suppressed: hard bounce"

    before = await everything(store)
    again = await take(services, data)
    assert (again.added, again.updated, again.unsubscribed, again.rejected) == (0, 0, 0, 0)
    assert await everything(store) == before


async def test_the_time_of_a_departure_is_kept_if_it_can_be_one(
    services: Services, store: Store
) -> None:
    name = (await services.lists.get("news")).name
    before = clock.now()
    data = (
        "email,unsubscribed at,verified\nann@b.org,2020-02-03T04:05:06Z,\nbob@b.org,yes,\n"
        "cid@b.org,2999-01-01 00:00:00,\nann@b.org,2021-01-01,\ndan@b.org,2020-02-03\n"
    )
    await take(services, data.encode())
    departures = Departures(store)
    said = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert await departures.left_at(name, Address("ann@b.org")) == said
    assert await departures.left_at(name, Address("dan@b.org")) == datetime(2020, 2, 3, tzinfo=UTC)
    for other in ("bob@b.org", "cid@b.org"):
        left_at = await departures.left_at(name, Address(other))
        assert left_at is not None
        assert before <= left_at <= clock.now()


async def test_somebody_who_is_subscribed_here_leaves_if_they_left_there(
    services: Services,
) -> None:
    await services.subscriptions.add("news", "u1@example.com", verified=True)
    await services.subscriptions.add("news", "c1@example.com", verified=True)
    report = await take(services, mailchimp(3))
    assert report.unsubscribed == 3
    assert not {"u1@example.com", "c1@example.com"} & set(await receiving(services))


EXPORTS = (
    (
        "listmonk",
        "uuid,email,name,attributes,status,created_at,updated_at",
        '5d9f5a6c-0f3e-4c55-9b1d-6a8c2b7e4f01,{},Ann Lee,"{{""city"":""Bern"",""shoe"":1}}",'
        "enabled,2020-01-02T03:04:05Z,",
        "5d9f5a6c-0f3e-4c55-9b1d-6a8c2b7e4f01,{},Bob,{{}},disabled,2020-01-02T03:04:05Z,",
        "5d9f5a6c-0f3e-4c55-9b1d-6a8c2b7e4f01,{},Cid,{{}},blocklisted,2020-01-02T03:04:05Z,",
    ),
    (
        "Substack",
        "email,active_subscription,expiry,plan,email_disabled,created_at,first_payment_at",
        "{},false,,other,false,2020-01-02T03:04:05.000Z,",
        "{},true,,other,true,2020-01-02T03:04:05.000Z,",
        "",
    ),
    (
        "Ghost",
        "id,email,name,note,subscribed_to_emails,complimentary_plan,stripe_customer_id,"
        "created_at,deleted_at,labels,tiers",
        "1,{},Ann Lee,,true,false,,2020-01-02T03:04:05.000Z,,vip,",
        "1,{},Bob,,false,false,,2020-01-02T03:04:05.000Z,,,",
        "",
    ),
    (
        "Buttondown",
        "email_address,notes,tags,subscriber_type,creation_date",
        "{},,,regular,2020-01-02T03:04:05Z",
        "{},,,unsubscribed,2020-01-02T03:04:05Z",
        "{},,,undeliverable,2020-01-02T03:04:05Z",
    ),
    (
        "phpList",
        "email;confirmed;blacklisted;uniqid;htmlemail;entered",
        "{};1;0;0cc175b9c0f1b6a831c399e269772661;1;2020-01-02 03:04:05",
        "",
        "{};1;1;92eb5ffee6ae2fec3ad71c777531578f;1;2020-01-02 03:04:05",
    ),
    (
        "Brevo",
        "CONTACT ID;EMAIL;FIRSTNAME;LASTNAME;BLACKLISTED;ADDED_TIME",
        "1;{};Ann;Lee;No;2020-01-02 03:04:05",
        "",
        "1;{};Cid;;Yes;2020-01-02 03:04:05",
    ),
    (
        "Keila",
        "Email,First name,Last name,Data,Status",
        '{},Ann,Lee,"{{""city"":""Bern""}}",active',
        "{},Bob,,,unsubscribed",
        "{},Cid,,,unreachable",
    ),
)
"""Each tool with its header, and a line for somebody who is active, gone and blocked there."""


@pytest.mark.parametrize(("tool", "header", "active", "gone", "blocked"), EXPORTS)
async def test_other_tools_are_recognised(
    services: Services, tool: str, header: str, active: str, gone: str, blocked: str
) -> None:
    await services.fields.declare("news", [Field("city")])
    people = {"ann": active, "bob": gone, "cid": blocked}
    lines = [line.format(f"{name}@b.org") for name, line in people.items() if line]
    data = "\n".join((header, *lines)).encode()
    is_vouched = tool == "Brevo"  # its export does not say who has confirmed
    report = await take(services, data, verified=is_vouched)
    assert (report.tool, report.rejected) == (tool, 0), report.errors
    assert await receiving(services) == ["ann@b.org"]
    ann = await services.subscriptions.get("news", "ann@b.org")
    if tool != "Keila":
        assert f"{ann.created_at:%Y-%m-%d}" == "2020-01-02"
    if tool in ("listmonk", "Ghost", "Brevo", "Keila"):
        assert (ann.attributes["first_name"], ann.attributes["last_name"]) == ("Ann", "Lee")
    if tool in ("listmonk", "Keila"):
        assert ann.attributes["city"] == "Bern"
    if gone:
        assert report.unsubscribed == 1
    if blocked:
        assert report.blocked == 1
    again = await take(services, data, verified=is_vouched)
    assert counts(again) == (0, 0, len(lines), 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04 is not an archive", "the archive cannot be read"),
        (None, "must have 1 to 20 CSV files, not 0"),
    ],
)
async def test_archives_that_cannot_be_used_change_nothing(
    services: Services, content: bytes | None, words: str
) -> None:
    if content is None:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("picture.png", b"x")
        content = made.getvalue()
    with pytest.raises(Invalid, match=words):
        await take(services, content)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED]
)
def test_a_damaged_archive_is_refused_in_words(tmp_path: Path, method: int) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("ä.csv", "email\n" + "".join(f"a{n}@b.org\n" for n in range(50)))
    sound = made.getvalue()
    file = tmp_path / "archive.zip"
    refused = 0
    for place in range(4, len(sound)):
        file.write_bytes(sound[:place] + bytes([sound[place] ^ 0xFF]) + sound[place + 1 :])
        try:
            with file.open("rb") as opened, archives.opened_parts(opened):
                continue  # not every byte matters
        except Invalid:
            refused += 1
    assert refused > len(sound) // 4


async def test_an_archive_has_a_size_limit(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "LARGEST_CONTENT", 1000)
    with pytest.raises(Invalid, match="at most 1,000 bytes"):
        await take(services, mailchimp(20))


async def test_columns_are_used_as_chosen(services: Services) -> None:
    await services.fields.declare("news", [Field("city")])
    text = "Wer,Wo,Geburtstag,Rang\nann@b.org,Bern,31/01/1990,7\nbob@b.org,Ulm,1990-13-01,8\n"
    columns = {
        "Wer": "address",
        "Wo": "field:city",
        "Geburtstag": "new:date",
        "Rang": "new:integer",
    }
    report = await take(services, text.encode(), columns=columns, date_order=DateOrder.DAY_FIRST)
    assert counts(report) == (1, 0, 0, 1)
    assert report.created_fields == ["geburtstag", "rang"]
    ann = await services.subscriptions.get("news", "ann@b.org")
    assert ann.attributes == {"city": "Bern", "geburtstag": "1990-01-31", "rang": 7}
    for wrong, words in (
        ({"Wer": "address", "Wo": "field:nope"}, "there is no field 'nope'"),
        ({"Wer": "nonsense"}, "'nonsense' is nothing that a column can be used for"),
        ({"Wer": "address", "Wo": "field:city", "Rang": "field:city"}, "two columns are chosen"),
        ({"Wer": "skip"}, "has no column of addresses: choose which one it is"),
    ):
        with pytest.raises(Invalid, match=words):
            await take(services, text.encode(), columns=wrong)
    email = "email,city\nann@b.org,Rome\n"
    skipped = await take(services, email.encode(), columns={"city": "skip"})
    assert skipped.ignored_columns == ["city"]


async def test_columns_with_names_that_are_alike_are_chosen_one_by_one(
    services: Services,
) -> None:
    text = "email,Size,size_,SIZE?\nann@b.org,1,2,3\n"
    columns = {"Size": "new:integer", "size_": "skip", "SIZE?": "new:text"}
    report = await take(services, text.encode(), columns=columns)
    assert report.ignored_columns == ["size_"]
    ann = await services.subscriptions.get("news", "ann@b.org")
    assert sorted(map(str, ann.attributes.values())) == ["1", "3"]
    # A name that no column has exactly stands for all that are alike.
    report = await take(services, text.encode(), columns={"s.i.z.e": "skip"})
    assert report.ignored_columns == ["Size", "size_", "SIZE?"]


async def test_tags_become_a_field_with_choices(services: Services, store: Store) -> None:
    data = mailchimp(3)
    first = await take(services, data, create_fields=True)
    [tags] = [
        each for each in (await services.fields.get("news")).fields.own if each.name == "tags"
    ]
    assert (tags.type, tags.choices) == (FieldType.CHOICES, ("vip", "new"))
    assert "tags" in first.created_fields
    ann = await services.subscriptions.get("news", "s1@example.com")
    assert ann.attributes["tags"] == ["vip", "new"]
    before = await everything(store)
    again = await take(services, data, create_fields=True)
    assert (again.updated, again.created_fields) == (0, [])
    assert await everything(store) == before
    # Another file has tags that are new: they become choices, too, unless nobody asks for that.
    more = b'Email Address,LEID,EUID,TAGS\ns1@example.com,1,a1,"""VIP"",""a, b"""\n'
    refused = await take(services, more)
    assert "must be one of vip, new" in refused.errors[0].reason
    await take(services, more, create_fields=True)
    [tags] = [
        each for each in (await services.fields.get("news")).fields.own if each.name == "tags"
    ]
    assert tags.choices == ("vip", "new", "a, b")
    assert (await services.subscriptions.get("news", "s1@example.com")).attributes["tags"] == [
        "vip", "a, b",
    ]  # fmt: skip


async def test_too_many_tags_stay_text(services: Services) -> None:
    lines = [f'ann{n}@b.org,"tag{n}|common"' for n in range(101)]
    data = "\n".join(("email,tags,labels", *lines)).encode()
    report = await take(services, data, create_fields=True)
    assert report.rejected == 0
    types = (await services.fields.get("news")).fields.types
    assert (types["tags"], types["labels"]) == (FieldType.TEXT, FieldType.TEXT)
    with pytest.raises(Invalid, match="more than 100 different values: import it as text"):
        await take(services, data.replace(b"tags", b"other"), columns={"other": "new:choices"})
