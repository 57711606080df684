"""How a form is read from a request: as UTF-8, whatever the sender says."""

from __future__ import annotations

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request

_UTF_8 = (b"", b"utf-8", b"utf8")


async def read_form(
    request: Request, *, max_files: int, max_fields: int, max_part_size: int = 1024 * 1024
) -> FormData:
    """The form; 415 if its fields are said to be in another encoding than UTF-8.

    Only in parts does a sender's word count at all, and some of the encodings that can be named
    there take minutes for a megabyte, or give text that cannot be written anywhere.
    """
    # The parser that will divide the body reads the header, so that both see the same charset.
    media_type, options = parse_options_header(request.headers.get("content-type"))
    charset = options.get(b"charset", b"").strip().lower()
    if media_type == b"multipart/form-data" and charset not in _UTF_8:
        raise HTTPException(415, "Nothing was changed. Send the form again, in UTF-8.")
    return await request.form(
        max_files=max_files, max_fields=max_fields, max_part_size=max_part_size
    )
