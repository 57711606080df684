"""Attached files: proper MIME, the same for every parser, and nothing else changes."""

import base64
import email
import email.policy
import re
from email.message import EmailMessage

import pytest

from postroom.domain.errors import Invalid
from postroom.domain.messages.attachments import (
    LARGEST_IN_TOTAL,
    MOST,
    Attachment,
    check_attachments,
    describe_file,
    parse_stored,
    stored_text,
)
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import SplicedMailing
from tests.unit.mail.mailings import DATE, recipient
from tests.unit.mail.strict import parse

FILES = (
    AttachedFile("programme.pdf", "application/pdf", bytes(range(256)) * 40),
    AttachedFile("Übersicht für ännä.csv", "text/csv", b"a;b\r\n.\r\nFrom x\r\n"),
    AttachedFile("dots", "application/octet-stream", b"\r\n.\r\n" * 10),
)


def raw(
    files: tuple[AttachedFile, ...] = FILES, html: str | None = "<p>Hi {{ email }}</p>"
) -> bytes:
    made = compile_mailing(
        ref="638987654321098765",  # type: ignore[arg-type]
        subject="News",
        html=html,
        text="Hi",
        list_name="news",  # type: ignore[arg-type]
        description="The news",
        from_address="news@contoso.example",  # type: ignore[arg-type]
        base_url="https://lists.example.com",
        date=DATE,
        attachments=files,
    )
    assert isinstance(made, SplicedMailing)
    return made.mail(recipient())


def test_three_readers_find_the_same_files() -> None:
    content = raw()
    expected = [(each.name, each.type, each.content) for each in FILES]

    modern = parse(content)
    assert [
        (part.get_filename(), part.get_content_type(), part.get_payload(decode=True))
        for part in modern.iter_attachments()
    ] == expected
    body = modern.get_body(("html",))
    assert isinstance(body, EmailMessage)
    assert "Hi anna@example.org" in body.get_content()

    old = email.message_from_bytes(content, policy=email.policy.compat32)
    found = [part for part in old.walk() if part.get_content_disposition() == "attachment"]
    assert [
        (part.get_filename(), part.get_content_type(), part.get_payload(decode=True))
        for part in found
    ] == expected

    boundary = re.search(rb'multipart/mixed;\r\n boundary="([^"]+)"', content)
    assert boundary
    parts = content.split(b"--" + boundary[1])[2:-1]
    by_hand = [
        base64.b64decode(part.partition(b"\r\n\r\n")[2].replace(b"\r\n", b"")) for part in parts
    ]
    assert by_hand == [each.content for each in FILES]


def test_an_email_without_attachments_is_the_same_byte_for_byte() -> None:
    assert b"multipart/mixed" not in raw(())
    plain = raw((), html=None)
    assert plain.count(b"Content-Type:") == 1


def test_a_text_alone_can_have_attachments() -> None:
    read = parse(raw(FILES[:1], html=None))
    assert [part.get_filename() for part in read.iter_attachments()] == ["programme.pdf"]
    body = read.get_body(("plain",))
    assert isinstance(body, EmailMessage)
    assert body.get_content().startswith("Hi")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.exe", b"x"), ("RUN.JS", b"x"), ("a.pdf.scr", b"x"), ("a.pdf", b"MZ\x90"),
        ("a.txt", b"#!/bin/sh"), ("a", b"\x7fELF"), ("empty.pdf", b""), ("...", b"x"), ("", b"x"),
    ],
)  # fmt: skip
def test_programs_and_nameless_files_are_refused(name: str, content: bytes) -> None:
    with pytest.raises(Invalid) as raised:
        describe_file(name, content)
    assert raised.value.field == "attachments"


@pytest.mark.parametrize(
    ("name", "kept", "kind"),
    [
        ("programme.pdf", "programme.pdf", "application/pdf"),
        ("C:\\Users\\ann\\plan.PDF", "plan.PDF", "application/pdf"),
        ("../../etc/passwd", "passwd", "application/octet-stream"),
        ('a"b\r\nX: y.txt', "ab\ufffd\ufffdX: y.txt", "text/plain"),
        ("page.html", "page.html", "application/octet-stream"),
        ("x" * 300 + ".csv", "x" * 116 + ".csv", "text/csv"),
    ],
)
def test_names_and_types_are_harmless(name: str, kept: str, kind: str) -> None:
    found = describe_file(name, b"content")
    assert (found.name, found.type, found.size) == (kept, kind, 7)


def test_files_are_limited_together() -> None:
    big = Attachment("a.pdf", "application/pdf", LARGEST_IN_TOTAL, "a" * 64)
    assert check_attachments([big]) == (big,)
    small = Attachment("b.pdf", "application/pdf", 1, "b" * 64)
    with pytest.raises(Invalid, match="at most 10"):
        check_attachments([big, small])
    with pytest.raises(Invalid, match="two files of this name"):
        check_attachments([small, small])
    with pytest.raises(Invalid, match="at most 20 files"):
        check_attachments([Attachment(f"{n}", "text/csv", 1, "c" * 64) for n in range(MOST + 1)])


def test_what_is_stored_is_read_back_and_forgeries_are_refused() -> None:
    kept = (describe_file("Übersicht.pdf", b"x"), describe_file("b.csv", b"y"))
    assert parse_stored(stored_text(kept)) == kept
    assert parse_stored("") == ()
    for forged in (
        "[", "{}", '[{"name":"a","type":"x\\r\\ny/z","size":1,"hash":"' + "a" * 64 + '"}]',
        '[{"name":"../a","type":"a/b","size":1,"hash":"' + "a" * 64 + '"}]',
        '[{"name":"a","type":"a/b","size":1,"hash":"../../x"}]',
    ):  # fmt: skip
        with pytest.raises(Invalid):
            parse_stored(forged)
