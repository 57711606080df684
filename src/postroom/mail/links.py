"""The links in a mail: the same for everybody but for the subscriber's GUID in the middle."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import msgspec

from postroom.domain.audience.lists import ListName
from postroom.domain.errors import Invalid
from postroom.mail.envelope import ascii_domain

# RFC 3986's characters less those that end a link in a header (`<>`), and less a query or fragment,
# which would swallow ours. What is beyond ASCII is encoded first.
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
    """With a language, the page speaks it; without, it speaks the browser's."""
    link = _link(base_url, "confirm", list_name)
    return Link(link.before, f"{link.after}&lang={quote(language, safe='')}") if language else link


def host_name(base_url: str) -> str | None:
    """The domain name in the address of this service; None if it is an IP address or a single
    word, which mean nothing to others."""
    host = urlsplit(_ascii_base(base_url)).hostname or ""
    return host if _DOMAIN_NAME.fullmatch(host) else None


def _link(base_url: str, page: str, list_name: ListName) -> Link:
    base = _ascii_base(base_url)
    return Link(f"{base}/{page}?id=", f"&listName={quote(list_name, safe='')}")


def _ascii_base(base_url: str) -> str:
    """The base in ASCII, without a slash at its end."""
    # Python's own parser drops line ends without a word, so they are looked for before.
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
