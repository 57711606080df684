"""A second opinion on raw mails, line by line, that knows nothing of how they are made."""

from __future__ import annotations

import email
import email.policy
import re
from email.message import EmailMessage

LONGEST_LINE = 998  # RFC 5322 2.1.1
_HEADER = re.compile(rb"([A-Za-z][A-Za-z-]*): (\S.*)")
_FRAME = re.compile(
    r'<!DOCTYPE html>\n<html lang="\w+">\n<head>\n.*?'
    r'<div style="max-width:600px;margin:0 auto">\n(.*)</div>\n</body>\n</html>\n',
    re.DOTALL,
)
_ENCODED_WORD = re.compile(rb"=\?[^?\s]*\?[qQbB]\?[^?\s]*\?=")


def check_lines(raw: bytes) -> list[bytes]:
    """CRLF only, at the end too; no line too long, none that SMTP or a mailbox would change."""
    assert raw.endswith(b"\r\n")
    assert b"\0" not in raw
    without_ends = raw.replace(b"\r\n", b"")
    assert b"\r" not in without_ends
    assert b"\n" not in without_ends
    assert b"\r\n." not in raw
    lines = raw[:-2].split(b"\r\n")
    assert max(map(len, lines)) <= LONGEST_LINE
    return lines


def read_headers(raw: bytes, *, smtputf8: bool = False) -> dict[str, bytes]:
    """The headers of an email, unfolded; each occurs once, in ASCII unless SMTPUTF8 is used."""
    found: dict[str, bytes] = {}
    name = ""
    for line in raw.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        assert smtputf8 or line.isascii(), line
        for word in _ENCODED_WORD.findall(line):
            assert len(word) <= 75
            assert len(line) <= 76
        if line.startswith(b" "):
            assert line.strip(), "a line of a header that is only spaces"
            found[name] += line
            continue
        header = _HEADER.fullmatch(line)
        assert header, line
        name = header[1].decode().lower()
        assert name not in found, f"{name} is there twice"
        found[name] = header[2]
    return found


def check_quoted_printable(body: bytes) -> None:
    for line in body.split(b"\r\n"):
        assert len(line) <= 76
        assert not line.endswith((b" ", b"\t"))
        assert not line.startswith(b"From ")
        assert re.fullmatch(rb"(?:[\t -<>-~]|=[0-9A-F]{2})*=?", line), line


def parse(raw: bytes, *, smtputf8: bool = False) -> EmailMessage:
    """The mail as the standard library reads it, with everything checked on the way."""
    check_lines(raw)
    headers = read_headers(raw, smtputf8=smtputf8)
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert {name.lower() for name in message} == headers.keys()
    assert len(message.keys()) == len(headers)
    for part in message.walk():
        assert not part.defects
        for value in part.values():
            assert not [each for each in value.defects if not smtputf8], value.defects
        if part["content-transfer-encoding"] == "quoted-printable":
            written = part.get_payload()
            assert isinstance(written, str)
            check_quoted_printable(written.encode("ascii"))
    return message


def bodies(message: EmailMessage) -> dict[str, str]:
    """The decoded bodies by media type, in order, their lines ending in `\\n`: what the author
    wrote, and what was inserted, without the document around a fragment of HTML."""
    return {
        part.get_content_type(): without_frame(_content(part))
        for part in message.walk()
        if not part.is_multipart()
    }


def without_frame(document: str) -> str:
    found = _FRAME.fullmatch(document)
    return found[1] if found else document


def _content(part: EmailMessage) -> str:
    decoded = part.get_payload(decode=True)
    assert isinstance(decoded, bytes)
    assert part.get_content_charset() == "utf-8"
    return decoded.decode().replace("\r\n", "\n")
