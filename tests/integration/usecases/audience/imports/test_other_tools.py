"""Exports of other tools: who may get mail afterwards, and what is kept of the sign-up."""

import csv
import io
import json
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
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.files.tools import recognise
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.storage import KeyRange, Store
from postroom.wiring import Services
from tests.integration.usecases.audience.imports.test_csv_imports import (
    address,
    check_rows_agree,
    counts,
    engine,
    services,
    store,
)
from tests.long import sized

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
    """All rows of the list and its unsubscribes, with their ETags."""
    return [
        (table, entity.row, entity.etag)
        for table in ("mailinglist", "departed")
        async for entity in store.table(table).scan(KeyRange.only("news"))
    ]


@pytest.mark.timeout(300)
async def test_an_archive_of_mailchimp_is_imported_twice(services: Services, store: Store) -> None:
    people = sized(300, 33_334)
    data = mailchimp(people)
    progress: list[int] = []
    planned = await take(services, data, dry_run=True)
    first = await take(services, data, progress=lambda done, _: progress.append(done))
    assert (first.tool, first.warning) == ("Mailchimp", "")
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
    assert await Unsubscribes(store).left_at(name, Address("u3@example.com")) == left
    cleaned = await services.subscriptions.get("news", "c0@example.com")
    assert cleaned.blocked == "suppressed: hard bounce"

    before = await everything(store)
    again = await take(services, data)
    assert (again.added, again.updated, again.unsubscribed, again.rejected) == (0, 0, 0, 0)
    assert await everything(store) == before


async def test_the_time_of_an_unsubscribe_is_kept_if_it_can_be_one(
    services: Services, store: Store
) -> None:
    name = (await services.lists.get("news")).name
    before = clock.now()
    data = (
        "email,unsubscribed at,verified\nann@b.org,2020-02-03T04:05:06Z,\nbob@b.org,yes,\n"
        "cid@b.org,2999-01-01 00:00:00,\nann@b.org,2021-01-01,\ndan@b.org,2020-02-03\n"
    )
    await take(services, data.encode())
    unsubscribes = Unsubscribes(store)
    said = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert await unsubscribes.left_at(name, Address("ann@b.org")) == said
    assert await unsubscribes.left_at(name, Address("dan@b.org")) == datetime(
        2020, 2, 3, tzinfo=UTC
    )
    for other in ("bob@b.org", "cid@b.org"):
        left_at = await unsubscribes.left_at(name, Address(other))
        assert left_at is not None
        assert before <= left_at <= clock.now()


async def test_the_time_of_a_sign_up_is_kept_whoever_wrote_the_file(
    services: Services, store: Store
) -> None:
    """The file of no tool that is known, with a status and dates as they are written in German."""
    text = (
        "E-Mail;Status;Anmeldedatum;Bestätigt am;Abgemeldet am\n"
        "ann@b.org;aktiv;1/2/2020;2.2.2020, 08:15;\nbob@b.org;abgemeldet;;;3.4.2021 10:30\n"
        "cid@b.org;wer weiß;;;\n"
    )
    report = await take(services, text.encode(), date_order=DateOrder.DAY_FIRST, verified=True)
    assert counts(report) == (1, 0, 0, 1)
    assert (report.unsubscribed, report.errors[0].email) == (1, "cid@b.org")
    assert await receiving(services) == ["ann@b.org"]
    ann = await services.subscriptions.get("news", "ann@b.org")
    assert ann.created_at == datetime(2020, 2, 1, tzinfo=UTC)
    assert ann.verified_at == datetime(2020, 2, 2, 8, 15, tzinfo=UTC)
    assert ann.consent == "signed up 2020-02-01, confirmed 2020-02-02 08:15"
    name = (await services.lists.get("news")).name
    left = datetime(2021, 4, 3, 10, 30, tzinfo=UTC)
    assert await Unsubscribes(store).left_at(name, Address("bob@b.org")) == left


