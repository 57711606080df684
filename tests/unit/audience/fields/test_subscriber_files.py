"""How a CSV file of subscribers is understood, line by line."""

import codecs
import csv
import io
import json
import threading
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.fields import Field, Fields
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import protected, squeezed, unprotected
from postroom.services.audience.files.columns.column_names import COLUMN_NAMES, EMAIL_NAMES
from postroom.services.audience.files.columns.columns import ColumnPlan
from postroom.services.audience.files.columns.meanings import Blocking, Meaning, Standing
from postroom.services.audience.files.columns.status_words import STATUS_WORDS
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.record_lines import LONGEST_RECORD
from postroom.services.audience.files.subscriber_lines import SubscriberFile

ANN = address_key(Address("ann@b.org"))


def read(data: bytes | str, encoding: str | None = None, lines: int = 1000) -> list[Chunk]:
    raw = data.encode() if isinstance(data, str) else data
    return list(SubscriberFile(io.BytesIO(raw), encoding).chunks(lines))


def only(data: bytes | str, encoding: str | None = None) -> Chunk:
    [chunk] = read(data, encoding)
    return chunk


def unused(file: SubscriberFile) -> list[str]:
    return [each.name for each in file.columns if each.name and each.meaning is Meaning.UNUSED]


def problem(data: bytes | str, encoding: str | None = None) -> str:
    with pytest.raises(Invalid) as caught:
        read(data, encoding)
    return caught.value.problem


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_delimiters_and_line_ends(delimiter: str, end: str) -> None:
    rows = (["Name", " EMail ", "Verified"], ["Ann", "ann@Example.org", "Yes"], ["", "b@b.org", ""])
    chunk = only(end.join(delimiter.join(row) for row in rows))
    assert chunk.wanted == {"ann@example.org": True, "b@b.org": None}
    assert (chunk.lines, chunk.rejected) == (2, [])


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("true", True), ("TRUE", True), ("yes", True), ("1", True), (" true ", True), ("", None),
     ("false", False), ("No", False), ("0", False)],
)  # fmt: skip
def test_what_verified_may_say(word: str, meaning: bool | None) -> None:
    assert only(f"email,verified\na@b.org,{word}\n").wanted == {"a@b.org": meaning}


