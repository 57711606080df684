"""Property values as Azure Tables keeps them, and back.

Text, booleans, floats, timestamps and bytes have a type of their own there; integers are always
Int64. A text property holds only 32 Ki characters, so text that no filter can see anyway
(`limits.COMPARABLE_TEXT`) is kept as UTF-8 bytes behind a tag that says so. Bytes that happen to
begin with a tag are kept behind another one. The tag is a part of the value, so a merge changes
value and type in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from azure.data.tables import EdmType, EntityProperty

from postroom.storage import codec, limits
from postroom.storage.azure import keys
from postroom.storage.contract import Entity
from postroom.storage.values import Properties, Value

# 0xFF occurs in no UTF-8 text.
_TEXT: Final = b"\xfft:"
_BYTES: Final = b"\xffb:"


def written_entity(partition: str, row: str, properties: Properties) -> dict[str, Any]:
    """The entity as the SDK takes it."""
    return {
        "PartitionKey": keys.encode(partition),
        "RowKey": keys.encode(row),
        **{name: _written(value) for name, value in properties.items()},
    }


def read_entity(found: Mapping[str, Any], etag: str) -> Entity:
    """The entity that the SDK gave."""
    properties = {name: _read(value) for name, value in found.items()}
    partition, row = properties.pop("PartitionKey"), properties.pop("RowKey")
    return Entity(keys.decode(str(partition)), keys.decode(str(row)), properties, etag)


def written_timestamp(value: datetime) -> str:
    return str(codec.written_as(value))


def _written(value: Value) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limits.COMPARABLE_TEXT else _TEXT + value.encode()
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return EntityProperty(value, EdmType.INT64)
    if isinstance(value, datetime):
        return EntityProperty(written_timestamp(value), EdmType.DATETIME)
    return _BYTES + value if value.startswith((_TEXT, _BYTES)) else value


def _read(value: Any) -> Value:
    """The plain value. Types that only other programs write (Int32, GUID) come as the nearest."""
    if isinstance(value, EntityProperty):
        value = value.value
    if type(value) in (str, int, float, bool):
        plain: Value = value
        return plain
    if isinstance(value, datetime):
        return datetime.combine(value.date(), value.time(), UTC)
    if isinstance(value, bytes):
        if value.startswith(_TEXT):
            return value.removeprefix(_TEXT).decode()
        return value.removeprefix(_BYTES)
    return str(value)