async def test_someone_who_is_subscribed_here_leaves_if_they_left_there(
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
        "Buttondown",  # since 2024
        "email_address,type,creation_date,notes,tags",
        "{},regular,2020-01-02T03:04:05.678901+00:00,,",
        "{},unsubscribed,2020-01-02T03:04:05.678901+00:00,,",
        "{},undeliverable,2020-01-02T03:04:05.678901+00:00,,",
    ),
    (
        "phpList",
        "email;confirmed;blacklisted;uniqid;htmlemail;entered",
        "{};1;0;0cc175b9c0f1b6a831c399e269772661;1;2020-01-02 03:04:05",
        "",
        "{};1;1;92eb5ffee6ae2fec3ad71c777531578f;1;2020-01-02 03:04:05",
    ),
    (
        "phpList",  # its tables; the first one was added by the team, who confirmed the address
        "id;email;confirmed;blacklisted;optedin;bouncecount;entered;modified;uniqid;disabled",
        "1;{};1;0;0;2;2020-01-02 03:04:05;2021-01-01;0cc175b9c0f1b6a831c399e269772661;0",
        "",
        "2;{};1;0;1;0;2020-01-02 03:04:05;2021-01-01;92eb5ffee6ae2fec3ad71c777531578f;1",
    ),
    (
        "phpList",
        "Email\tIs this subscriber confirmed\tIs this subscriber blacklisted\t"
        "Did this subscriber manually confirm\tNumber of bounces\tEntered\tUnique ID",
        "{}\t1\t0\t0\t0\t2020-01-02 03:04:05\t0cc175b9c0f1b6a831c399e269772661",
        "",
        "{}\t1\t1\t1\t0\t2020-01-02 03:04:05\t92eb5ffee6ae2fec3ad71c777531578f",
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
    ("tool", "header"),
    [
        ("Mailchimp", "E-Mail-Adresse,Vorname,MEMBER_RATING,OPTIN_TIME,CONFIRM_TIME,LEID,EUID"),
        ("Mailchimp", "Email,OPTIN_TIME,OPTIN_IP,CONFIRM_TIME,LAST_CHANGED,TAGS"),
        (
            "Ghost",
            "id,email,note,subscribed_to_emails,complimentary_plan,labels,tiers,gift_id",
        ),
        ("phpList", "Email,Is this subscriber confirmed,Is this subscriber blacklisted,Entered"),
        ("Brevo", "EMAIL,FIRSTNAME,ADDED_TIME,MODIFIED_TIME"),
        ("Keila", "Email,First name,Last name,Data"),
        ("Buttondown", "id,email_address,type,secondary_id,metadata"),
        ("", "email,first name,last name,status"),
    ],
)
def test_older_and_newer_exports_are_recognised(tool: str, header: str) -> None:
    found = recognise(header.split(","))
    assert ("" if found is None else found.name) == tool


async def test_every_type_of_buttondown_has_its_state(services: Services, store: Store) -> None:
    """The types are those of https://docs.buttondown.com/api-subscribers-type."""
    header = "email_address,type,creation_date,notes,tags,unsubscription_date,undeliverability_date"
    receives = ("regular", "premium", "gifted", "trialed", "churning", "past_due", "paused")
    waits = ("unactivated", "unpaid", "churned")
    left = ("unsubscribed", "removed")
    blocked = ("undeliverable", "spammy", "malformed", "complained", "disposable", "blocked")
    everybody = (*receives, *waits, *left, *blocked)
    rows = [f"{each}@b.org,{each},2020-01-02T03:04:05Z,,vip,," for each in everybody]
    rows.append("was@b.org,regular,2020-01-02T03:04:05Z,,,2021-05-06T07:08:09Z,")
    rows.append("broken@b.org,regular,2020-01-02T03:04:05Z,,,,2021-05-06T07:08:09Z")
    report = await take(services, "\n".join((header, *rows)).encode(), verified=True)
    assert (report.tool, report.rejected, report.warning) == ("Buttondown", 0, "")
    assert await receiving(services) == sorted(f"{each}@b.org" for each in receives)
    assert report.unsubscribed == len(left) + 1
    assert report.blocked == len(blocked) + 1
    name = (await services.lists.get("news")).name
    at = await Unsubscribes(store).left_at(name, Address("was@b.org"))
    assert at == datetime(2021, 5, 6, 7, 8, 9, tzinfo=UTC)
    unknown = await take(services, f"{header}\nann@b.org,golden,,,,,\n".encode(), verified=True)
    assert unknown.errors[0].reason.startswith("unknown status 'golden'")


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("EMAIL,FIRSTNAME,ADDED_TIME,MODIFIED_TIME", "leave those people out of the file"),
        ("Email,First name,Last name,Data", "leave those people out of the file"),
        ("Email,LEID,EUID", "Upload the zip archive of the export"),
        ("uuid,email,name,attributes,status", "Use Import from listmonk instead"),
        ("EMAIL,FIRSTNAME,BLOCKLISTED,ADDED_TIME", ""),
        ("Email,LEID,EUID,UNSUB_TIME", ""),
        ("email,name", ""),
    ],
)
async def test_an_export_that_does_not_say_who_unsubscribed_comes_with_a_warning(
    services: Services, header: str, advice: str
) -> None:
    data = f"{header}\n{','.join('' for _ in header.split(','))}\n".encode()
    report = await take(services, data, dry_run=True)
    assert advice in report.warning
    assert bool(report.warning) == bool(advice)
    assert report.warning == (await take(services, data)).warning
    column = header.split(",")[-1]
    if advice and report.tool != "listmonk":
        chosen = await take(services, data, dry_run=True, columns={column: "status"})
        assert chosen.warning == ""


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
        ({"Wer": "nonsense"}, "a column cannot be used for 'nonsense'"),
        ({"Wer": "address", "Wo": "field:city", "Rang": "field:city"}, "two columns are chosen"),
        ({"Wer": "skip"}, "has no column of addresses: choose which one it is"),
    ):
        with pytest.raises(Invalid, match=words):
            await take(services, text.encode(), columns=wrong)
    email = "email,city\nann@b.org,Rome\n"
    skipped = await take(services, email.encode(), columns={"city": "skip"})
    assert skipped.ignored_columns == ["city"]


