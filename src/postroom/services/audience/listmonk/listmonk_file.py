"""A list of listmonk as a CSV file, which is then imported like any other.

| column            | holds                                                                   |
|-------------------|-------------------------------------------------------------------------|
| `email`, `name`   | as in listmonk                                                          |
| `status`          | the strictest of the subscriber's status and the status on the list     |
| `created_at`      | when listmonk first knew the subscriber                                 |
| `uuid`            | the subscriber in listmonk's unsubscribe links                          |
| one per attribute | its value; several are separated by `|`, and objects are JSON           |

Subscribers are read twice: from the API into a temporary file, and from there once all attributes
are known. So memory does not depend on their number.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, cast

import msgspec

from postroom.domain.audience.fields import MOST_FIELDS, value_text
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import protected, squeezed
from postroom.services.audience.listmonk.listmonk_api import (
    ListmonkApi,
    ListmonkList,
    ListmonkSubscriber,
)

COLUMNS: Final = ("email", "name", "status", "created_at", "uuid")
USES: Final = (
    ("name", "name"),
    ("status", "status"),
    ("created_at", "joined"),
    ("uuid", "foreign_id"),
)
"""What the columns are used for, as in `columns.parse_choice`."""

_TRIES: Final = 3
_OF_SUBSCRIBER: Final = {"blocklisted": "blocklisted", "disabled": "unsubscribed"}

OnRead = Callable[[int, int], None]
"""Called with how many subscribers were read, and how many there are."""


async def listmonk_file(api: ListmonkApi, source: ListmonkList, on_read: OnRead) -> BinaryIO:
    """Return a temporary file with all subscribers of a list. `Invalid`.

    Pages are numbered, so if a subscriber is deleted while we read, another one may be missed. Then
    the list is read again.
    """
    for _ in range(_TRIES):
        lines, keys, is_complete = await _read(api, source, on_read)
        with lines:
            if is_complete:
                return await asyncio.to_thread(_as_csv, lines, keys, source)
    problem = "subscribers are deleted from the list while it is read: import it when nobody does"
    raise Invalid("list", problem)


async def _read(
    api: ListmonkApi, source: ListmonkList, on_read: OnRead
) -> tuple[BinaryIO, dict[str, None], bool]:
    """Return the subscribers as lines of JSON, all keys of their attributes, and whether none can
    be missing."""
    lines = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - the caller closes it
    keys: dict[str, None] = {}
    encoder = msgspec.json.Encoder()
    count, largest, total = 0, 0, 0
    try:
        async for part in api.subscribers(source.id):
            found = part.results or []
            for each in found:
                if isinstance(each.attribs, dict):
                    keys |= dict.fromkeys(each.attribs)
            if len(keys) > MOST_FIELDS:
                problem = f"has more than {MOST_FIELDS} attributes, the maximum fields of a list"
                raise Invalid("list", problem)
            await asyncio.to_thread(lines.write, encoder.encode_lines(found))
            count, largest, total = count + len(found), max(largest, part.total), part.total
            on_read(count, total)
    except BaseException:
        lines.close()
        raise
    return lines, keys, total == largest


def _as_csv(lines: BinaryIO, keys: dict[str, None], source: ListmonkList) -> BinaryIO:
    binary = TemporaryFile()  # noqa: SIM115 - the caller closes it
    text = io.TextIOWrapper(cast(BinaryIO, binary), "utf-8", newline="")
    writer = csv.writer(text)
    attributes = dict(_named(keys))
    writer.writerow((*COLUMNS, *map(protected, attributes.values())))
    lines.seek(0)
    decoder = msgspec.json.Decoder(ListmonkSubscriber)
    for line in lines:
        each = decoder.decode(line)
        known = each.attribs if isinstance(each.attribs, dict) else {}
        row = (
            each.email,
            each.name,
            _status(each, source),
            each.created_at or "",
            each.uuid,
            *(_cell(known.get(key)) for key in attributes),
        )
        writer.writerow(map(protected, row))
    text.flush()
    text.detach()
    return cast(BinaryIO, binary)


def _named(keys: dict[str, None]) -> Iterator[tuple[str, str]]:
    """Yield attributes with the names of their columns; one with the same name as another column
    is marked."""
    for key in keys:
        name = " ".join(key.split())
        if squeezed(name) in {squeezed(each) for each in COLUMNS}:
            name = f"{name} (attribute)"
        if squeezed(name):
            yield key, name


def _status(subscriber: ListmonkSubscriber, source: ListmonkList) -> str:
    """Return the state of a subscriber on the list, as a word of `meanings.STATUS_WORDS`.

    Single opt-in lists of listmonk send to people who have never confirmed. It says nothing about
    these, so that the person who imports them decides.
    """
    if subscriber.status in _OF_SUBSCRIBER:
        return _OF_SUBSCRIBER[subscriber.status]
    found = next((each for each in subscriber.lists or () if each.id == source.id), None)
    status = found.subscription_status if found is not None else ""
    if status == "unconfirmed" and source.optin == "single":
        return ""
    return status or "unconfirmed"


def _cell(value: Any) -> str:
    """Return the value of an attribute as a cell."""
    is_plain = not isinstance(value, dict) and not (
        isinstance(value, list) and any(isinstance(each, dict | list) for each in value)
    )
    return value_text(value) if is_plain else msgspec.json.encode(value).decode()
