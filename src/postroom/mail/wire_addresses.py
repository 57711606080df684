"""Addresses in SMTP commands and headers: in ASCII wherever possible.

An internationalised domain has an ASCII form (punycode) that every server accepts. Only a local
part beyond ASCII needs SMTPUTF8 (RFC 6531).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid

# What would end an address, or begin something else, in an SMTP command or in a header.
_UNSAFE = re.compile(r'[\s<>()\[\]\\,;:"]')


def envelope_address(address: Address) -> str:
    """Return the address for MAIL FROM, RCPT TO and headers, in ASCII if possible. Raise `Invalid`
    for a character that could end the command or the header."""
    if _UNSAFE.search(address) or not address.isprintable():
        raise Invalid("email", "must not contain spaces, quotes, brackets or control characters")
    if address.isascii():
        return address
    local, _, domain = address.rpartition("@")
    if not local.isascii():
        return address
    return f"{local}@{ascii_domain(domain)}"


def all_plain(addresses: Iterable[Address]) -> bool:
    """Return whether each can be used as it is. Quicker than asking for each."""
    together = "".join(addresses)
    return together.isascii() and together.isprintable() and not _UNSAFE.search(together)


def needs_smtputf8(address: Address) -> bool:
    """Return whether only a server with SMTPUTF8 accepts this address."""
    return not address.isascii() and not envelope_address(address).isascii()


@lru_cache(maxsize=4096)
def ascii_domain(domain: str) -> str:
    """Return the ASCII form of a domain, or the domain itself if it has none."""
    if domain.isascii():
        return domain
    # Imported late, as in `domain.addresses`: most processes never need it.
    from email_validator import EmailNotValidError, validate_email

    try:
        return validate_email(
            f"x@{domain}", check_deliverability=False, test_environment=True
        ).ascii_domain
    except EmailNotValidError:
        return domain