async def test_columns_with_similar_names_are_chosen_one_by_one(
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


def archive_of(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()


async def test_tags_become_choices_if_the_first_file_of_an_archive_has_none(
    services: Services,
) -> None:
    header = "Email Address,LEID,EUID,TAGS,CLEAN_CAMPAIGN_ID\n"
    data = archive_of(
        {
            "subscribed_email_audience_export_1.csv": f'{header}ann@b.org,1,a,"""vip"",""a, b""",',
            "cleaned_email_audience_export_1.csv": f"{header}bob@b.org,2,b,,7",
        }
    )
    planned = await take(services, data, create_fields=True, dry_run=True)
    report = await take(services, data, create_fields=True)
    assert planned.created_fields == report.created_fields == ["tags"]
    [tags] = (await services.fields.get("news")).fields.own
    assert (tags.type, tags.choices) == (FieldType.CHOICES, ("vip", "a, b"))
    ann = await services.subscriptions.get("news", "ann@b.org")
    assert ann.attributes["tags"] == ["vip", "a, b"]


async def test_the_subscribers_are_found_in_the_archive_of_substack(services: Services) -> None:
    posts = {f"posts/{n}.opens.csv": "post_id,email\n1,bob@b.org\n" for n in range(25)}
    people = "email,active_subscription,email_disabled\nann@b.org,false,false\n"
    data = archive_of({"posts.csv": "post_id,title\n1,One\n", "email_list.me.csv": people} | posts)
    report = await take(services, data)
    assert (report.tool, report.added) == ("Substack", 1)
    assert await receiving(services) == ["ann@b.org"]


ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {"city": "Bern", "age": 30, "vip": True, "score": 1, "likes": ["a", "b"]},
    {"city": "Ulm", "age": None, "score": 1.5, "mixed": 1, "address": {"zip": "1"}, "long": "x"},
    {"mixed": "two", "large": 2**60, "empty": "", "long": "x" * 1001},
)


@pytest.mark.parametrize("tool", ["listmonk", "Keila"])
async def test_attributes_become_fields_of_their_types(services: Services, tool: str) -> None:
    await services.fields.declare("news", [Field("city")])
    headers = {
        "listmonk": "email,uuid,attributes,name,status",
        "Keila": "email,first name,data,last name,status",
    }
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(headers[tool].split(","))
    for number, each in enumerate(ATTRIBUTES):
        encoded = json.dumps(each)
        row = [f"p{number}@b.org", "", encoded, "", "active" if tool == "Keila" else "enabled"]
        writer.writerow(row)
    data = made.getvalue().encode()
    ignored = await take(services, data, dry_run=True)
    assert ignored.created_fields == []
    planned = await take(services, data, create_fields=True, dry_run=True)
    report = await take(services, data, create_fields=True)
    assert (report.tool, report.added, report.rejected) == (tool, 3, 0), report.errors
    assert planned.created_fields == report.created_fields
    own = {each.name: each.type for each in (await services.fields.get("news")).fields.own}
    assert own == {
        "city": FieldType.TEXT,
        "age": FieldType.INTEGER,
        "vip": FieldType.BOOLEAN,
        "score": FieldType.NUMBER,
        "likes": FieldType.TEXT,
        "mixed": FieldType.TEXT,
        "large": FieldType.TEXT,
    }
    people = [await services.subscriptions.get("news", f"p{n}@b.org") for n in range(3)]
    known = [{k: v for k, v in each.attributes.items() if k != "source"} for each in people]
    assert known == [
        {"city": "Bern", "age": 30, "vip": True, "score": 1, "likes": "a|b"},
        {"city": "Ulm", "score": 1.5, "mixed": "1"},
        {"mixed": "two", "large": str(2**60)},
    ]
    again = await take(services, data, create_fields=True)
    assert (again.updated, again.unchanged, again.created_fields) == (0, 3, [])


async def test_too_many_tags_stay_text(services: Services) -> None:
    lines = [f'ann{n}@b.org,"tag{n}|common"' for n in range(101)]
    data = "\n".join(("email,tags,labels", *lines)).encode()
    report = await take(services, data, create_fields=True)
    assert report.rejected == 0
    types = (await services.fields.get("news")).fields.types
    assert (types["tags"], types["labels"]) == (FieldType.TEXT, FieldType.TEXT)
    with pytest.raises(Invalid, match="more than 100 different values: import it as text"):
        await take(services, data.replace(b"tags", b"other"), columns={"other": "new:choices"})