@pytest.mark.parametrize(
    "data",
    [
        "email,name\na@b.org,Jürgen 김\n".encode(),
        codecs.BOM_UTF8 + "email,name\na@b.org,Jürgen\n".encode(),
        "email,name\na@b.org,Jürgen\n".encode("utf-16"),
        codecs.BOM_UTF16_BE + "email,name\na@b.org,Jürgen\n".encode("utf-16-be"),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16-le", "utf-16-be"],
)
def test_encodings_that_are_found(data: bytes) -> None:
    assert only(data).wanted == {"a@b.org": None}


def test_another_encoding_is_refused_with_its_line_and_read_when_it_is_named() -> None:
    data = "email,name\na@b.org,Ann\nb@b.org,Jürgen\n".encode("windows-1252")
    assert problem(data).startswith("line 3 is not in UTF-8: save the file as UTF-8, or name")
    assert only(data, "windows-1252").wanted == {"a@b.org": None, "b@b.org": None}
    assert "windows-1252" in problem(data)
    assert problem(data, "ascii").startswith("line 3 is not in ascii: name another encoding")
    assert problem(data, "no-such") == "there is no encoding 'no-such'"
    assert problem(data, "rot13") == "'rot13' is not supported: save the file as UTF-8"
    assert "utf-16-le" in problem("email\na@b.org\n".encode("utf-16-le"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_named_encoding_that_needs_a_byte_order_mark_is_refused_without_one(
    encoding: str,
) -> None:
    assert problem("email\na@b.org\n".encode(f"{encoding}-le"), encoding) == (
        f"has no byte-order mark, which {encoding} needs: name {encoding}-le or {encoding}-be,"
        " or save it as UTF-8"
    )


@pytest.mark.parametrize(
    "name",
    ["punycode", "utf-7", "unicode_escape", "raw_unicode_escape", "idna", "undefined", "hex",
     "a\0b", "\ud800", "x" * 5000],
)  # fmt: skip
def test_an_unsupported_encoding_is_refused_with_its_name(name: str) -> None:
    error = problem(b"email,+2AA-\na@b.org,x\n", name)
    assert error.startswith("there is no encoding ") or "is not supported" in error
    assert error.isprintable()
    assert len(error) < 300


@pytest.mark.parametrize(
    "name",
    ["UTF8", "utf-8-sig", "utf-16", "utf_32", "latin-1", "ISO-8859-15", "windows-1258", "cp1252",
     "cp437", "koi8-r", "koi8-u", "big5", "gb18030", "gbk", "shift_jis", "sjis", "euc-jp",
     "euc-kr", "cp949", "macroman", "us-ascii", "iso-2022-jp", "tis-620"],
)  # fmt: skip
def test_encodings_that_people_save_files_in(name: str) -> None:
    data = "email,name\na@b.org,Ann\n".encode(name)
    assert only(data, name).wanted == {"a@b.org": None}


def test_a_wrong_byte_far_behind_is_found_before_the_first_line_is_used() -> None:
    data = b"email\n" + b"a@b.org\n" * 100_000 + b"\xff\n"
    assert problem(data).startswith("line 100002 is not in UTF-8")


def test_headers_that_cannot_be_used() -> None:
    assert problem("").startswith("has no header line")
    assert problem("\n\n").startswith("has no header line")
    assert problem("Phone;Last\u2028name\n1;Ann\n") == (
        "has no column 'email', only 'Phone', 'Last�name'. Name the column of addresses email,"
        " e-mail, mail, email address, mail address, e-mail-adresse, adresse e-mail or similar"
    )
    assert "'Phone', 'First name'" in problem("Phone\tFirst name\n1\tAnn\n".encode("utf-16"))
    assert problem("Mail,E-Mail\n") == (
        "has addresses in the columns 'Mail' and 'E-Mail': name one of them 'email'"
    )
    assert problem("a@b.org,Ann\n").startswith("has no header line: add a first line")
    assert problem("email,Email\n") == "has the column 'email' twice"


@pytest.mark.parametrize("name", [*EMAIL_NAMES, "E_MAIL ADDRESS", "Email-Address", "E‑Mail"])
def test_the_column_may_have_the_name_that_other_tools_use(name: str) -> None:
    file = SubscriberFile(io.BytesIO(f"Name,{name.title()}\nAnn,ann@b.org\n".encode()))
    assert [chunk.wanted for chunk in file.chunks(10)] == [{"ann@b.org": None}]
    assert unused(file) == ["Name"]


def test_a_column_email_is_taken_before_others() -> None:
    assert only("E-Mail,EMAIL,mail\na@x.org,b@x.org,c@x.org\n").wanted == {"b@x.org": None}


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("bounced", "bounced"), ("'=bad", "=bad"), ("  a  b\u2028c ", "a b c"), ("", None),
     ("no", None), ("false", None), ("0", None), (" ", None),
     ("yes", "blocked in the imported file")],
)  # fmt: skip
def test_what_blocked_may_say(cell: str, reason: str | None) -> None:
    chunk = only(f'email,blocked\na@b.org,"{cell}"\n')
    assert chunk.blocked == ({} if reason is None else {"a@b.org": reason})
    assert chunk.wanted == {"a@b.org": None}


def test_a_line_may_end_before_the_columns_that_need_not_be_there() -> None:
    chunk = only("email,verified,blocked\na@b.org\nb@b.org,yes\nc@b.org,no,why\n")
    assert chunk.wanted == {"a@b.org": None, "b@b.org": True, "c@b.org": False}
    assert chunk.blocked == {"c@b.org": "why"}


def test_addresses_that_are_watched_come_with_their_lines() -> None:
    file = SubscriberFile(io.BytesIO(b"email,verified\na@b.org,yes\nb@b.org\nc@b.org,no\n"))
    [chunk] = file.chunks(10, lambda address: address != "a@b.org")
    assert chunk.watched == {"b@b.org": 3, "c@b.org": 4}


def test_other_columns_are_named_as_they_are_written() -> None:
    file = SubscriberFile(io.BytesIO(b"Shoe Size,EMAIL,,Phone,verified\n"))
    assert unused(file) == ["Shoe Size", "Phone"]
    assert list(file.chunks(10)) == []
    hostile = SubscriberFile(io.BytesIO(f"email,a\x1b\u202eb,{'x' * 5000}\n".encode()))
    assert unused(hostile) == ["a��b", "x" * 100 + "…"]


def test_lines_that_cannot_be_used_are_named_with_their_number_and_reason() -> None:
    chunk = only(
        "email,verified\n"
        "ann@example.org,true\n"
        "bad@@example.org,true\n"
        "\n"
        ",\n"
        ",true\n"
        "bob@example.org,perhaps\n"
        '"two\nlines@example.org",true\n'
        "eve@example.org\n"
        "x@y.org\x00,true\n"
    )
    assert chunk.wanted == {"ann@example.org": True, "eve@example.org": None}
    found = {each.line: (each.email, each.reason) for each in chunk.rejected}
    assert list(found) == [3, 6, 7, 8, 11]
    assert found[3][0] == "bad@@example.org"
    assert found[6] == ("", "the line has no address")
    assert found[7] == ("bob@example.org", "'verified' must be true or false, not 'perhaps'")
    assert found[8][1] == "the address spans several lines: is a quote missing?"
    assert found[11][0] == "x@y.org�"
    assert chunk.lines == 7  # empty ones do not count


@pytest.mark.parametrize("count", [1_000, 20_000], ids=["to the end", "to the longest cell"])
def test_a_quote_that_is_never_closed_does_not_swallow_lines_silently(count: int) -> None:
    lines = [f"a{number}@example.org,x" for number in range(count)]
    lines[5] = 'a5@example.org,"never closed'
    [chunk] = read("email,name\n" + "\n".join(lines) + "\n", lines=count)
    [rejected] = chunk.rejected
    assert rejected.line == 7
    lost = int(rejected.reason.split(" to ")[1].split()[0]) - 6
    assert f"is a quote missing? Lines 7 to {lost + 6} were not used" in rejected.reason
    assert len(chunk.wanted) == count - lost


def test_a_cell_may_hold_a_few_line_breaks() -> None:
    chunk = only('email,notes\na@b.org,"one\ntwo\nthree"\nbad,\n')
    assert list(chunk.wanted) == ["a@b.org"]
    assert [each.line for each in chunk.rejected] == [5]


def test_the_last_line_about_an_address_counts() -> None:
    chunk = only("email,verified\na@b.org,true\na@B.org,\nb@b.org,true\nb@b.org,false\n")
    assert chunk.wanted == {"a@b.org": True, "b@b.org": False}
    assert (chunk.lines, chunk.repeated) == (4, 2)


def test_chunks_hold_so_many_lines_and_no_line_is_lost_between() -> None:
    data = "email\n" + "".join(f"a{number}@b.org\n\n" for number in range(25))
    chunks = read(data, lines=10)
    assert max(chunk.lines for chunk in chunks) <= 10
    assert sum(chunk.lines for chunk in chunks) == 25
    assert len({each for chunk in chunks for each in chunk.wanted}) == 25
    assert chunks[-1].bytes_read == len(data)


# -- formulas -------------------------------------------------------------------------------------


@given(st.text("'=+-@\t\r\u00a0 a", max_size=6))
def test_values_protected_from_spreadsheets_are_imported_unchanged(cell: str) -> None:
    written = protected(cell)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unprotected(written) == cell


@pytest.mark.parametrize("cell", [" =1", "\u00a0+1", "  -1", "' @x", "\t=1"])
def test_spaces_before_a_formula_do_not_hide_it(cell: str) -> None:
    assert protected(cell) == f"'{cell}"
    assert unprotected(protected(cell)) == cell
    assert protected(f"a{cell}") == f"a{cell}"


@pytest.mark.parametrize("address", ["=cmd@b.org", "+a@b.org", "-a@b.org", "'=a@b.org", "'a@b.org"])
def test_addresses_that_look_like_formulas_survive_export_and_import(address: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["email"], [protected(address)]])
    assert list(only(text.getvalue()).wanted) == [address]


