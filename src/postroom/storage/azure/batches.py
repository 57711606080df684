"""The size of a batch's request: Azure accepts 4 MiB, and refuses more only after receiving it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from azure.data.tables import EntityProperty

from postroom.storage.errors import TooLarge

_PAYLOAD_BYTES: Final = 4 * 1024 * 1024
# Headers, boundaries and the address of one operation, without its keys.
_OPERATION_BYTES: Final = 1000
# `"NAME@odata.type":"Edm.DateTime",` and the punctuation of the value.
_PROPERTY_BYTES: Final = 48
# A character takes up to 12 bytes in a URL (four of UTF-8, each in percent form) and in JSON (two
# escapes), and a key stands in both.
_KEY_FACTOR: Final = 24


def check_payload(requests: Sequence[tuple[str, Mapping[str, Any], Any]]) -> None:
    """Raise `TooLarge` if Azure would refuse the batch: 4 MiB, which it checks only at the end."""
    entities = [entity for _, entity, _ in requests]
    # Most batches are far from the limit even if every character took the most that it can.
    if sum(_size(entity, exact=False) for entity in entities) <= _PAYLOAD_BYTES:
        return
    size = sum(_size(entity, exact=True) for entity in entities)
    if size > _PAYLOAD_BYTES:
        raise TooLarge(
            f"a batch must have at most {_PAYLOAD_BYTES:,} bytes, not {size:,}: make it smaller"
        )


def _size(entity: Mapping[str, Any], *, exact: bool) -> int:
    size = _OPERATION_BYTES
    for name, value in entity.items():
        size += 2 * len(name) + _PROPERTY_BYTES
        if isinstance(value, bytes):
            size += 4 * (len(value) // 3 + 1)
        elif isinstance(value, str):
            if name in ("PartitionKey", "RowKey"):
                size += _KEY_FACTOR * len(value)
            else:
                size += len(json.dumps(value)) if exact else 12 * len(value)
        elif isinstance(value, EntityProperty):
            size += len(str(value.value))
        else:
            size += 24
    return size
