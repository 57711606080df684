"""The query parameters that a page reads, found out by watching it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.datastructures import QueryParams


@contextmanager
def recorded_parameters() -> Iterator[set[str]]:
    """Collect the names of all query parameters that the site of this test reads meanwhile."""
    names: set[str] = set()
    get, getlist = QueryParams.get, QueryParams.getlist

    def recording_get(params: QueryParams, key: Any, default: Any = None) -> Any:
        names.add(key)
        return get(params, key, default)

    def recording_getlist(params: QueryParams, key: Any) -> list[Any]:
        names.add(key)
        return getlist(params, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryParams, "get", recording_get)
        patch.setattr(QueryParams, "getlist", recording_getlist)
        yield names
