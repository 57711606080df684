"""Checks of names and keys: all engines accept and refuse the same ones."""

from __future__ import annotations

import re
from collections.abc import Collection

from postroom.storage import limits
from postroom.storage.errors import InvalidKey, InvalidName

_TABLE = re.compile(r"[a-z][a-z0-9]{2,62}")
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*")
# `tables` is a path of Azure's own; `postroom-system` holds leases and the schema version.
_RESERVED = {"tables", "postroom-system"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NOT_IN_A_PATH = re.compile(r"[\\\ufffe\uffff]")

# Characters that take more than one unit in an Azure key; `azure.encoding` explains how and why.
_TWO_UNITS = re.compile(r"[#%'/?\\]")
_SEVEN_UNITS = re.compile(r"[\ue000-\U0010ffff]")
_SHORT_KEY = limits.KEY_UNITS // 2  # of ASCII, it fits even if each character needs two


def check_table_name(name: str) -> str:
    if not isinstance(name, str) or not _TABLE.fullmatch(name) or name in _RESERVED:
        raise InvalidName(
            f"table {_shown(name)}: a name must have 3 to 63 lower-case letters and"
            " digits, begin with a letter, and not be 'tables'"
        )
    return name


def check_container_name(name: str) -> str:
    if not isinstance(name, str) or not _CONTAINER.fullmatch(name) or name in _RESERVED:
        raise InvalidName(
            f"container {_shown(name)}: a name must have 3 to 63 lower-case letters, digits"
            " and single hyphens between them, and must not be reserved"
        )
    return name


def check_queue_name(name: str) -> str:
    """Check a path such as `mail/send` or `shop/Orders;retry`: any printable text."""
    _check_printable("queue", name)
    if len(name) > limits.QUEUE_NAME_CHARACTERS:
        raise InvalidName(
            f"queue {_shown(name)}: must have at most {limits.QUEUE_NAME_CHARACTERS} characters"
        )
    return name


def check_lease_name(name: str) -> str:
    _check_printable("lease", name)
    if len(name) > limits.LEASE_NAME_CHARACTERS:
        raise InvalidName(
            f"lease {_shown(name)}: must have at most {limits.LEASE_NAME_CHARACTERS} characters"
        )
    return name


def check_blob_name(name: str) -> str:
    """Check for a clean relative path: others change their meaning in a URL, as on Azure."""
    _check_printable("blob", name)
    if len(name.encode()) > limits.BLOB_NAME_BYTES:
        raise InvalidName(f"blob {_shown(name)}: must be at most {limits.BLOB_NAME_BYTES} bytes")
    parts = name.split("/")
    if (
        _NOT_IN_A_PATH.search(name)
        or len(parts) > limits.BLOB_NAME_SEGMENTS
        or any(not part or part.endswith(".") for part in parts)
    ):
        raise InvalidName(
            f"blob {_shown(name)}: a name must be a relative path without backslash, of up"
            f" to {limits.BLOB_NAME_SEGMENTS} segments, none of them empty or ending with a dot"
        )
    return name


def check_key(key: str) -> str:
    """Check a partition or row key: 1 to 512 characters, none of them a control character."""
    if type(key) is str and key.isascii() and key.isprintable() and 0 < len(key) <= _SHORT_KEY:
        return key  # the common case, without a regular expression
    if not isinstance(key, str):
        raise InvalidKey(f"a key must be text, not {type(key).__name__}")
    if not key:
        raise InvalidKey("a key must not be empty")
    if _CONTROL.search(key):
        raise InvalidKey(f"key {_shown(key)}: must not contain control characters")
    if _SURROGATE.search(key):
        raise InvalidKey(f"key {_shown(key)}: must not contain half a surrogate pair")
    if key_units(key) > limits.KEY_UNITS or len(key.encode()) > limits.KEY_BYTES:
        raise InvalidKey(
            f"key {_shown(key)}: must have at most {limits.KEY_UNITS} characters and"
            f" {limits.KEY_BYTES} bytes"
        )
    return key


def check_keys(keys: Collection[str]) -> None:
    """Check many keys at once, in the common case in a few steps for all of them."""
    try:
        together = "".join(keys)
    except TypeError:
        together = "\0"  # one of them is not text: found below
    if together.isascii() and together.isprintable() and keys:
        lengths = [*map(len, keys)]
        if min(lengths) and max(lengths) <= _SHORT_KEY:
            return
    for key in keys:
        check_key(key)


def key_units(key: str) -> int:
    """Return the length of the key on Azure, where space is scarcest."""
    return len(key) + len(_TWO_UNITS.findall(key)) + 6 * len(_SEVEN_UNITS.findall(key))


def _check_printable(kind: str, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidName(f"a {kind} must have a name")
    if _CONTROL.search(name) or _SURROGATE.search(name):
        raise InvalidName(f"{kind} {_shown(name)}: must not contain control characters")


def _shown(name: object) -> str:
    """Return the name for an error message, whatever it contains."""
    shown = ascii(name)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
