"""Attached files in requests about messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from postroom.domain.errors import Invalid
from postroom.domain.messages.attachments import (
    LARGEST_IN_TOTAL,
    LONGEST_NAME,
    MOST,
    Attachment,
    describe_file,
)
from postroom.web.api.field_types import Body, Text

LARGEST_BODY = LARGEST_IN_TOTAL * 4 // 3 + 64 * 1024
"""Bytes of all attachments in a request."""

_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class NewAttachment(Body):
    """A file, with its content in base64; or the hash of one that the message already has."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    name: Annotated[
        Text | None, Field(min_length=1, max_length=LONGEST_NAME, examples=["programme.pdf"])
    ] = None
    content: Annotated[
        str | None, Field(pattern=_BASE64, min_length=4, description="The file in base64.")
    ] = None
    hash: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{64}$", description="Keep the file with this SHA-256."),
    ] = None


Attachments = Annotated[
    list[NewAttachment],
    Field(
        max_length=MOST,
        description="All files, up to 10 MB together. Files that run programs are refused.",
    ),
]


def read_attachments(
    given: Sequence[NewAttachment], known: Sequence[Attachment] = ()
) -> tuple[tuple[Attachment, ...], dict[str, bytes]]:
    """Return the attachments, and the contents of new ones by their hashes. `Invalid`."""
    by_hash = {each.hash: each for each in known}
    found: list[Attachment] = []
    contents: dict[str, bytes] = {}
    for each in given:
        if each.hash is not None and each.content is None and each.name is None:
            if each.hash not in by_hash:
                raise Invalid("attachments", f"the message has no file {each.hash[:8]}…")
            found.append(by_hash[each.hash])
            continue
        if each.hash is not None or each.name is None or each.content is None:
            raise Invalid("attachments", "each file needs a name and content, or only its hash")
        try:
            content = base64.b64decode(each.content, validate=True)
        except binascii.Error as exc:
            raise Invalid("attachments", f"{each.name}: content must be base64") from exc
        attachment = describe_file(each.name, content)
        found.append(attachment)
        contents[attachment.hash] = content
    return tuple(found), contents
