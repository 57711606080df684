"""Signed envelope senders (VERP), from which a bounce shows which email it is about.

    b REFREFREFREF GGGGGGGGGGGGGGGGGGGGGGGGGG MMMMMMMM      47 characters of base32
    │ │            │                          └ 40 bits: a MAC, so that nobody can invent one
    │ │            └ 128 bits: the subscriber's GUID, encrypted: it opens their links, and envelope
    │ │              senders lie in the logs of strangers
    │ └ 60 bits: the MessageRef
    └ always: a local part that begins with a letter

Lower-case base32, because mail systems fold the case of addresses; 47 characters, because a prefix
such as BATV's (16) must still fit into the 64 of a local part (RFC 5321 4.5.3.1.1).

The key is derived from the secret key and the MessageRef. AES encrypts the GUID, and the GUID
backwards, whose ciphertext begins with the MAC. The tokens of a page are created together, because
AES and base32 then work on all of them at once.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hmac import compare_digest
from itertools import islice
from typing import Final, NamedTuple

from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.refs import MessageRef

HEADER: Final = "X-Postroom"
"""The same token as a header: providers such as Amazon SES replace the Message-ID."""

PURPOSE: Final = "bounce addresses"
"""What the signing keys are derived for."""

_HEADERS: Final = {HEADER: "TOKEN"}
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_VALUES: Final = {each: value for value, each in enumerate(_ALPHABET)}
_TOKEN = re.compile(r"(?<![a-z0-9])b[a-z2-7]{46}(?![a-z0-9])", re.IGNORECASE | re.ASCII)
_MESSAGE_ID = re.compile(r"(?<![0-9])([0-9]{18})\.([0-9a-f]{24})@", re.IGNORECASE)
_MOST_FOUND = 20
_SEALED: Final = 16  # bytes: one block of AES
_MAC: Final = 5
_LENGTH: Final = 34  # characters for both
_LANES: Final = 5  # of 8 characters, which stand for 5 bytes each: more than enough for 21 bytes
_TO_TEXT = bytes(_ALPHABET.encode()[value % 32] for value in range(256))


class EmailIdentity(NamedTuple):
    """Which email a token stands for."""

    ref: MessageRef
    guid: SubscriberGuid


class EnvelopeTokens:
    """The tokens of the emails of one message."""

    def __init__(
        self,
        ref: MessageRef,
        key: bytes,
        sender: str = "",
        domain: str = "",
        headers: Mapping[str, str] = _HEADERS,
    ) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._prefix = "b" + _encoded(int(ref), 12)
        # Each email has separate blocks, so there is nothing to chain.
        cipher = Cipher(algorithms.AES(_message_key(ref, key)), modes.ECB())  # noqa: S305
        self._encrypt = cipher.encryptor().update
        self.headers = headers
        """Header → its form, in which `TOKEN` stands for the token."""
        self._sender = sender
        self._after = f"@{domain}" if domain else ""
        self.has_own_senders: Final = bool(domain)
        """Whether each email has a separate sender, which contains its token."""
        self.message_id_key = message_id_key(key)

    def tokens(self, guids: Sequence[SubscriberGuid]) -> list[str]:
        """Return the tokens of the emails to many subscribers, made at once."""
        plain = bytes.fromhex("".join(guids).replace("-", ""))
        text = _base32(self._encrypt(plain), self._encrypt(plain[::-1]))
        prefix, step = self._prefix, 8 * _LANES
        return [prefix + text[at : at + _LENGTH] for at in range(0, len(text), step)]

    def token(self, guid: SubscriberGuid) -> str:
        """Return the token of the email to a subscriber."""
        return self.tokens([guid])[0]

    def sender(self, token: str) -> str:
        """Return the envelope sender of the email with this token."""
        return token + self._after if self._after else self._sender


class EnvelopeSigner:
    """Makes and reads the tokens of all messages. Tokens of former keys can still be read.

    With a `domain`, each email has a separate envelope sender there; otherwise all have the fixed
    `sender`, and the token is only in a header.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        *,
        sender: str = "",
        domain: str = "",
        provider_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.sender = sender
        self._headers = {**_HEADERS, **(provider_headers or {})}
        self.domain = domain
        self._keys = tuple(keys)

    def of_message(self, ref: MessageRef) -> EnvelopeTokens:
        return EnvelopeTokens(ref, self._keys[0], self.sender, self.domain, self._headers)

    def read(self, text: str) -> EmailIdentity | None:
        """Return which email the first genuine token in a text stands for."""
        for found in islice(_TOKEN.finditer(text), _MOST_FOUND):
            if (identity := self._opened(found[0].lower())) is not None:
                return identity
        return None

    def _opened(self, token: str) -> EmailIdentity | None:
        ref = MessageRef(f"{_decoded(token[1:13]):018}")
        # Two bits remain after 21 bytes; a changed one is noticed when the token is made again.
        sealed = (_decoded(token[13:]) >> 2).to_bytes(_SEALED + _MAC)[:_SEALED]
        for key in self._keys:
            guid = SubscriberGuid(str(uuid.UUID(bytes=_decrypted(ref, key, sealed))))
            if compare_digest(EnvelopeTokens(ref, key).token(guid), token):
                return EmailIdentity(ref, guid)
        return None

    def is_message_id(self, found: FoundMessageId, scope: str, address: str) -> bool:
        """Return whether a Message-ID is that of the email to an address."""
        text = f"{found.ref} {scope} {address}".encode("utf-8", "replace")
        return any(
            compare_digest(message_id_hash(text, message_id_key(key)).hexdigest(), found.digest)
            for key in self._keys
        )


