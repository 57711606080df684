"""Attached files as MIME parts (RFC 2046 5.1.3, RFC 2183)."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from postroom.mail.personal.slots import Pieces

_BYTES_PER_LINE: Final = 57  # 76 characters in base64 (RFC 2045 6.8)


class AttachedFile(msgspec.Struct, frozen=True):
    """A file with its content."""

    name: str
    type: str
    content: bytes


def with_attachments(content: Pieces, files: Sequence[AttachedFile]) -> Pieces:
    """Return the content of an email, from `Content-Type` on, with files; without any, as it is."""
    if not files:
        return content
    boundary = _boundary(content, files)
    pieces: Pieces = [
        b'Content-Type: multipart/mixed;\r\n boundary="%b"\r\n\r\n--%b\r\n' % (boundary, boundary),
        *content,
    ]
    for each in files:
        pieces += [b"\r\n--%b\r\n" % boundary, _head(each), _base64(each.content)]
    return [*pieces, b"\r\n--%b--\r\n" % boundary]


def _head(file: AttachedFile) -> bytes:
    return (
        f"Content-Type: {file.type}\r\nContent-Disposition: attachment;\r\n"
        f" {_file_name(file.name)}\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    ).encode("ascii")


def _file_name(name: str) -> str:
    """Return the parameter with the name; beyond ASCII as RFC 2231 says, in one piece."""
    if name.isascii() and not set(name) & set('"\\'):
        return f'filename="{name}"'
    return f"filename*=UTF-8''{quote(name, safe='')}"


def _base64(content: bytes) -> bytes:
    lines = (
        binascii.b2a_base64(content[start : start + _BYTES_PER_LINE], newline=False)
        for start in range(0, len(content), _BYTES_PER_LINE)
    )
    return b"\r\n".join(lines) + b"\r\n"


def _boundary(content: Pieces, files: Sequence[AttachedFile]) -> bytes:
    """Return a boundary that is always the same for the same content. It begins with `=_`, which
    occurs neither in quoted-printable nor in base64, and differs from the inner one."""
    hashed = hashlib.blake2b(b"mixed", digest_size=12, usedforsecurity=False)
    static = [each for each in content if isinstance(each, bytes)]
    for piece in [*static, *(each.content for each in files)]:
        hashed.update(piece)
    while True:
        boundary = b"=_" + hashed.hexdigest().encode("ascii")
        if not any(boundary in each for each in static):
            return boundary
        hashed.update(boundary)
