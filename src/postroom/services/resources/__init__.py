"""What the API and the command line show as JSON, each resource defined once.

The classes become the schemas of the OpenAPI document; `describe_…` makes them from what the
services return. Names are in snake_case; an address is `email` and a list is `list` everywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar, overload

import msgspec
from msgspec import Meta

T = TypeVar("T")

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON object with exactly these fields."""


class Index(Resource, Generic[T], frozen=True):
    """A part of a collection; pass `next` as `after` to get the rest, until it is null."""

    items: list[T]
    next: str | None = None


@overload
def describe_time(moment: datetime) -> str: ...
@overload
def describe_time(moment: None) -> None: ...
@overload
def describe_time(moment: datetime | None) -> str | None: ...
def describe_time(moment: datetime | None) -> str | None:
    """Return ISO 8601 in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