class FoundMessageId(NamedTuple):
    """A Message-ID that may be ours."""

    ref: MessageRef
    digest: str


def find_message_ids(text: str) -> list[FoundMessageId]:
    """Return what may be Message-IDs of ours in a text."""
    found = islice(_MESSAGE_ID.finditer(text), _MOST_FOUND)
    return list(dict.fromkeys(FoundMessageId(MessageRef(e[1]), e[2].lower()) for e in found))


def is_token(text: str) -> bool:
    """Return whether a local part has the form of a token; it may be forged."""
    return _TOKEN.fullmatch(text) is not None


def message_id_key(key: bytes) -> bytes:
    return hashlib.blake2b(b"Message-ID", key=key, digest_size=32).digest()


def message_id_hash(text: bytes, key: bytes = b"") -> hashlib.blake2b:
    """Return the digest of a Message-ID, to which an address can still be added. With a key, nobody
    else can make one for another address. 96 bits: no collision among billions of emails."""
    return hashlib.blake2b(text, key=key, digest_size=12, usedforsecurity=False)


def _message_key(ref: MessageRef, key: bytes) -> bytes:
    return hashlib.blake2b(ref.encode(), key=key, digest_size=16).digest()


def _decrypted(ref: MessageRef, key: bytes, sealed: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES(_message_key(ref, key)), modes.ECB())  # noqa: S305
    return cipher.decryptor().update(sealed)


def _encoded(value: int, length: int) -> str:
    return "".join(_ALPHABET[value >> 5 * place & 31] for place in reversed(range(length)))


def _decoded(text: str) -> int:
    value = 0
    for each in text:
        value = value << 5 | _VALUES[each]
    return value


def _base32(sealed: bytes, backwards: bytes) -> str:
    """Return 40 characters for each block of `sealed` and the first bytes of its MAC. The MACs are
    the blocks of `backwards`, the last one first.

    Five bytes go into a lane of eight, and then every five bits into a byte: operations on one huge
    number do this for all lanes.
    """
    count = len(sealed) // _SEALED
    step = 8 * _LANES
    lanes = bytearray(step * count)
    for place in range(_SEALED):
        lanes[_in_lane(place) :: step] = sealed[place::_SEALED]
    last = _SEALED * (count - 1)
    for place in range(_MAC):
        lanes[_in_lane(_SEALED + place) :: step] = backwards[last + place :: -_SEALED]
    bits = int.from_bytes(lanes)
    for high, low, shift in _masks(count * _LANES):
        bits = (bits & high) << shift | bits & low
    return bits.to_bytes(step * count).translate(_TO_TEXT).decode("ascii")


def _in_lane(place: int) -> int:
    """Return where a byte is: in the last five of eight."""
    lane, rest = divmod(place, 5)
    return 8 * lane + 3 + rest


@lru_cache(maxsize=8)
def _masks(lanes: int) -> tuple[tuple[int, int, int], ...]:
    """Return the steps that spread 40 bits over eight bytes: halves of 20, 10 and 5 bits."""
    steps = ((0xFFFFF00000, 0xFFFFF, 12), (0x3FF << 10 | 0x3FF << 42, 0x3FF | 0x3FF << 32, 6))
    last = sum(0x3E0 << 16 * each for each in range(4)), sum(0x1F << 16 * each for each in range(4))
    every = int.from_bytes((1).to_bytes(8) * lanes)
    return tuple((every * high, every * low, shift) for high, low, shift in (*steps, (*last, 3)))
