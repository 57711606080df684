"""Mailbox providers: a provider treats all addresses that it hosts alike.

A provider is recognised by the address's domain (`provider_of`), or by the mail server that the
domain names in DNS (`provider_of_mx`): the addresses of a company may be at Google, too.
"""

from __future__ import annotations

import re
from typing import Final, NewType

import msgspec

from postroom.domain.audience.addresses import Address, domain_of
from postroom.domain.errors import Invalid

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


# The ends of mail servers' names, for providers whose servers have another name than the provider.
_SERVERS: Final = {
    "google.com": "gmail.com",
    "googlemail.com": "gmail.com",
    "smtp.goog": "gmail.com",
    "outlook.com": "outlook.com",
    "mx.microsoft": "outlook.com",
    "yahoodns.net": "yahoo.com",
    "yahoo.co.jp": "yahoo.com",
    "icloud.com": "icloud.com",
    "protonmail.ch": "proton.me",
    "gmx.net": "gmx.net",
    "kundenserver.de": "ionos.com",
    "yandex.net": "yandex.ru",
    "pphosted.com": "proofpoint.com",
}
_SECOND_LEVEL: Final = frozenset({"ac", "co", "com", "edu", "gov", "ne", "net", "or", "org"})


class InitialLimits(msgspec.Struct, frozen=True):
    """What a provider accepts from a sender it limits; None: not known.

    `connections` are emails in progress at once. After a throttling reply with `rest_reply` in it,
    the provider gets nothing for `rest_minutes`; if it is empty, after each throttling reply.
    """

    connections: int | None = None
    emails_per_connection: int | None = None
    rest_minutes: int | None = None
    rest_reply: str = ""


_UNKNOWN: Final = InitialLimits()
_INITIAL_LIMITS: Final = {
    Provider("gmail.com"): InitialLimits(5, 50),
    Provider("outlook.com"): InitialLimits(5, 50),
    Provider("icloud.com"): InitialLimits(10, 5),
    # Yahoo publishes no number of connections: 10 is KumoMTA's for such providers.
    Provider("yahoo.com"): InitialLimits(10, 20, rest_minutes=120, rest_reply="[TSS04]"),
}
"""The values of KumoMTA's published traffic shaping, 2026."""


def initial_limits(provider: Provider) -> InitialLimits:
    """Return what is known about a provider before it has throttled us."""
    return _INITIAL_LIMITS.get(provider, _UNKNOWN)


def provider_of(address: Address) -> Provider:
    """Return the provider of an address: its family's main domain, or its own domain."""
    domain = domain_of(address).lower()
    return _PROVIDERS.get(domain) or Provider(domain)


PROVIDER_PATTERN: Final = r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){1,7}"


def parse_provider(text: str) -> Provider:
    """Return the provider with this name, which may be any of its domains. `Invalid`."""
    domain = text.strip().lower()
    if not re.fullmatch(PROVIDER_PATTERN, domain):
        raise Invalid("provider", f"must be a domain such as gmail.com, not {text[:100]!r}")
    return _PROVIDERS.get(domain) or Provider(domain)


def is_known_domain(domain: str) -> bool:
    """Return whether the provider of a domain is known without DNS."""
    return domain in _PROVIDERS


def provider_of_mx(host: str) -> Provider:
    """Return the provider that a mail server belongs to: `gmail.com` for `aspmx.l.google.com`. A
    server that is not listed belongs to the organisation in its name."""
    labels = host.lower().rstrip(".").split(".")
    for start in range(len(labels) - 1):
        if (known := _SERVERS.get(".".join(labels[start:]))) is not None:
            return Provider(known)
    own = 3 if len(labels) > 2 and labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2 else 2
    return Provider(".".join(labels[-own:]))
