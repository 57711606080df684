"""Bodies from files: any common encoding in, clean text out."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import LARGEST_BODY
from postroom.mail.bodies.body_files import clean_body, html_from_file, text_from_file

TEXT = "Grüße – “dear” reader, 5 €"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        TEXT.encode("cp1252"),
    ],
)
def test_a_text_file_is_read_in_every_common_encoding(data: bytes) -> None:
    assert text_from_file(data) == TEXT


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("windows-1252", TEXT),
        ("iso-8859-1", TEXT),  # as browsers read it
        ("iso-8859-2", "Zażółć gęślą jaźń"),
        ("windows-1251", "Привет, мир"),
        ("koi8-r", "Привет, мир"),
        ("euc-kr", "안녕하세요, 똠방각하"),
        ("ks_c_5601-1987", "안녕하세요"),
        ("shift_jis", "こんにちは、①"),
        ("iso-2022-jp", "こんにちは"),
        ("gb2312", "你好,世界"),
        ("big5", "你好"),
        ("UTF-8", "안녕 😀"),
    ],
)
@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="{}">',
        "<html><head><META http-equiv=Content-Type content='text/html; charset={}'>",
        '<?xml version="1.0" encoding="{}"?>',
    ],
)
def test_an_html_file_is_read_as_it_declares(charset: str, body: str, head: str) -> None:
    document = f"{head.format(charset)}<p>{body}</p>"
    written_as = {
        "iso-8859-1": "cp1252",
        "euc-kr": "cp949",
        "ks_c_5601-1987": "cp949",
        "shift_jis": "cp932",
    }
    assert html_from_file(document.encode(written_as.get(charset, charset))) == document


def test_utf8_that_declares_a_one_byte_encoding_is_still_utf8() -> None:
    document = f'<meta charset="windows-1252">{TEXT}'
    assert html_from_file(document.encode()) == document


@pytest.mark.parametrize(
    "name", ["no-such", "rot13", "base64", "unicode_escape", "utf-7", "idna", "utf-16", "x" * 99]
)
def test_an_implausible_declaration_is_ignored(name: str) -> None:
    document = f'<meta charset="{name}">{TEXT} \\u0041 +AEE-'
    assert html_from_file(document.encode()) == document
    assert html_from_file(document.encode("cp1252")) == document


@pytest.mark.parametrize("read", [html_from_file, text_from_file])
@pytest.mark.parametrize(
    "data", [b"a\r\nb\0c", b"\xff\xfea", b"\xef\xbb\xbf\xff", b"caf\x81 \x9d", b"PK\x03\x04\0\0\0"]
)
def test_a_value_that_is_not_text_is_refused(read: object, data: bytes) -> None:
    assert callable(read)
    with pytest.raises(Invalid):
        read(data)


def test_a_nul_is_reported_with_its_line() -> None:
    with pytest.raises(Invalid, match="line 3: contains a NUL"):
        clean_body("text", "a\r\nb\rc\0")


def test_half_a_character_is_refused() -> None:
    with pytest.raises(Invalid, match="line 2: contains half a character"):
        clean_body("text", "a\n\ud83d")


def test_line_ends_become_one_kind() -> None:
    assert text_from_file(b"a\r\nb\rc\nd\n\r\n\re") == "a\nb\nc\nd\n\n\ne"


def test_a_body_of_10_mb_is_taken_and_one_byte_more_is_refused() -> None:
    assert len(text_from_file(b"x" * LARGEST_BODY)) == LARGEST_BODY
    with pytest.raises(Invalid, match=r"text: must be at most 10 MB .* not 10,485,761 bytes"):
        text_from_file(b"x" * (LARGEST_BODY + 1))
    with pytest.raises(Invalid, match=r"html: must be at most 10 MB .* not 20,971,520 bytes"):
        html_from_file(b"\xe9" * LARGEST_BODY)  # larger in UTF-8, as it is kept and sent


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (html_from_file, text_from_file):
        try:
            text = read(data)
        except Invalid:
            continue
        assert "\r" not in text
        assert "\0" not in text
        text.encode()
