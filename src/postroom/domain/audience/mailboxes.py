"""Which addresses reach the same mailbox, as far as that is known.

Used for rate limits only, never to store, show or send to an address: it is a guess about another
provider's server, and the worst that a wrong guess may do is count two people as one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address


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
    """Return a form that is equal for addresses that reach the same mailbox."""
    local, _, domain = address.casefold().rpartition("@")
    provider = _BY_DOMAIN.get(domain, _ANY)
    for tag in provider.tags:
        # An address may consist of a tag alone.
        local = local[:1] + local[1:].partition(tag)[0]
    bare = local.translate(dict.fromkeys(map(ord, provider.ignored)))
    return f"{bare or local}@{provider.domains[0] if provider.domains else domain}"