def test_a_line_that_is_too_long_is_rejected_and_the_next_one_is_used() -> None:
    chunk = only("email,name\na@b.org,x\n" + "y" * (LONGEST_RECORD + 1) + "\nb@b.org,x\n")
    assert list(chunk.wanted) == ["a@b.org", "b@b.org"]
    [rejected] = chunk.rejected
    assert rejected.line == 3
    assert rejected.reason == "the line is longer than 131,072 characters"


def test_a_header_that_is_too_long_is_refused() -> None:
    assert "has more than 65,536 characters" in problem("email," + "x" * 70_000 + "\na@b.org,x\n")


def test_a_stopped_file_has_no_more_lines() -> None:
    stop = threading.Event()
    file = SubscriberFile(io.BytesIO(b"email\n" + b"a@b.org\n" * 10), None, stop)
    chunks = file.chunks(2)
    assert next(chunks).lines == 2
    stop.set()
    assert list(chunks) == []


@pytest.mark.parametrize(
    ("standing", "word"), [(each, word) for each, words in STATUS_WORDS.items() for word in words]
)
def test_statuses_of_other_tools_are_understood(standing: Standing, word: str) -> None:
    for written in (word, word.title(), word.replace(" ", "_"), f" {word.upper()} "):
        chunk = only(f"email,status\nann@b.org,{written}\n")
        assert not chunk.rejected
        match standing:
            case Standing.CONFIRMED:
                assert chunk.wanted == {"ann@b.org": True}
            case Standing.PENDING:
                assert chunk.wanted == {"ann@b.org": False}
            case Standing.UNSUBSCRIBED:
                assert (chunk.wanted, list(chunk.unsubscribed)) == ({}, ["ann@b.org"])
            case Standing.BLOCKED:
                assert chunk.wanted == {"ann@b.org": False}
                [(address, blocking)] = chunk.blockings.items()
                own = f"{written.strip()} in the imported file"
                assert (address, blocking.everywhere) == ("ann@b.org", blocking.reason != own)
                assert blocking.reason in (own, "hard bounce", "complaint")


