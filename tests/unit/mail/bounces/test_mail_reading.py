"""Mails that are taken apart to be shown."""

from __future__ import annotations

import tracemalloc

import pytest

from postroom.mail.mail_reader import read_mail, read_subject

MAIL = (
    b"From: =?utf-8?q?J=C3=BCrgen?= <j@example.com>\r\nTo: a@example.com\r\n"
    b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/alternative; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\n"
    b"--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>Hi</p>\r\n--b--\r\n"
)


def test_headers_and_both_parts_are_decoded() -> None:
    mail = read_mail(MAIL)
    assert mail.subject == read_subject(MAIL) == "Grüße"
    assert ("From", "Jürgen <j@example.com>") in mail.headers
    assert mail.text is not None
    assert mail.text.strip() == "Grüße"
    assert mail.html is not None
    assert mail.html.strip() == "<p>Hi</p>"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"Subject: only headers\r\n",
        b"Content-Type: text/plain; charset=no-such-charset\r\n\r\n\xe4",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\nno boundary anywhere",
        b"Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n***",
        b"Subject: =?utf-8?b?broken\r\n\r\nx",
    ],
)
def test_whatever_a_file_holds_can_be_opened(content: bytes) -> None:
    mail = read_mail(content)
    assert isinstance(mail.subject, str)
    assert isinstance(read_subject(content), str)


def test_a_very_long_name_takes_no_more_memory_than_its_length() -> None:
    name = b" ".join([b"=?utf-8?q?J=C3=BCrgen?="] * 20_000)
    tracemalloc.start()
    try:
        mail = read_mail(b"From: " + name + b" <j@example.com>\r\n\r\nHi")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert mail.headers[0][1].startswith("JürgenJürgen")
    assert peak < 100_000_000
