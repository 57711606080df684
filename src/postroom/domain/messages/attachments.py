"""Files attached to messages: their names, types and sizes, and which are refused."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.plain_text import printable
from postroom.domain.units import show_size

LARGEST_IN_TOTAL: Final = 10 * 1024 * 1024
"""Bytes of all attachments of a message. Encoded they are a third more, and many mail servers
accept emails of up to 20 MB."""

LARGE: Final = 1024 * 1024
"""From here on there is a warning: everyone on the list gets these bytes."""

MOST: Final = 20
LONGEST_NAME: Final = 120

# What Gmail and Outlook refuse, because a click runs it.
# https://support.google.com/mail/answer/6590
_EXECUTABLE: Final = frozenset(
    {
        "ade", "adp", "apk", "app", "appx", "appxbundle", "bat", "cab", "chm", "cmd", "com",
        "command", "cpl", "diagcab", "dll", "dmg", "exe", "ex_", "gadget", "hta", "img", "ins",
        "inf", "iso", "isp", "jar", "jnlp", "js", "jse", "lib", "lnk", "mde", "mjs", "msc",
        "msi", "msix", "msixbundle", "msp", "mst", "nsh", "osx", "out", "pif", "pl", "ps1",
        "ps1xml", "ps2", "psc1", "psm1", "py", "pyc", "pyw", "reg", "rgs", "run", "scf", "scr",
        "sct", "sh", "shb", "sys", "url", "vb", "vbe", "vbs", "vhd", "vhdx", "vxd", "wsc", "wsf",
        "wsh", "xll",
    }
)  # fmt: skip
# The beginnings of programs, whatever a file is called: Windows, Linux, macOS, scripts.
_PROGRAMS: Final = (b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"#!")
_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}")
_OCTETS: Final = "application/octet-stream"
# A browser or email program would show these as pages, with scripts.
_SENT_AS_OCTETS: Final = frozenset({"text/html", "application/xhtml+xml", "image/svg+xml"})
# Python's table depends on the machine.
_KNOWN_TYPES: Final = mimetypes.MimeTypes()


class Attachment(msgspec.Struct, frozen=True):
    """An attached file; its content is a blob that its hash names."""

    name: str
    type: str
    size: int
    hash: str


def describe_file(name: str, content: bytes, field: str = "attachments") -> Attachment:
    """Return the details of a file, without its content. `Invalid` if it may not be attached."""
    clean = _clean_name(name, field)
    extension = clean.rpartition(".")[2].lower() if "." in clean else ""
    if extension in _EXECUTABLE:
        raise Invalid(field, f"{clean}: files that run programs (.{extension}) are not allowed")
    if content.startswith(_PROGRAMS):
        raise Invalid(field, f"{clean}: programs are not allowed, whatever their name is")
    if not content:
        raise Invalid(field, f"{clean}: is empty")
    return Attachment(clean, _type_of(clean), len(content), hashlib.sha256(content).hexdigest())


def check_attachments(
    attachments: Sequence[Attachment], field: str = "attachments"
) -> tuple[Attachment, ...]:
    """Return the attachments of a message. `Invalid` if there are too many or they are too
    large."""
    if len(attachments) > MOST:
        raise Invalid(field, f"must be at most {MOST} files, not {len(attachments)}")
    total = sum(each.size for each in attachments)
    if total > LARGEST_IN_TOTAL:
        raise Invalid(
            field,
            f"must be at most {show_size(LARGEST_IN_TOTAL)} in total, not {show_size(total)}",
        )
    names = [each.name.casefold() for each in attachments]
    twice = next((each.name for each in attachments if names.count(each.name.casefold()) > 1), "")
    if twice:
        raise Invalid(field, f"{twice}: there are two files of this name")
    return tuple(attachments)


def parse_stored(text: str, field: str = "attachments") -> tuple[Attachment, ...]:
    """Return attachments from JSON, as the store and forms have them. `Invalid`."""
    if not text:
        return ()
    try:
        found = msgspec.json.decode(text, type=tuple[Attachment, ...])
    except msgspec.DecodeError as exc:
        raise Invalid(field, "is not a list of files") from exc
    for each in found:
        is_sound = _HASH.fullmatch(each.hash) and _TYPE.fullmatch(each.type) and each.size > 0
        if not is_sound or each.name != _clean_name(each.name, field):
            raise Invalid(field, "is not a list of files")
    return check_attachments(found, field)


def stored_text(attachments: Sequence[Attachment]) -> str:
    """Return attachments as JSON; "" for none."""
    return msgspec.json.encode(attachments).decode() if attachments else ""


def _clean_name(name: str, field: str) -> str:
    """Return the name of a file without its path."""
    last = re.split(r"[/\\]", name)[-1]
    clean = " ".join(printable(last, longest=500).replace('"', "").split()).strip(". ")
    if not clean:
        raise Invalid(field, "each file needs a name")
    if len(clean) <= LONGEST_NAME:
        return clean
    stem, dot, extension = clean.rpartition(".")
    if not dot or len(extension) > 10:
        return clean[:LONGEST_NAME]
    return f"{stem[: LONGEST_NAME - len(extension) - 1]}.{extension}"


def _type_of(name: str) -> str:
    found = (_KNOWN_TYPES.guess_type(f"x.{name.rpartition('.')[2]}")[0] or _OCTETS).lower()
    if found in _SENT_AS_OCTETS or not _TYPE.fullmatch(found):
        return _OCTETS
    return found
