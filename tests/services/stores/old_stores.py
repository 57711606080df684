"""Stores as earlier versions wrote them, put into any engine through the storage contract."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from postroom.storage import Entity, Store, Value

_FOLDER = Path(__file__).parents[2] / "fixtures" / "stores"


async def fill_with(store: Store, name: str) -> None:
    """Write all tables, queues and blobs of a stored dump into an empty store."""
    dump = json.loads((_FOLDER / f"{name}.json").read_text())
    for table, rows in dump["tables"].items():
        for partition, row, properties in rows:
            values = {key: _value(value) for key, value in properties.items()}
            await store.table(table).insert(Entity(partition, row, values))
    for queue, bodies in dump["queues"].items():
        await store.queue(queue).put_many(bodies)
    for container, blobs in dump["blobs"].items():
        for blob, text in blobs.items():
            await store.container(container).put(blob, text.encode())


def _value(value: Any) -> Value:
    match value:
        case {"moment": moment}:
            return datetime.fromisoformat(moment)
        case {"hex": digits}:
            return bytes.fromhex(digits)
        case _:
            return value  # type: ignore[no-any-return]
