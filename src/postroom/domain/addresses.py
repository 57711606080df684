"""Email addresses: validated, and in one spelling each.

The domain's case is folded and an internationalised domain is kept readable; the local part keeps
its case, because only its own server may say what it means (but for the few that mean the same
everywhere, such as `Info` and `Postmaster`: RFC 2142). So an address is a key.
"""

from __future__ import annotations

import re
from typing import NewType

from postroom.domain.errors import Invalid

Address = NewType("Address", str)

LONGEST = 254  # RFC 5321 4.5.3.1.3, less the angle brackets

# The addresses that most people have. What matches is valid, and needs only its domain in lower
# case: the full validation, fifty times slower, would say the same (a test holds the two together).
_PLAIN = re.compile(
    r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}",
    re.ASCII,
)
# RFC 2142: the same mailbox in any case.
_SPECIAL_NAMES = frozenset({
    "info", "marketing", "sales", "support", "abuse", "noc", "security", "postmaster",
    "hostmaster", "usenet", "news", "webmaster", "www", "uucp", "ftp",
})  # fmt: skip
_SPECIAL_DOMAINS = ("test", "example", "invalid", "localhost", "local", "onion", "arpa")


def parse_address(text: str, field: str = "email") -> Address:
    """The address in its one spelling; `Invalid` says what is wrong with it."""
    if not isinstance(text, str):
        raise Invalid(field, "must be text")
    trimmed = text.strip(" \t")
    if len(trimmed) > LONGEST:  # the validation's time is quadratic
        raise Invalid(field, f"is too long: an address has at most {LONGEST} characters")
    local, _, domain = trimmed.rpartition("@")
    domain = domain.lower()
    if _PLAIN.fullmatch(trimmed) and _is_ordinary(local, domain):
        return Address(f"{local}@{domain}")
    # Seldom needed, and a tenth of the time in which a short command starts.
    from email_validator import EmailNotValidError, validate_email

    try:
        found = validate_email(
            trimmed, check_deliverability=False, test_environment=True, strict=True
        )
    except EmailNotValidError as exc:
        raise Invalid(field, _one_line(str(exc))) from exc
    return Address(found.normalized)


def _is_ordinary(local: str, domain: str) -> bool:
    """Within the lengths, not in punycode, and no name or domain that has rules of its own."""
    return (
        len(local) <= 64
        and len(local) + 1 + len(domain) <= LONGEST
        and local.lower() not in _SPECIAL_NAMES
        and "--" not in domain
        and not domain.endswith(_SPECIAL_DOMAINS)
    )


def domain_of(address: Address) -> str:
    return address.rpartition("@")[2]


def masked(address: Address) -> str:
    """Enough to be recognised by its owner: the first two characters and the domain."""
    local, _, domain = address.rpartition("@")
    return f"{local[:2]}{'*' * max(3, len(local) - 2)}@{domain}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
