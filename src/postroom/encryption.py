"""The secret key, and the encryption of secrets in the store.

The secret key signs cookies and links. It is the setting `secret_key`; without that, a random one
is created in the data folder at the first start. Machines that have to read each other's cookies
and secrets need a common one.

Secrets that the store has to keep readable, such as those of second factors, are encrypted with
AES-256-GCM under a random nonce and a key that is derived from the secret key (HKDF-SHA256):

    enc1:KEYID:BASE64(nonce + ciphertext + tag)

The key id says which secret key a value needs, so that the secret key can be replaced: old keys
decrypt until every value is encrypted under the current one. The context (where the value is
stored) is authenticated, too: a value that was copied into another row cannot be decrypted there.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from postroom.errors import PostroomError
from postroom.folders import make_private, tighten

# `cryptography` is imported where it is used: most commands need none of it.

_PREFIX: Final = "enc1:"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 6
_NONCE_BYTES: Final = 12  # NIST SP 800-38D: 96 bits, random, for far fewer than 2^32 values

KEY_FILE = "secret.key"


class DecryptionError(PostroomError):
    """A secret in the store that cannot be decrypted; the text says what to do."""


class _Key(msgspec.Struct, frozen=True):
    id: str
    key: bytes


class Keyring:
    """Encrypts with the current key; decrypts with that or old ones.

    Keys are loaded on first use, the current one first.
    """

    def __init__(self, load: Callable[[], Sequence[bytes]]) -> None:
        self._load = load
        self._keys: list[_Key] = []

    def encrypt(self, text: str, context: str) -> str:
        """Return the encrypted text, which can be decrypted only in the same context."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        current = self._all()[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(current.key).encrypt(nonce, text.encode(), context.encode())
        return f"{_PREFIX}{current.id}:{base64.b64encode(sealed).decode()}"

    def decrypt(self, value: str, context: str) -> str:
        """Return the text. `DecryptionError` if its key is missing or it was tampered with."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, _, sealed = value.removeprefix(_PREFIX).partition(":")
        key = next((each.key for each in self._all() if each.id == key_id), None)
        if key is None:
            raise DecryptionError(
                f"{context} was encrypted with the secret key {key_id}, which is not set: add it to"
                " POSTROOM_OLD_SECRET_KEYS"
            )
        try:
            raw = base64.b64decode(sealed, validate=True)
            nonce, rest = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
            return AESGCM(key).decrypt(nonce, rest, context.encode()).decode()
        except (InvalidTag, binascii.Error, ValueError) as exc:
            raise DecryptionError(f"{context} was damaged, or copied from elsewhere") from exc

    def signing_key(self, purpose: str) -> bytes:
        """Return a key to sign values that are valid for a short time, for one purpose."""
        return _hkdf(self._all()[0].key, f"postroom {purpose}".encode(), _KEY_BYTES)

    def signing_keys(self, purpose: str) -> list[bytes]:
        """Return the current key to sign values for one purpose, then those of old keys, for values
        that stay valid longer than a key."""
        return [_hkdf(each.key, f"postroom {purpose}".encode(), _KEY_BYTES) for each in self._all()]

    def is_current(self, value: str) -> bool:
        """Return whether a value is encrypted under the current key."""
        return value.startswith(f"{_PREFIX}{self._all()[0].id}:")

    def _all(self) -> list[_Key]:
        if not self._keys:
            self._keys = [_derived(each) for each in self._load()]
        return self._keys


def is_encrypted(value: str) -> bool:
    """Return whether a value is encrypted; earlier versions stored clear text."""
    return value.startswith(_PREFIX)


def without_key() -> Sequence[bytes]:
    """Return a keyring without keys, for processes and tests that have nothing to encrypt."""
    raise DecryptionError("this process has no secret key, and cannot use secrets of the store")


def _derived(secret: bytes) -> _Key:
    return _Key(
        _hkdf(secret, b"postroom encryption key id", _ID_BYTES).hex(),
        _hkdf(secret, b"postroom encryption of secrets in the store", _KEY_BYTES),
    )


def _hkdf(secret: bytes, purpose: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt=None, info=purpose).derive(secret)


def load_secret_key(setting: str, data: Path) -> bytes:
    """Return the key of the setting, or that of the data folder, which is created if missing."""
    if setting:
        return setting.encode()
    file = data / KEY_FILE
    try:
        make_private(data)
        if not file.exists():
            _write_once(file, secrets.token_hex(_KEY_BYTES))
        tighten(file)
        return file.read_text().strip().encode()
    except OSError as exc:
        raise PostroomError(
            f"the secret key cannot be kept in {file} ({exc.strerror}): set POSTROOM_SECRET_KEY"
        ) from exc


def load_all_keys(setting: str, old: Sequence[str], data: Path) -> list[bytes]:
    """Return the current key, then old ones that may still be needed.

    The key in the data folder counts as old once another is set.
    """
    keys = [load_secret_key(setting, data), *(each.encode() for each in old)]
    file = data / KEY_FILE
    try:
        keys.append(file.read_text().strip().encode())
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise PostroomError(f"the old secret key in {file} cannot be read: {exc.strerror}") from exc
    return list(dict.fromkeys(keys))


def _write_once(file: Path, text: str) -> None:
    """Write the key, unless another process has done so. No process ever reads half a key."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    try:
        file.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
