"""Bodies of messages: from an uploaded file or a form to clean text with `\\n` at its line ends.

The encoding of a file is found in this order:

1. a byte order mark (UTF-8, UTF-16, UTF-32), or the pattern of UTF-16 without one;
2. what an HTML file declares, as browsers understand the name;
3. UTF-8, which beyond ASCII nothing else looks like by chance. So it also goes before a declared
   one-byte encoding, which is often left behind when a file is converted;
4. Windows-1252, which is also how browsers read what calls itself Latin-1.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import LARGEST_BODY
from postroom.mail.html.plaintext import text_from_html

__all__ = ["clean_body", "html_from_file", "text_from_file", "text_from_html"]

# The longer mark first: that of UTF-32 begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(
    rb"<meta\b[^>]{0,200}?\bcharset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)"
    rb"|^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z0-9_:.-]+)",
    re.IGNORECASE,
)
_HEAD = 4096
# https://encoding.spec.whatwg.org/#names-and-labels: the names that mean more than they say.
_AS_BROWSERS_DO: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "utf-16": "utf-8",  # declared in letters of one byte each, so it is not what it says
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
_BROWSERS_ONLY: Final = {"ks_c_5601-1987": "cp949", "x-sjis": "cp932", "x-gbk": "gb18030"}
# Python calls these encodings too, but no file is written in them.
_NO_ENCODINGS: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined", "mbcs"}
)
_LINE_END = re.compile(r"\r\n?")
_MEGABYTE = 1024 * 1024


def html_from_file(data: bytes, field: str = "html") -> str:
    """The text of an uploaded `.htm` or `.html` file."""
    _check_size(field, len(data))
    return clean_body(field, _decoded(field, data, _declared(data[:_HEAD])))


def text_from_file(data: bytes, field: str = "text") -> str:
    """The text of an uploaded `.txt` file."""
    _check_size(field, len(data))
    return clean_body(field, _decoded(field, data, None))


def clean_body(field: str, text: str) -> str:
    """The body with `\\n` at its line ends; `Invalid` if it is too large or no text."""
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
            f"has {size:,} bytes; "
            f"a body may have {LARGEST_BODY // _MEGABYTE} MB ({LARGEST_BODY:,})",
        )


def _line(text: str, position: int) -> int:
    return 1 + len(re.findall(r"\r\n?|\n", text[:position]))


def _declared(head: bytes) -> str | None:
    """The codec that an HTML file declares; None if it declares none that Python knows."""
    found = _DECLARED.search(head)
    if found is None:
        return None
    label = (found[1] or found[2]).decode("ascii").lower()
    try:
        name = codecs.lookup(_BROWSERS_ONLY.get(label, label)).name
        "".encode(name)  # refuses codecs that are no text encodings
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
    raise Invalid(field, "is in an encoding that we cannot read: save it as UTF-8")


def _marked(data: bytes) -> str | None:
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return codec
    head = data[:_HEAD]
    half = len(head) // 2
    # Every other byte of ordinary UTF-16 is 0: markup, spaces and digits are ASCII in any language.
    if half and head[1::2].count(0) > half // 3 and not head[0::2].count(0):
        return "utf-16-le"
    if half and head[0::2].count(0) > half // 3 and not head[1::2].count(0):
        return "utf-16-be"
    return None


def _candidates(declared: str | None) -> tuple[str, ...]:
    if declared is None:
        return ("utf-8", "cp1252")
    if _has_one_byte_a_character(declared):
        return ("utf-8", declared)
    return (declared, "utf-8", "cp1252")


def _has_one_byte_a_character(codec: str) -> bool:
    """The others take two of these bytes, or more, for a character, or none of them."""
    upper = bytes(range(0x80, 0x100))
    return len(upper.decode(codec, "ignore")) > len(upper) // 2
