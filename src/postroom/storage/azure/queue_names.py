"""Queue names, and those of leases, as Azure can keep them: 3 to 63 of `a-z 0-9 -`.

`mail/send` is `pr-mailz2fsend`: letters up to `y` and digits stay, every other byte of the UTF-8
form is `z` and two hexadecimal digits. A name that gets too long for that is `prx-` and the
beginning of its SHA-256 checksum. Both ways two names never meet. The real name stands beside it in
the metadata, which says the last word when queues are listed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

PREFIX: Final = "pr"
_READABLE: Final = "pr-"
_HASHED: Final = "prx-"
_LONGEST: Final = 63
_HASH_DIGITS: Final = 48
_REAL_NAME: Final = "postroomname"

_OTHER = re.compile(rb"[^a-y0-9]")


def azure_name(name: str) -> str:
    """The name under which Azure keeps the queue `name`."""
    escaped = _OTHER.sub(lambda found: b"z%02x" % found[0][0], name.encode()).decode("ascii")
    if len(_READABLE) + len(escaped) <= _LONGEST:
        return _READABLE + escaped
    return _HASHED + hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]


def metadata_of(name: str) -> dict[str, str]:
    """What is kept beside a queue: its real name. Metadata are HTTP headers, so ASCII only."""
    return {_REAL_NAME: quote(name, safe="")}


def real_name(azure: str, metadata: Mapping[str, str] | None) -> str | None:
    """The real name of a queue that is in the account; None if it is not one of ours."""
    quoted = (metadata or {}).get(_REAL_NAME)
    if quoted is None:
        return None
    name = unquote(quoted)
    return name if azure_name(name) == azure else None
