"""Continuation tokens: the last key of an answer, as text that callers pass back unread."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from postroom.storage.errors import InvalidValue


def encode_token(*parts: str) -> str:
    return urlsafe_b64encode(msgspec.json.encode(parts)).decode("ascii").rstrip("=")


def decode_token(token: str, length: int) -> list[str]:
    """Return the parts. `InvalidValue` if this is not a token of this kind."""
    try:
        padded = token + "=" * (-len(token) % 4)
        parts = msgspec.json.decode(urlsafe_b64decode(padded), type=list[str])
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError) as exc:
        raise InvalidValue("the continuation token is not one that this store returned") from exc
    if len(parts) != length or any("\0" in part for part in parts):
        raise InvalidValue("the continuation token is not one that this store returned")
    return parts
