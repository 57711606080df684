"""The secret key: it signs cookies and links, and keys that encrypt secrets are derived from it.

It is the setting `secret_key`. Without that, a random one is created in the data folder at the
first start; machines that have to read each other's cookies and secrets need a common one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from postroom.errors import PostroomError
from postroom.folders import make_private, tighten

FILE = "secret.key"
_KEY_BYTES = 32


def load_secret_key(setting: str, data: Path) -> bytes:
    """Return the key that is set, or the one of the data folder, which is created if missing."""
    if setting:
        return setting.encode()
    file = data / FILE
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

    The key in the data folder counts as an old one as soon as another is set.
    """
    keys = [load_secret_key(setting, data), *(each.encode() for each in old)]
    file = data / FILE
    try:
        keys.append(file.read_text().strip().encode())
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise PostroomError(f"the old secret key in {file} cannot be read: {exc.strerror}") from exc
    return list(dict.fromkeys(keys))


def _write_once(file: Path, text: str) -> None:
    """Of two processes that start at once, one writes; nobody reads half a key."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    try:
        file.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