def test_an_unknown_status_verifies_nobody() -> None:
    chunk = only("email,status\nann@b.org,golden\nbob@b.org,\n")
    assert chunk.wanted == {"bob@b.org": None}
    assert [each.reason for each in chunk.rejected] == [
        "unknown status 'golden': use confirmed, pending, unsubscribed or blocked"
    ]


@pytest.mark.parametrize(
    "column", ["Statut", "Abo-Status", "Статус подписки", "구독 상태", "subscription_status"]
)
def test_an_unknown_status_in_any_language_rejects_the_line_and_names_the_value(
    column: str,
) -> None:
    chunk = only(f"email,{column}\nann@b.org,würzig\n")
    [rejected] = chunk.rejected
    assert (chunk.wanted, rejected.line, rejected.email) == ({}, 2, "ann@b.org")
    assert rejected.reason.startswith("unknown status 'würzig': use confirmed, pending")


FILES_IN_FIVE_LANGUAGES = {
    "en": (
        "Email,Subscription status,Unsubscribed on,Signup date",
        "Confirmed", "Pending", "Unsubscribed", "Bounced",
    ),
    "de": (
        "E-Mail-Adresse;Status;Abgemeldet am;Anmeldedatum",
        "Bestätigt", "Ausstehend", "Abgemeldet", "Unzustellbar",
    ),
    "fr": (
        "Adresse e-mail;Statut;Désabonné le;Date d'inscription",
        "Confirmé", "En attente", "Désabonné(e)", "Injoignable",
    ),
    "ko": ("이메일,상태,수신거부일,가입일", "구독 중", "확인 대기", "수신거부", "반송됨"),
    "ru": (
        "Электронная почта;Статус;Дата отписки;Дата подписки",
        "Подтверждён", "Ожидает подтверждения", "Отписался(лась)", "Недоставлено",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("language", FILES_IN_FIVE_LANGUAGES)
def test_exports_in_five_languages_say_who_must_not_receive_email(
    language: str, form: Literal["NFC", "NFD"]
) -> None:
    header, *words = FILES_IN_FIVE_LANGUAGES[language]
    delimiter = ";" if ";" in header else ","
    people = zip(("ann", "bob", "cem", "dan"), words, strict=True)
    rows = [f"{name}@b.org,{word},,31.1.2020 09:30" for name, word in people]
    rows.append(f"eve@b.org,{words[0]},2.3.2021,")  # confirmed once, and unsubscribed later
    text = "\n".join((header, *(row.replace(",", delimiter) for row in rows)))
    chunk = only(unicodedata.normalize(form, text))
    assert chunk.rejected == []
    assert chunk.wanted == {"ann@b.org": True, "bob@b.org": False, "dan@b.org": False}
    assert list(chunk.unsubscribed) == ["cem@b.org", "eve@b.org"]
    assert chunk.left_at == {"eve@b.org": "2021-03-02"}
    assert chunk.blockings == {"dan@b.org": Blocking("hard bounce", everywhere=True)}
    assert chunk.details[ANN] == {Meaning.JOINED: "2020-01-31 09:30"}


@pytest.mark.parametrize("meaning", COLUMN_NAMES)
def test_columns_are_recognised_in_any_spelling(meaning: Meaning) -> None:
    for name in COLUMN_NAMES[meaning]:
        for written in (name.upper(), name.replace(" ", "_"), unicodedata.normalize("NFD", name)):
            file = SubscriberFile(io.BytesIO(f'email,"{written}"\na@b.org,\n'.encode()))
            assert [each.meaning for each in file.columns] == [Meaning.ADDRESS, meaning], name


def test_no_word_has_two_meanings() -> None:
    for groups in (COLUMN_NAMES, STATUS_WORDS):
        words = [word for each in groups.values() for word in {squeezed(name) for name in each}]
        assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("yes", "no"),
    [("yes", "no"), ("Ja", "Nein"), ("oui", "non"), ("예", "아니요"), ("да", "нет"), ("1", "0")],
)
def test_yes_and_no_are_understood_in_five_languages(yes: str, no: str) -> None:
    lines = f"ann@b.org,{yes}\nbob@b.org,{no}\ncem@b.org,\n"
    subscribed = only(f"email,subscribed\n{lines}")
    assert subscribed.wanted == {"ann@b.org": True, "cem@b.org": None}
    assert list(subscribed.unsubscribed) == ["bob@b.org"]
    left = only(f"email,Abgemeldet\n{lines}")
    assert (list(left.unsubscribed), len(left.wanted)) == (["ann@b.org"], 2)
    confirmed = only(f"email,Bestätigt\n{lines}")
    assert confirmed.wanted == {"ann@b.org": True, "bob@b.org": False, "cem@b.org": None}


def test_a_column_that_should_be_yes_or_no_confirms_nobody_with_another_word() -> None:
    rows = ("ann@b.org,maybe", "bob@b.org,2020-01-31", "cem@b.org,unsubscribed", "dan@b.org,x")
    chunk = only("\n".join(("email,opt-in", *rows)))
    assert (chunk.wanted, list(chunk.unsubscribed)) == ({"bob@b.org": True}, ["cem@b.org"])
    assert [each.reason for each in chunk.rejected] == [
        "unknown status 'maybe': use yes or no",
        "unknown status 'x': use yes or no",
    ]


def test_a_date_of_zeros_counts_as_no_date() -> None:
    chunk = only("email,unsubscribed_at\nann@b.org,0000-00-00 00:00:00\nbob@b.org,-\n")
    assert (list(chunk.wanted), chunk.unsubscribed) == (["ann@b.org", "bob@b.org"], {})


def test_fields_of_the_list_win_over_dates_and_yes_or_no_but_not_over_statuses() -> None:
    fields = Fields([Field("signup_date"), Field("subscribed"), Field("status")])
    text = "email,Signup date,Subscribed,Status\nann@b.org,soon,no,active\n"
    file = SubscriberFile(io.BytesIO(text.encode()), plan=ColumnPlan(fields=fields))
    [chunk] = file.chunks(10)
    assert chunk.wanted == {"ann@b.org": True}
    assert json.loads(chunk.attributes[ANN]) == {
        "signup_date": "soon", "subscribed": "no", "status": "active",
    }  # fmt: skip


def test_a_state_may_be_a_place() -> None:
    chunk = only("email,state\nann@b.org,CA\nbob@b.org,blocklisted\ncem@b.org,Active\n")
    assert chunk.wanted == {"ann@b.org": None, "bob@b.org": False, "cem@b.org": True}
    assert list(chunk.blockings) == ["bob@b.org"]


def test_the_strictest_of_several_columns_counts() -> None:
    header = "email,verified,status,Unsub Time,blacklisted"
    rows = (
        "ann@b.org,true,active,,0",
        "bob@b.org,true,active,2024-01-02 10:00,0",
        "cem@b.org,true,active,2024-01-02 10:00,1",
        "dan@b.org,true,unconfirmed,,no",
        "eve@b.org,false,confirmed,,",
    )
    chunk = only("\n".join((header, *rows)))
    assert chunk.wanted == {
        "ann@b.org": True, "cem@b.org": False, "dan@b.org": False, "eve@b.org": False,
    }  # fmt: skip
    assert list(chunk.unsubscribed) == ["bob@b.org"]
    assert chunk.blockings == {
        "cem@b.org": Blocking("blacklisted in the imported file", everywhere=False)
    }


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("cleaned", "bounced", "unreachable", "undeliverable"), "hard bounce"),
        (("complained", "marked as spam", "abuse"), "complaint"),
        (("soft bounced", "blocklisted", "banned", "by admin"), ""),
    ],
)
def test_a_mailbox_that_is_gone_and_a_complaint_count_everywhere(
    words: tuple[str, ...], reason: str
) -> None:
    for word in words:
        [found] = only(f"email,status\nann@b.org,{word}\n").blockings.values()
        assert found == Blocking(reason or f"{word} in the imported file", everywhere=bool(reason))


