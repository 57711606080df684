"""Email addresses: validated (`Address`), and the key under which each is kept (`AddressKey`).

An `Address` is the spelling to send to. Its domain is in lower case, and readable if it is
internationalised. Its local part keeps its case, because only its own server may say what that
means. A few names mean the same everywhere, such as `Info` (RFC 2142).

An `AddressKey` is the same address without any difference of case: all spellings of one subscriber
have the same key, and everything that looks an address up uses it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NewType

import msgspec

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
# RFC 2142: the same mailbox in upper and lower case, and the From address of most lists.
_SPECIAL_NAMES = frozenset({
    "info", "marketing", "sales", "support", "abuse", "noc", "security", "postmaster",
    "hostmaster", "usenet", "news", "webmaster", "www", "uucp", "ftp",
})  # fmt: skip
_SPECIAL_DOMAINS = ("test", "invalid", "localhost", "local", "onion", "arpa")


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
        name = local.lower()
        return Address(f"{name if name in _SPECIAL_NAMES else local}@{domain}")
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


class _Provider(msgspec.Struct, frozen=True):
    """How a provider reads the part before the @.

    All its `domains` are the same, and the first stands for them. `ignored` characters make no
    difference, nor does what follows one of the `tags`.
    """

    domains: tuple[str, ...]
    ignored: str = ""
    tags: str = "+"


_PROVIDERS: Final = (
    _Provider(("gmail.com", "googlemail.com"), ignored="."),
    _Provider(("icloud.com", "me.com", "mac.com")),
    _Provider(("proton.me", "protonmail.com", "protonmail.ch", "pm.me"), ignored=".-_"),
    _Provider(
        ("yandex.ru", "ya.ru", "yandex.com", "yandex.by", "yandex.kz", "yandex.ua"), ignored=".-"
    ),
    _Provider(("yahoo.com", "ymail.com", "rocketmail.com"), tags="+-"),
    _Provider(("fastmail.com", "fastmail.fm")),
)
# Microsoft (outlook.com, hotmail.com, live.com and their national domains), Zoho, GMX and most
# self-hosted mail servers: a tag after a plus sign.
_ANY: Final = _Provider(())
_BY_DOMAIN: Final = {domain: each for each in _PROVIDERS for domain in each.domains}


def canonical_mailbox(address: Address) -> str:
    """Return a form that is equal for addresses that reach the same mailbox, as far as is known.

    Use it for rate limits only, never to store, show or send to an address: it is a guess about
    someone else's server. A wrong guess counts two people as one, and does no other harm.
    """
    local, _, domain = address.casefold().rpartition("@")
    provider = _BY_DOMAIN.get(domain, _ANY)
    for tag in provider.tags:
        # An address may consist of a tag alone.
        local = local[:1] + local[1:].partition(tag)[0]
    bare = local.translate(dict.fromkeys(map(ord, provider.ignored)))
    return f"{bare or local}@{provider.domains[0] if provider.domains else domain}"
