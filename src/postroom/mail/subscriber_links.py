"""Links in emails: the same for all recipients except for the subscriber's GUID."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import msgspec

from postroom.domain.audience.lists import ListName
from postroom.domain.errors import Invalid
from postroom.mail.wire_addresses import ascii_domain

# Characters of RFC 3986 without those that end a link in a header (`<>`), and without a query or
# fragment, which would swallow ours. Text beyond ASCII is encoded first.
_BASE = re.compile(r"https?://[A-Za-z0-9\-._~:\[\]]+(?:/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*)?")
_LONGEST_BASE = 500
_DOMAIN_NAME = re.compile(r"(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*[a-z0-9]")


class Link(msgspec.Struct, frozen=True):
    """A URL in two parts, with the GUID between them."""

    before: str
    after: str


def unsubscribe_link(base_url: str, list_name: ListName) -> Link:
    return _link(base_url, "unsubscribe", list_name)


def confirm_link(base_url: str, list_name: ListName, language: str = "") -> Link:
    """Return the link; without a language, the page uses the browser's."""
    link = _link(base_url, "confirm", list_name)
    return Link(link.before, f"{link.after}&lang={quote(language, safe='')}") if language else link


def host_name(base_url: str) -> str | None:
    """Return the domain name in the base URL; None for an IP address or a single word, which mean
    nothing elsewhere."""
    host = urlsplit(_ascii_base(base_url)).hostname or ""
    return host if _DOMAIN_NAME.fullmatch(host) else None


def _link(base_url: str, page: str, list_name: ListName) -> Link:
    base = _ascii_base(base_url)
    return Link(f"{base}/{page}?id=", f"&listName={quote(list_name, safe='')}")


def _ascii_base(base_url: str) -> str:
    """Return the base URL in ASCII, without a slash at its end; raise `Invalid`."""
    # Python's parser silently drops line ends, so they are checked first.
    if base_url.isprintable() and " " not in base_url:
        scheme, _, rest = base_url.partition("://")
        host, slash, path = rest.partition("/")
        name, colon, port = host.partition(":") if not host.isascii() else (host, "", "")
        base = f"{scheme.lower()}://{ascii_domain(name)}{colon}{port}{slash}{_quoted(path)}"
        if len(base) <= _LONGEST_BASE and _BASE.fullmatch(base):
            return base.rstrip("/")
    raise Invalid(
        "base_url", "must be like https://lists.example.com, without spaces, '?', '#' or a password"
    )


def _quoted(path: str) -> str:
    return quote(path, safe="!$&'()*+,;=:@%/?#")
