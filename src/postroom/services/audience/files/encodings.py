"""The encodings of CSV files: which are supported, and whether a file is in the one it claims."""

from __future__ import annotations

import codecs
import threading
from typing import BinaryIO, Final

from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown

_PIECE = 256 * 1024  # bytes per read

# Encodings in which people save files, by Python's names. Not all that Python knows: some take
# minutes per megabyte, and some produce text that cannot be encoded again.
_ENCODINGS: Final = frozenset({
    "ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le",
    "utf-32-be",
    "iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7",
    "iso8859-8", "iso8859-9",
    "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16",
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258",
    "cp437", "cp720", "cp737", "cp775", "cp850", "cp852", "cp855", "cp856", "cp857", "cp858",
    "cp860", "cp861", "cp862", "cp863", "cp864",
    "cp865", "cp866", "cp869", "cp874", "cp932", "cp949", "cp950", "cp1006", "cp1125",
    "cp037", "cp273", "cp424", "cp500", "cp875", "cp1026", "cp1140",
    "koi8-r", "koi8-t", "koi8-u", "kz1048", "ptcp154", "tis-620", "hp-roman8",
    "mac-croatian", "mac-cyrillic", "mac-greek", "mac-iceland", "mac-latin2", "mac-roman",
    "mac-romanian", "mac-turkish",
    "big5", "big5hkscs", "gb2312", "gbk", "gb18030", "johab", "euc_jp", "euc_jis_2004",
    "euc_jisx0213", "euc_kr",
    "shift_jis", "shift_jis_2004", "shift_jisx0213",
    "iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3",
    "iso2022_jp_ext", "iso2022_kr",
})  # fmt: skip


def checked_encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except (LookupError, UnicodeError, ValueError) as exc:
        raise Invalid("encoding", f"there is no encoding {shown(name)!r}") from exc
    if found not in _ENCODINGS:
        raise Invalid(
            "encoding",
            f"{shown(name)!r} is not supported: save the file as UTF-8",
        )
    return "utf-8-sig" if found == "utf-8" else found


def marked_encoding(file: BinaryIO) -> str:
    """Return the encoding by the byte-order mark; without one it can only be UTF-8."""
    file.seek(0)
    head = file.read(4)
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if 0 in head[:2]:
        order = "le" if head[1:2] == b"\0" else "be"
        raise Invalid(
            "file",
            f"looks like UTF-16 without a byte-order mark: name its encoding, utf-16-{order}, or"
            " save it as UTF-8",
        )
    return "utf-8-sig"


def check_decodes(file: BinaryIO, encoding: str, stop: threading.Event, *, was_given: bool) -> None:
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    while not stop.is_set():
        piece = file.read(_PIECE)
        try:
            decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as exc:
            line += exc.object[: exc.start].count(b"\n")
            raise Invalid("file", _not_decoded(line, encoding, was_given)) from exc
        except UnicodeError as exc:  # UTF-16 or UTF-32 without a byte-order mark
            raise Invalid(
                "file",
                f"has no byte-order mark, which {encoding} needs: name {encoding}-le or"
                f" {encoding}-be, or save it as UTF-8",
            ) from exc
        if not piece:
            return
        line += piece.count(b"\n")


def _not_decoded(line: int, encoding: str, was_given: bool) -> str:
    if was_given:
        return f"line {line} is not in {encoding}: name another encoding, or save it as UTF-8"
    name = encoding.removesuffix("-sig").upper()
    return (
        f"line {line} is not in {name}: save the file as UTF-8, or name the encoding that it is in"
        " (such as windows-1252)"
    )
