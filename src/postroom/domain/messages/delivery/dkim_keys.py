"""DKIM keys (RFC 6376, RFC 8463): which domain they sign for, and the DNS record of each."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.errors import Invalid

_LONGEST_SELECTOR: Final = 63
_SELECTOR: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"(?=.{{4,253}}$)(?:{_LABEL}\.)+{_LABEL}")


class DkimAlgorithm(StrEnum):
    """The kinds of keys. Every receiver verifies RSA, some verify Ed25519 as well."""

    RSA = "rsa"
    ED25519 = "ed25519"


class DkimKeyState(StrEnum):
    NEW = "new"
    """Does not sign yet: its record has to be published first."""

    SIGNING = "signing"

    RETIRED = "retired"
    """No longer signs. Its record has to stay until no email that it signed is in transit."""


class DkimKey(msgspec.Struct, frozen=True):
    """A key without its private part."""

    domain: str
    selector: str
    algorithm: DkimAlgorithm
    state: DkimKeyState
    public_key: str
    """In Base64, as in the record."""
    created_at: datetime
    changed_at: datetime
    """When its state last changed."""

    @property
    def record_name(self) -> str:
        return f"{self.selector}._domainkey.{self.domain}"

    @property
    def record_value(self) -> str:
        """The TXT record (RFC 6376 3.6.1)."""
        return f"v=DKIM1; k={self.algorithm}; p={self.public_key}"


def parse_domain(text: str) -> str:
    """Return the ASCII form of a domain name in lower case; raise `Invalid`."""
    domain = text.strip().rstrip(".").lower()
    if not _DOMAIN.fullmatch(domain):
        raise Invalid("domain", f"must be a domain name such as example.org, not {text[:80]!r}")
    return domain


def parse_selector(text: str) -> str:
    """Return a selector in lower case; raise `Invalid`."""
    selector = text.strip().lower()
    if len(selector) > _LONGEST_SELECTOR or not _SELECTOR.fullmatch(selector):
        raise Invalid(
            "selector",
            "must have 1 to 63 letters, digits or hyphens, and begin and end with a letter or a"
            f" digit, not {text[:80]!r}",
        )
    return selector


def parse_algorithm(text: str) -> DkimAlgorithm:
    try:
        return DkimAlgorithm(text)
    except ValueError:
        raise Invalid("algorithm", f"must be rsa or ed25519, not {text[:40]!r}") from None
