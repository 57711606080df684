"""Forms: request bodies limited in size, in UTF-8 only, and what to show if two people changed the
same thing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

# A browser does not read the response while it is still sending, so this much more of a body that
# is too large is read before it is refused.
_DRAINED = 16 * 1024 * 1024
_UTF_8 = (b"", b"utf-8", b"utf8")


def limited(request: Request, most: int) -> Receive:
    """Return the request's `receive`, which raises 413 once the body has more than `most` bytes."""
    announced = request.headers.get("content-length", "")
    is_too_large = announced.isdecimal() and len(announced) < 19 and int(announced) > most
    received = 0

    async def receive() -> Message:
        nonlocal received, is_too_large
        message = await request.receive()
        received += len(message.get("body", b""))
        is_too_large = is_too_large or received > most
        while is_too_large and message.get("more_body") and received < most + _DRAINED:
            message = await request.receive()
            received += len(message.get("body", b""))
        if is_too_large:
            size = f"{most // 1024**2} MB" if most >= 1024**2 else f"{most // 1024} KB"
            raise HTTPException(413, f"The request must not be larger than {size}.")
        return message

    return receive


async def read_form(
    request: Request, *, max_files: int, max_fields: int, max_part_size: int = 1024 * 1024
) -> FormData:
    """Return the form; 415 if its parts declare another encoding than UTF-8.

    Some encodings that a multipart form may declare take minutes to decode a megabyte, or yield
    text that cannot be written anywhere.
    """
    # Parse the header as the form parser does, so that both see the same charset.
    media_type, options = parse_options_header(request.headers.get("content-type"))
    charset = options.get(b"charset", b"").strip().lower()
    if media_type == b"multipart/form-data" and charset not in _UTF_8:
        raise HTTPException(415, "Nothing was changed. Send the form again, in UTF-8.")
    return await request.form(
        max_files=max_files, max_fields=max_fields, max_part_size=max_part_size
    )


class Difference(msgspec.Struct, frozen=True):
    """One field, as you typed it and as someone else saved it in the meantime."""

    label: str
    yours: str
    theirs: str


def differences(
    labels: Mapping[str, str], yours: Mapping[str, str], theirs: Mapping[str, str]
) -> list[Difference]:
    """Return the fields in which the two differ, in the order of `labels`."""
    return [
        Difference(label, yours[name], theirs[name])
        for name, label in labels.items()
        if yours[name].replace("\r\n", "\n") != theirs[name].replace("\r\n", "\n")
    ]