def test_a_blocked_line_counts_even_next_to_one_that_unsubscribes() -> None:
    for order in (("cleaned", "unsubscribed"), ("unsubscribed", "cleaned")):
        lines = "".join(f"ann@b.org,{each}\n" for each in order)
        chunk = only(f"email,status\n{lines}")
        assert (list(chunk.unsubscribed), list(chunk.blockings)) == (["ann@b.org"],) * 2


def test_a_line_does_not_resubscribe_what_another_line_unsubscribes() -> None:
    chunk = only("email,status\nann@b.org,active\nAnn@b.org,unsubscribed\nANN@b.org,active\n")
    assert (chunk.wanted, list(chunk.unsubscribed)) == ({}, ["ann@b.org"])
    assert (chunk.lines, chunk.repeated) == (3, 2)


def test_the_first_rows_are_shown_as_they_are() -> None:
    rows = [f"u{n}@b.org,Zoé {n},x" for n in range(9)]
    file = SubscriberFile(io.BytesIO("\n".join(("email,name,state", *rows)).encode()))
    assert file.sample == [[f"u{n}@b.org", f"Zoé {n}", "x"] for n in range(5)]
    assert [each.meaning for each in file.columns] == [
        Meaning.ADDRESS, Meaning.UNUSED, Meaning.STATE,
    ]  # fmt: skip
    assert sum(len(chunk.wanted) for chunk in file.chunks(4)) == 9
