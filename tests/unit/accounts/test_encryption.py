"""Secrets are encrypted, bound to their place, and survive a change of the secret key."""

import re

import pytest

from postroom.encryption import DecryptionError, Keyring, is_encrypted, without_key

OLD, NEW = b"the former secret key, long enough", b"the present secret key, long enough"
HERE, SECRET = "TotpSecret of ann@example.org", "JBSWY3DPEHPK3PXP"


def keyring(*keys: bytes) -> Keyring:
    return Keyring(lambda: keys)


def test_what_was_encrypted_is_decrypted_in_its_place_only() -> None:
    value = keyring(NEW).encrypt(SECRET, HERE)
    assert re.fullmatch(r"enc1:[0-9a-f]{12}:[A-Za-z0-9+/]+=*", value)
    assert SECRET not in value
    assert keyring(NEW).decrypt(value, HERE) == SECRET
    with pytest.raises(DecryptionError, match=r"TotpSecret of bob.* copied from elsewhere"):
        keyring(NEW).decrypt(value, "TotpSecret of bob@example.org")


def test_the_same_secret_never_looks_the_same() -> None:
    ring = keyring(NEW)
    assert len({ring.encrypt(SECRET, HERE) for _ in range(10)}) == 10


def test_old_keys_decrypt_and_the_current_one_encrypts() -> None:
    value = keyring(OLD).encrypt(SECRET, HERE)
    ring = keyring(NEW, OLD)
    assert ring.decrypt(value, HERE) == SECRET
    assert not ring.is_current(value)
    renewed = ring.encrypt(SECRET, HERE)
    assert ring.is_current(renewed)
    assert keyring(NEW).decrypt(renewed, HERE) == SECRET


def test_a_missing_key_is_named_and_where_to_set_it() -> None:
    value = keyring(OLD).encrypt(SECRET, HERE)
    with pytest.raises(DecryptionError) as caught:
        keyring(NEW).decrypt(value, HERE)
    assert value.split(":")[1] in str(caught.value)
    assert "POSTROOM_OLD_SECRET_KEYS" in str(caught.value)
    assert OLD.decode() not in str(caught.value)


@pytest.mark.parametrize("rest", ["", "AAAA", "AAAAAA==", "not base64", "AAAA" * 20])
def test_damaged_ciphertext_is_refused(rest: str) -> None:
    value = keyring(NEW).encrypt(SECRET, HERE)
    with pytest.raises(DecryptionError, match="was damaged"):
        keyring(NEW).decrypt(value[:30] + rest, HERE)


def test_text_encrypted_by_an_earlier_version_is_recognised() -> None:
    assert not is_encrypted(SECRET)
    assert is_encrypted(keyring(NEW).encrypt("", HERE))


def test_keys_are_loaded_when_they_are_needed() -> None:
    ring = Keyring(without_key)
    with pytest.raises(DecryptionError, match="has no secret key"):
        ring.encrypt(SECRET, HERE)
