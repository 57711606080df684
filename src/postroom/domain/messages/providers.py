"""Mailbox providers: all addresses at one provider are treated alike by it."""

from __future__ import annotations

from typing import NewType

from postroom.domain.audience.addresses import Address, domain_of

Provider = NewType("Provider", str)
"""A provider's main domain (`gmail.com`), or the recipient's own domain."""

# Domains that share servers and sender reputation. A family that is missing here is held domain by
# domain.
_FAMILIES: dict[str, tuple[str, ...]] = {
    "gmail.com": ("googlemail.com",),
    "outlook.com": (
        "hotmail.com",
        "hotmail.co.uk",
        "hotmail.de",
        "hotmail.fr",
        "hotmail.it",
        "live.com",
        "live.co.uk",
        "live.fr",
        "live.nl",
        "msn.com",
        "outlook.de",
        "outlook.fr",
        "passport.com",
        "windowslive.com",
    ),
    "yahoo.com": (
        "aim.com",
        "aol.com",
        "myyahoo.com",
        "rocketmail.com",
        "yahoo.ca",
        "yahoo.co.jp",
        "yahoo.co.uk",
        "yahoo.de",
        "yahoo.es",
        "yahoo.fr",
        "yahoo.in",
        "yahoo.it",
        "ymail.com",
    ),
    "icloud.com": ("mac.com", "me.com"),
    "proton.me": ("pm.me", "protonmail.ch", "protonmail.com"),
    "gmx.net": ("gmx.at", "gmx.ch", "gmx.com", "gmx.de", "mail.com", "web.de"),
    "mail.ru": ("bk.ru", "inbox.ru", "internet.ru", "list.ru"),
    "yandex.ru": ("ya.ru", "yandex.by", "yandex.com", "yandex.kz"),
    "orange.fr": ("wanadoo.fr",),
    "free.fr": ("aliceadsl.fr", "libertysurf.fr"),
    "comcast.net": ("xfinity.com",),
}
_PROVIDERS = {
    domain: Provider(main) for main, others in _FAMILIES.items() for domain in (main, *others)
}


def provider_of(address: Address) -> Provider:
    """Return the provider of an address: its family's main domain, or its own domain."""
    domain = domain_of(address).lower()
    return _PROVIDERS.get(domain) or Provider(domain)
