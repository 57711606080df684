"""Which addresses reach the same mailbox, as far as that is known.

For counting only: nobody is stored, shown or written to under a canonical form. It is a guess about
somebody else's server, and a wrong guess may only cost a place in a limit.
"""

from __future__ import annotations

from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address


class _Provider(msgspec.Struct, frozen=True):
    """How a provider of mailboxes reads the part before the @.

    `domains`: all of them are one, called by the first. `ignored` characters make no difference;
    what follows one of the `tags` is the owner's own business.
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
# Microsoft (outlook.com, hotmail.com, live.com and their national domains), Zoho, GMX and most mail
# servers that people run themselves: a tag after a plus sign.
_ANY: Final = _Provider(())
_BY_DOMAIN: Final = {domain: each for each in _PROVIDERS for domain in each.domains}


def canonical_mailbox(address: Address) -> str:
    """Return a form that is equal for addresses that reach the same mailbox."""
    local, _, domain = address.casefold().rpartition("@")
    provider = _BY_DOMAIN.get(domain, _ANY)
    for tag in provider.tags:
        # A tag that begins the address is all there is to it.
        local = local[:1] + local[1:].partition(tag)[0]
    bare = local.translate(dict.fromkeys(map(ord, provider.ignored)))
    return f"{bare or local}@{provider.domains[0] if provider.domains else domain}"
