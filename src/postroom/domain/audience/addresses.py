"""Email addresses: validated (`Address`), and the key under which each is kept (`AddressKey`).

An `Address` is the spelling to send to. Its domain is in lower case, and readable if it is
internationalised; its local part keeps its case, because only its own server may say what that
means (but for the few names that mean the same everywhere, such as `Info`: RFC 2142).

An `AddressKey` is the same address without any difference of case: all spellings of one subscriber
have the same key, and everything that looks an address up uses it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NewType

from postroom.domain.errors import Invalid

Address = NewType("Address", str)
AddressKey = NewType("AddressKey", Address)

LONGEST = 254  # RFC 5321 4.5.3.1.3, less the angle brackets

# Most addresses. What matches is valid and needs only its domain in lower case; the full validation
# takes fifty times as long and gives the same result (a test compares the two).
_PLAIN = re.compile(
    r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}",
    re.ASCII,
)
# RFC 2142: the same mailbox in upper and lower case.
_SPECIAL_NAMES = frozenset({
    "info", "marketing", "sales", "support", "abuse", "noc", "security", "postmaster",
    "hostmaster", "usenet", "news", "webmaster", "www", "uucp", "ftp",
})  # fmt: skip
_SPECIAL_DOMAINS = ("test", "example", "invalid", "localhost", "local", "onion", "arpa")


def parse_address(text: str, field: str = "email") -> Address:
    """Return the address in its normal form. `Invalid`."""
    if not isinstance(text, str):
        raise Invalid(field, "must be text")
    trimmed = text.strip(" \t")
    if len(trimmed) > LONGEST:  # the validation's time is quadratic
        raise Invalid(field, f"is too long: an address has at most {LONGEST} characters")
    local, _, domain = trimmed.rpartition("@")
    domain = domain.lower()
    if _PLAIN.fullmatch(trimmed) and _is_ordinary(local, domain):
        return Address(f"{local}@{domain}")
    # Rarely needed, and importing it takes a tenth of the start-up time of a short command.
    from email_validator import EmailNotValidError, validate_email

    try:
        found = validate_email(
            trimmed, check_deliverability=False, test_environment=True, strict=True
        )
    except EmailNotValidError as exc:
        raise Invalid(field, _one_line(str(exc))) from exc
    return Address(found.normalized)


def _is_ordinary(local: str, domain: str) -> bool:
    """Return whether no special rule applies: about lengths, punycode or reserved names."""
    return (
        len(local) <= 64
        and len(local) + 1 + len(domain) <= LONGEST
        and local.lower() not in _SPECIAL_NAMES
        and "--" not in domain
        and not domain.endswith(_SPECIAL_DOMAINS)
    )


def address_key(address: Address) -> AddressKey:
    """Return the key of an address: its local part case-folded, its domain as it is.

    The folding is Unicode's simple one, a character for a character, and the result is in NFC, like
    the address. So `straße@` and `strasse@` stay two addresses, which they may well be;
    `str.casefold` would make them one. The domain needs no folding: `parse_address` has put it into
    its only form. The key of a key is the key.
    """
    if address.isascii():
        return AddressKey(Address(address.lower()))
    local, at, domain = address.rpartition("@")
    return AddressKey(Address(f"{folded(local)}{at}{domain}"))


def folded(text: str) -> str:
    """Return a part of an address without differences of case, as `address_key` has it."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", "".join(map(_folded_character, text)))


def _folded_character(character: str) -> str:
    for fold in (character.casefold(), character.lower()):
        if len(fold) == 1:
            return fold
    return character


def domain_of(address: Address) -> str:
    return address.rpartition("@")[2]


def masked(address: Address) -> str:
    """Return the first two characters and the domain: enough for the owner to recognise it."""
    local, _, domain = address.rpartition("@")
    return f"{local[:2]}{'*' * max(3, len(local) - 2)}@{domain}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
