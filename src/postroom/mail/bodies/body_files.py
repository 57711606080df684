"""Message bodies from uploaded files and forms, as clean text with `\\n` at its line ends.

The encoding of a file is detected in this order:

1. a byte order mark (UTF-8, UTF-16, UTF-32), or the pattern of UTF-16 without one;
2. the declaration of an HTML file, interpreted as browsers do;
3. UTF-8, which other encodings hardly ever resemble by chance. So it is tried before a declared
   one-byte encoding, which is often left over when a file is converted;
4. Windows-1252, which browsers also use for Latin-1.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import LARGEST_BODY
from postroom.mail.bodies.html import HEAD, declared_charset

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# https://encoding.spec.whatwg.org/#names-and-labels: names that stand for another encoding.
_AS_BROWSERS_DO: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "utf-16": "utf-8",  # the declaration was readable as ASCII, so it is wrong
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
_BROWSERS_ONLY: Final = {"ks_c_5601-1987": "cp949", "x-sjis": "cp932", "x-gbk": "gb18030"}
# Encodings for Python, but not of files.
_NO_ENCODINGS: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined", "mbcs"}
)
_LINE_END = re.compile(r"\r\n?")
_MEGABYTE = 1024 * 1024


def html_from_file(data: bytes, field: str = "html") -> str:
    """Return the text of an uploaded `.htm` or `.html` file; raise `Invalid`."""
    _check_size(field, len(data))
    return clean_body(field, _decoded(field, data, _declared(data[:HEAD])))


def text_from_file(data: bytes, field: str = "text") -> str:
    """Return the text of an uploaded `.txt` file; raise `Invalid`."""
    _check_size(field, len(data))
    return clean_body(field, _decoded(field, data, None))


def clean_body(field: str, text: str) -> str:
    """Return the body with `\\n` at its line ends; raise `Invalid` if it is too large or binary."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as exc:
        raise Invalid(field, f"line {_line(text, exc.start)}: contains half a character") from exc
    _check_size(field, size)
    nul = text.find("\0")
    if nul >= 0:
        raise Invalid(field, f"line {_line(text, nul)}: contains a NUL; is it a text file?")
    return _LINE_END.sub("\n", text)


def _check_size(field: str, size: int) -> None:
    if size > LARGEST_BODY:
        raise Invalid(
            field,
            f"must be at most {LARGEST_BODY // _MEGABYTE} MB ({LARGEST_BODY:,} bytes),"
            f" not {size:,} bytes",
        )


def _line(text: str, position: int) -> int:
    return 1 + len(re.findall(r"\r\n?|\n", text[:position]))


def _declared(head: bytes) -> str | None:
    """Return the codec that an HTML file declares; None if Python does not know it."""
    label = declared_charset(head)
    if not label:
        return None
    try:
        name = codecs.lookup(_BROWSERS_ONLY.get(label, label)).name
        "".encode(name)  # fails for codecs that are not text encodings
    except (LookupError, UnicodeError, TypeError):
        return None
    return None if name in _NO_ENCODINGS else _AS_BROWSERS_DO.get(name, name)


def _decoded(field: str, data: bytes, declared: str | None) -> str:
    marked = _marked(data)
    for codec in (marked,) if marked else _candidates(declared):
        try:
            return data.decode(codec).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    raise Invalid(field, "has an unknown encoding: save it as UTF-8")


def _marked(data: bytes) -> str | None:
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return codec
    head = data[:HEAD]
    half = len(head) // 2
    # In UTF-16, every other byte of markup, spaces and digits is 0 in any language.
    if half and head[1::2].count(0) > half // 3 and not head[0::2].count(0):
        return "utf-16-le"
    if half and head[0::2].count(0) > half // 3 and not head[1::2].count(0):
        return "utf-16-be"
    return None


def _candidates(declared: str | None) -> tuple[str, ...]:
    if declared is None:
        return ("utf-8", "cp1252")
    if _is_one_byte_encoding(declared):
        return ("utf-8", declared)
    return (declared, "utf-8", "cp1252")


def _is_one_byte_encoding(codec: str) -> bool:
    """Return whether most of the upper bytes are single characters."""
    upper = bytes(range(0x80, 0x100))
    return len(upper.decode(codec, "ignore")) > len(upper) // 2
