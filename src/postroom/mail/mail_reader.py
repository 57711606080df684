"""Reads an email back: headers, text and HTML."""

from __future__ import annotations

from email import policy
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesHeaderParser, BytesParser

import msgspec


class ReadMail(msgspec.Struct, frozen=True):
    """A parsed email. `headers` are decoded and in order; a missing body is None."""

    headers: list[tuple[str, str]]
    text: str | None
    html: str | None

    @property
    def subject(self) -> str:
        return next((value for name, value in self.headers if name.lower() == "subject"), "")


def read_mail(content: bytes) -> ReadMail:
    """Parse any bytes, leaving out what cannot be read. Never raises."""
    mail = BytesParser(policy=policy.default).parsebytes(content)
    return ReadMail(_headers(mail), _body(mail, "plain"), _body(mail, "html"))


def read_subject(content: bytes) -> str:
    """Return only the subject, which is faster."""
    mail = BytesHeaderParser(policy=policy.default).parsebytes(content)
    return next((value for name, value in _headers(mail) if name.lower() == "subject"), "")


def _headers(mail: EmailMessage) -> list[tuple[str, str]]:
    return [(name, _decoded(value)) for name, value in mail.raw_items()]


def _decoded(value: str) -> str:
    """Return a header as people read it.

    The parser of Python's newer email policies takes gigabytes for an address with a long name.
    """
    unfolded = "".join(value.splitlines())
    text = unfolded.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return str(make_header(decode_header(text)))
    except (MessageError, LookupError, ValueError):
        return text


def _body(mail: EmailMessage, kind: str) -> str | None:
    try:
        part = mail.get_body((kind,))
        content = None if part is None else part.get_content()
    except (MessageError, LookupError, ValueError, AttributeError):
        return None
    return content if isinstance(content, str) else None
