"""Digests of IP addresses: the same address has the same digest, and without our secret key nobody
can find out which address it is by trying all of them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from postroom.encryption import DecryptionError, Keyring

_DIGITS: Final = 16  # in hexadecimal: enough to compare with, whatever the number of visitors


class IpDigests:
    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._key: bytes | None = None

    def of(self, ip: str) -> str:
        """Return the digest of an address; "" if the address is unknown, or if this process has no
        secret key."""
        if not ip:
            return ""
        try:
            self._key = self._key or self._keyring.signing_key("IP addresses in the consent ledger")
        except DecryptionError:
            return ""
        return hmac.new(self._key, ip.encode(), hashlib.sha256).hexdigest()[:_DIGITS]
