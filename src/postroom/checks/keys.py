"""The secret key: is it set, could it be guessed, and is everything encrypted under it?"""

from __future__ import annotations

from postroom.checks.findings import Finding, State
from postroom.secret_key import FILE
from postroom.services.stored_secrets import SecretState, StoredSecrets
from postroom.settings import Settings
from postroom.storage import Store
from postroom.wiring import make_keyring

# A random key of 32 characters has hardly fewer different ones than this.
_FEW_CHARACTERS = 10
_HOW = "Make one with: python3 -c 'import secrets; print(secrets.token_hex(32))'"

_SECRETS = "secrets"
_SECRET_STATES = {
    SecretState.UNREADABLE: (
        State.ERROR,
        "in the store cannot be decrypted: the key is not set",
        "Add it to POSTROOM_OLD_SECRET_KEYS.",
    ),
    SecretState.OLD_KEY: (
        State.WARNING,
        "in the store encrypted under an old key",
        "Run `postroom store rekey` once every part has the new one.",
    ),
    SecretState.CLEAR: (
        State.WARNING,
        "in the store in clear text",
        "Run `postroom store rekey`.",
    ),
}


def check_secret_key(settings: Settings) -> Finding:
    key = settings.secrets.key
    if not key:
        return Finding(
            "secret_key",
            State.OK,
            f"made at the first start, in {settings.storage.data / FILE};"
            " several web servers need one that is set",
        )
    if len(set(key)) < _FEW_CHARACTERS:
        return Finding("secret_key", State.WARNING, "is set, but could be guessed", _HOW)
    return Finding("secret_key", State.OK, f"is set, {len(key)} characters")


async def check_secrets(settings: Settings, store: Store) -> list[Finding]:
    """Warn of secrets in the store that are not encrypted under the current key."""
    counts = await StoredSecrets(store, make_keyring(settings)).count()
    found = [
        Finding(_SECRETS, state, f"{counts[each]:,} of {counts.total():,} {text}", advice)
        for each, (state, text, advice) in _SECRET_STATES.items()
        if counts[each]
    ]
    if not found and counts:
        text = f"{counts.total():,} in the store, encrypted under the current key"
        return [Finding(_SECRETS, State.OK, text)]
    return found
