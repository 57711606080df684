"""Where a URL that an email program would load leads, read as browsers read it."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from typing import Final
from urllib.parse import unquote

_IGNORED: Final = re.compile(r"[\x00-\x20]+")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST_END: Final = re.compile(r"[/?#]")
# Browsers also accept 127.1, 0x7f.1 and 2130706433.
_NUMBERS: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}")
_INSIDE_NETWORKS: Final = (".local", ".internal", ".home.arpa")
_LOADED_SCHEMES: Final = frozenset({"http", "https", "cid", "mid"})

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def scheme_of(url: str) -> str:
    """Return the scheme in lower case; "" for a relative URL."""
    found = _SCHEME.match(_IGNORED.sub("", url))
    return found[1].lower() if found else ""


def loaded_host(url: str) -> str:
    """Return the host that a browser would load a URL from; "" if it would not use the network."""
    cleaned = _IGNORED.sub("", url).replace("\\", "/")
    scheme = scheme_of(cleaned)
    if scheme in ("http", "https"):
        rest = cleaned[len(scheme) + 1 :]
    elif not scheme and cleaned.startswith("//"):
        rest = cleaned
    else:
        return ""
    place = _HOST_END.split(rest.lstrip("/"), maxsplit=1)[0].rpartition("@")[2]
    host = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
    return unicodedata.normalize("NFKC", unquote(host)).lower().rstrip(".")


def is_own_machine(host: str) -> bool:
    """Return whether a reader's program would look for this host on the reader's own machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    found = _ip_address(host)
    return found is not None and (found.is_loopback or found.is_unspecified or found.is_link_local)


def is_unreachable(host: str) -> bool:
    """Return whether a host can only be reached from inside a network, or not at all."""
    if is_own_machine(host) or host.endswith(_INSIDE_NETWORKS):
        return True
    found = _ip_address(host)
    return found is not None and not found.is_global


def may_be_loaded(url: str, own_host: str) -> bool:
    """Return whether an email may load this URL. Nothing is loaded from files, programs or the
    reader's own machine, unless Postroom itself is there."""
    scheme = scheme_of(url)
    if scheme == "data":
        return _IGNORED.sub("", url)[:11].lower() == "data:image/"
    if scheme and scheme not in _LOADED_SCHEMES:
        return False
    host = loaded_host(url)
    return host == own_host or not is_own_machine(host)


def _ip_address(host: str) -> IpAddress | None:
    try:
        if _NUMBERS.fullmatch(host):
            return ipaddress.IPv4Address(socket.inet_aton(host))
        found = ipaddress.ip_address(host.partition("%")[0])
    except (OSError, ValueError):
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
