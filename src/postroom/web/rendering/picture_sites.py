"""From which sites a document may load pictures while someone writes or reads it here.

A browser in the organisation's network reaches hosts that an email has no business with: those of
that network, and the machine itself. Such addresses are never loaded.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_SITE: Final = re.compile(r"https?://[^\s\"'()<>\\/?#&;,]+", re.IGNORECASE)
_PICTURES: Final = re.compile(
    r"""\b(?:src|srcset|background)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)|url\([^)]*\)""", re.IGNORECASE
)
_PARTS: Final = re.compile(
    r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)+\.?)(:\d{1,5})?", re.ASCII
)
_PRIVATE_ENDINGS: Final = frozenset(
    {"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "arpa"}
)
_MOST: Final = 50


def picture_sites(document: str) -> list[str]:
    """Return the public sites that a document has pictures from, as sources of a content security
    policy. An address that is written in an unusual way is left out."""
    pictures = " ".join(_PICTURES.findall(document))
    found = dict.fromkeys(each.lower() for each in _SITE.findall(pictures))
    return [each for each in found if is_public_site(each)][:_MOST]


def is_public_site(site: str) -> bool:
    """Return whether this is a site like `https://www.example.com:8443`, outside of any private
    network as far as its name tells."""
    parts = _PARTS.fullmatch(site)
    if parts is None:
        return False
    host = parts[2].strip("[].")
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        last = host.rpartition(".")[2]
        # A name that ends with a number is an address in one of its older notations.
        return not last.isdigit() and not last.startswith("0x") and last not in _PRIVATE_ENDINGS
